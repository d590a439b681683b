package verify

import (
	"fmt"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// checkRevisions walks changelog, manifests and files, and once more for each
// span of paths that did not fit into memory before.
func (v *verifier) checkRevisions() error {
	for lo := uint64(0); lo < allHashes; {
		n := newNames(v.seed, lo, v.o.MaxNames)
		first := lo == 0
		for _, walk := range []func(*names, bool) error{v.walkChangelog, v.walkManifests} {
			if err := walk(n, first); err != nil {
				return err
			}
		}
		if first {
			v.checkReferred()
		}
		n.sort()
		if err := v.checkFiles(n); err != nil {
			return err
		}
		lo = n.hi
	}
	return nil
}

// walkChangelog notes what the changesets say of files. The first walk reports
// what is wrong with them.
func (v *verifier) walkChangelog(n *names, first bool) error {
	if v.changelog == nil {
		v.badChangesets = true
		return nil
	}
	snap := v.changelog.snap
	if first {
		v.manifestOf = make([]hg.Rev, v.n)
		for r := range v.manifestOf {
			v.manifestOf[r] = manifestUnknown
		}
	}
	rd := snap.Reader(0)
	revs := v.pick(v.changelog.radix, v.n)
	branches, err := v.readBranches()
	if err != nil {
		return err
	}
	for i, r := range revs {
		if err := v.step("changesets", i, len(revs)); err != nil {
			return err
		}
		c, ok := v.changeset(rd, r, first)
		if !ok {
			continue
		}
		if first {
			v.counts.Changesets++
			v.checkManifestOf(r, c)
			v.checkBranch(branches, r, c)
		}
		for _, f := range c.Files() {
			n.list(f, r)
		}
	}
	return nil
}

// changeset reads a changeset.
func (v *verifier) changeset(rd *revlog.Reader, r hg.Rev, first bool) (c store.Changeset, ok bool) {
	l := v.changelog
	if first {
		if link := l.snap.LinkRev(r); link != r {
			l.report(r, remedyRestore, "it points to changeset %d", link)
		}
	}
	if !first {
		text, err := rd.Text(r)
		if err != nil {
			return c, false
		}
		c, err = store.ParseChangeset(text)
		return c, err == nil
	}
	text, ok := l.text(rd, r)
	if ok {
		var err error
		if c, err = store.ParseChangeset(text); err != nil {
			l.report(r, remedyRestore, "%v", err)
			ok = false
		}
	}
	if !ok {
		v.badChangesets = true
	}
	return c, ok
}

// The files of the cache of branches; see store.RevBranches.
const (
	branchNamesName = "cache/rbc-names-v1"
	branchRevsName  = "cache/rbc-revs-v1"
)

// readBranches reads the cache of each changeset's branch, which vcsd and hg
// believe.
func (v *verifier) readBranches() (*store.RevBranches, error) {
	// Records point to names, so those are read last.
	revs, err := v.readWhole(branchRevsName)
	if err != nil {
		return nil, err
	}
	names, err := v.readWhole(branchNamesName)
	return store.ParseRevBranches(names, revs), err
}

// checkBranch compares what the cache says of a changeset with the changeset.
func (v *verifier) checkBranch(cache *store.RevBranches, r hg.Rev, c store.Changeset) {
	node := v.changelog.snap.Node(r)
	name, closes, ok := cache.Branch(r, node)
	if ok && (name != c.Branch() || closes != c.Closes()) {
		v.report(Finding{
			File: branchRevsName, Rev: r, Node: node, Remedy: remedyCache,
			Problem: fmt.Sprintf("it has branch %q, closed %v; the changeset has %q, %v", name, closes, c.Branch(), c.Closes()),
		})
	}
}

// checkManifestOf looks for the manifest of a changeset.
func (v *verifier) checkManifestOf(r hg.Rev, c store.Changeset) {
	if v.manifest == nil || v.manifest.snap.Len() == 0 {
		if !c.Manifest.IsNull() && v.manifest != nil && !v.badManifests {
			v.badManifests = true
			v.reportFile(v.manifest.index, remedyRestore, "empty or missing, though changeset %d has manifest %s", r, c.Manifest)
		}
		return
	}
	m, ok := v.manifest.snap.Rev(c.Manifest)
	if !ok {
		v.manifestOf[r] = manifestMissing
		v.changelog.report(r, remedyRestore, "its manifest %s is missing", c.Manifest)
		return
	}
	v.manifestOf[r] = m
}

// checkReferred reports manifests that no changeset has.
func (v *verifier) checkReferred() {
	if v.manifest == nil || v.badChangesets || v.o.Sample > 0 {
		return
	}
	snap := v.manifest.snap
	referred := make([]bool, snap.Len())
	for _, m := range v.manifestOf {
		if m >= 0 {
			referred[m] = true
		}
	}
	for m, is := range referred {
		if r := hg.Rev(m); !is && int(snap.LinkRev(r)) < v.n {
			v.manifest.report(r, remedyRestore, "no changeset has this manifest")
		}
	}
}

// walkManifests notes what the manifests name. The first walk reports what is
// wrong with them.
func (v *verifier) walkManifests(n *names, first bool) error {
	if v.manifest == nil {
		v.badManifests = true
		return nil
	}
	w := &manifestWalk{v: v, n: n, first: first, rd: v.manifest.snap.Reader(0), deltas: v.manifest.snap.Reader(0), bad: make(map[hg.Rev]bool)}
	revs := v.pick(v.manifest.radix, v.manifest.snap.Len())
	for i, r := range revs {
		if err := v.step("manifests", i, len(revs)); err != nil {
			return err
		}
		if err := w.visit(r); err != nil {
			return err
		}
	}
	if first {
		v.manifest.reportDangling()
	}
	return nil
}

// manifestWalk is one walk over the manifests.
type manifestWalk struct {
	v          *verifier
	n          *names
	first      bool
	rd, deltas *revlog.Reader
	bad        map[hg.Rev]bool // that are not sound
}

func (w *manifestWalk) visit(r hg.Rev) error {
	v := w.v
	link := v.manifest.snap.LinkRev(r)
	if w.first {
		ok, err := v.manifest.links(r, link)
		if err != nil {
			return err
		}
		if ok {
			w.checkLink(r, link)
		}
	}
	if v.changelog != nil && int(link) >= v.n {
		return nil // of a later push, or it has been reported
	}
	if !w.names(r) {
		w.bad[r] = true
		v.badManifests = true
	}
	return nil
}

// checkLink tells whether the changeset that a manifest points to has it.
func (w *manifestWalk) checkLink(r, link hg.Rev) {
	v := w.v
	has := v.manifestOf[link]
	if has == manifestUnknown && v.o.Sample > 0 {
		if c, err := v.readChangeset(link); err == nil {
			if m, ok := v.manifest.snap.Rev(c.Manifest); ok {
				has = m
			}
		}
	}
	if has != manifestUnknown && has != r {
		v.manifest.report(r, remedyRestore, "it points to changeset %d, which has another manifest", link)
	}
}

// readChangeset reads a changeset that was not drawn.
func (v *verifier) readChangeset(r hg.Rev) (store.Changeset, error) {
	text, err := v.changelog.snap.Text(r)
	if err != nil {
		return store.Changeset{}, err
	}
	return store.ParseChangeset(text)
}

// names notes what a manifest names beyond the one that it is a delta of. It
// tells whether the manifest is sound.
func (w *manifestWalk) names(r hg.Rev) bool {
	l := w.v.manifest
	var text []byte
	if w.first {
		var ok bool
		if text, ok = l.text(w.rd, r); !ok {
			return false
		}
		w.v.counts.Manifests++
	} else {
		var err error
		if text, err = w.rd.Text(r); err != nil {
			return false
		}
	}
	err := w.entries(r, text)
	if err != nil && w.first {
		l.report(r, remedyRestore, "%v", err)
	}
	return err == nil
}

func (w *manifestWalk) entries(r hg.Rev, text []byte) error {
	note := func(e store.ManifestEntry) error {
		if string(e.Path) != devNull {
			w.n.name(e.Path, e.Node, r)
		}
		return nil
	}
	base := w.v.manifest.snap.DeltaBase(r)
	if base == r || w.bad[base] || w.v.o.Sample > 0 {
		return store.Entries(text, note)
	}
	delta, err := w.deltas.Delta(r)
	if err != nil {
		return err
	}
	return store.TouchedEntries(text, delta, note)
}

// devNull stands in manifests of very old repositories, and means nothing.
const devNull = "/dev/null"
