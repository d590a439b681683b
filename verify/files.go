package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// checkFiles checks the logs of a span's files.
func (v *verifier) checkFiles(n *names) error {
	if v.o.Sample > 0 {
		v.addListed(n)
	}
	ids := n.sortedIDs()
	for i, id := range ids {
		if err := v.step("files", i, len(ids)); err != nil {
			return err
		}
		if err := v.checkFile(n, id); err != nil {
			return err
		}
	}
	v.reportLeftovers(n)
	return v.checkOrphans(n)
}

// addListed adds the files of the listing to those that a sample names.
func (v *verifier) addListed(n *names) {
	if v.listing == nil {
		return
	}
	for name := range v.listing.names {
		if p, ok := trackedName(name); ok {
			n.id([]byte(p))
		}
	}
}

// trackedName returns the name in the working copy of a file whose index has
// this name in the store.
func trackedName(name string) (string, bool) {
	p, ok := strings.CutPrefix(name, "data/")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(p, ".i")
}

// fileLog returns a file's log, which is not open yet. A missing one is empty.
func (v *verifier) fileLog(name string) *log {
	index := "store/" + v.enc.Encode("data/"+name+".i")
	return &log{
		v: v, path: name, index: index, radix: strings.TrimSuffix(index, ".i"),
		data: "store/" + v.enc.Encode("data/"+name+".d"),
	}
}

func (v *verifier) checkFile(n *names, id uint32) error {
	p := &n.paths[id]
	first, isListed := n.firstLister(id)
	if err := store.CheckPath(p.name); err != nil {
		p.gone = true
		v.report(Finding{File: "store/00manifest.i", Path: p.name, Rev: hg.NullRev, Problem: err.Error(), Remedy: remedyRestore})
		return nil
	}
	l := v.fileLog(p.name)
	if !l.open() {
		p.gone = true
		return nil
	}
	defer l.close()
	if l.snap.Len() == 0 {
		p.gone = true
		at := "manifests name revisions of it"
		if isListed {
			at = fmt.Sprintf("changeset %d changes it", first)
		} else if v.o.Sample > 0 {
			return nil // of a later push, or stripped
		}
		l.report(hg.NullRev, remedyRestore, "empty or missing, though %s", at)
		return nil
	}
	if err := l.checkIndex(); err != nil {
		return err
	}
	if err := v.checkListed(l); err != nil {
		return err
	}
	v.counts.Files++
	return v.checkFileRevs(n, id, l)
}

// checkFileRevs checks the revisions of a file.
func (v *verifier) checkFileRevs(n *names, id uint32, l *log) error {
	c := &fileCheck{v: v, n: n, id: id, log: l, rd: l.snap.Reader(0)}
	picked := v.pick(l.radix, l.snap.Len())
	for r := range hg.Rev(l.snap.Len()) {
		key := fileRev{id, l.snap.Node(r)}
		_, named := n.named[key]
		delete(n.named, key)
		if len(picked) == 0 || picked[0] != r {
			continue
		}
		picked = picked[1:]
		if err := c.visit(r, named); err != nil {
			return err
		}
	}
	l.reportDangling()
	c.checkWhole()
	return nil
}

// A fileCheck checks one file's log.
type fileCheck struct {
	v     *verifier
	n     *names
	id    uint32
	log   *log
	rd    *revlog.Reader
	names int // revisions of it that manifests name
}

func (c *fileCheck) visit(r hg.Rev, named bool) error {
	v, l := c.v, c.log
	if named {
		c.names++
	}
	link := l.snap.LinkRev(r)
	known, err := l.links(r, link)
	if err != nil {
		return err
	}
	if !known && v.changelog != nil {
		return nil // of a later push, or reported
	}
	v.counts.FileRevisions++
	if known {
		c.checkLink(r, link)
	}
	if !named && !v.badManifests && !v.badChangesets && v.o.Sample == 0 {
		l.report(r, remedyRestore, "no manifest names it")
	}
	text, ok := l.text(c.rd, r)
	if ok && l.snap.Flags(r)&(hg.FlagCensored|hg.FlagExtStored) == 0 {
		return v.checkCopy(l, r, text)
	}
	return nil
}

// checkLink tells whether the changeset that a revision points to changes the
// file.
func (c *fileCheck) checkLink(r, link hg.Rev) {
	v := c.v
	lists := c.n.lists(c.id, link)
	if !lists && v.o.Sample > 0 {
		cs, err := v.readChangeset(link)
		lists = err != nil || slices.ContainsFunc(cs.Files(), func(f []byte) bool { return string(f) == c.log.path })
	}
	if !lists && v.manifestOf[link] != manifestUnknown || !lists && v.o.Sample > 0 {
		c.log.report(r, remedyRestore, "it points to changeset %d, which does not change the file", link)
	}
}

// checkWhole checks what can be told with all of the changesets and manifests.
func (c *fileCheck) checkWhole() {
	v := c.v
	if v.o.Sample > 0 || v.badChangesets || v.badManifests {
		return
	}
	first, isListed := c.n.firstLister(c.id)
	switch {
	case isListed && c.names == 0:
		c.log.report(hg.NullRev, remedyRestore, "changeset %d changes it, and no manifest names a revision that there is", first)
	case !isListed && c.names > 0:
		c.log.report(hg.NullRev, remedyRestore, "manifests name it, and no changeset changes it")
	}
}

// checkCopy looks for the source of a revision that is a copy.
func (v *verifier) checkCopy(l *log, r hg.Rev, text []byte) error {
	meta, _ := store.SplitFileText(text)
	from, ok := store.ParseCopy(meta)
	if !ok || from.Node.IsNull() {
		return nil
	}
	name := string(from.Path)
	if store.CheckPath(name) != nil {
		l.report(r, remedyRestore, "it is a copy of %q, which is no file's name", name)
		return nil
	}
	if v.source == nil || v.source.path != name {
		src := v.fileLog(name)
		if !src.open() {
			return nil
		}
		v.source.close()
		v.source = src
	}
	if _, ok := v.source.snap.Rev(from.Node); !ok {
		l.report(r, remedyRestore, "it is a copy of %q, whose revision %s is missing", name, from.Node)
	}
	return nil
}

// reportLeftovers reports the file revisions that manifests name and that are in
// no log.
func (v *verifier) reportLeftovers(n *names) {
	for _, f := range n.leftovers() {
		l := v.fileLog(n.paths[f.path].name)
		where := ""
		if link := v.manifest.snap.LinkRev(f.manifest); v.changelog != nil && link >= 0 && int(link) < v.n {
			where = fmt.Sprintf(" of changeset %d", link)
		}
		v.report(Finding{
			File: l.index, Path: l.path, Rev: hg.NullRev, Node: f.node,
			Problem: fmt.Sprintf("manifest %d%s names this revision, which is missing", f.manifest, where), Remedy: remedyRestore,
		})
	}
}

// checkOrphans looks at the files of the listing that nothing led to.
func (v *verifier) checkOrphans(n *names) error {
	if v.listing == nil {
		return nil
	}
	for _, name := range v.listing.sorted() {
		file, isIndex := trackedName(name)
		if !isIndex {
			if file, isIndex = strings.CutSuffix(strings.TrimPrefix(name, "data/"), ".d"); !isIndex {
				continue // hg passes it over too; hg censor leaves such names
			}
		}
		if !n.has([]byte(file)) {
			continue
		}
		if err := v.checkOrphan(n, name, file); err != nil {
			return err
		}
	}
	return nil
}

// checkOrphan checks one file of the listing.
func (v *verifier) checkOrphan(n *names, name, file string) error {
	if store.CheckPath(file) != nil {
		v.reportFile(fncacheName, remedyFNCache, "it lists %q, which is no file's name", name)
		return nil
	}
	onDisk := "store/" + v.enc.Encode(name)
	info, err := v.fs.Stat(onDisk)
	if errors.Is(err, fs.ErrNotExist) {
		if id, known := n.ids[file]; known && n.paths[id].gone {
			return nil // reported
		}
		return v.reportIfStays(name, onDisk)
	}
	if err != nil {
		return err
	}
	_, known := n.ids[file]
	if known || info.Size == 0 || v.o.Sample > 0 || v.badManifests || v.badChangesets || v.changelog == nil {
		return nil
	}
	l := v.fileLog(file)
	if !l.open() {
		return nil
	}
	defer l.close()
	if l.snap.Len() > 0 && int(l.snap.LinkRev(0)) >= v.n {
		_, err := l.links(0, l.snap.LinkRev(0))
		l.reportDangling()
		return err
	}
	v.report(Finding{File: onDisk, Path: file, Rev: hg.NullRev, Problem: "no changeset and no manifest leads to it", Remedy: remedyOrphan})
	return nil
}
