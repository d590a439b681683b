package outgoing

import (
	"context"
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/revlog/delta"
	"vcsd/wire/changegroup"
)

// changegroupWriter writes the changegroup of a selection.
type changegroupWriter struct {
	sel     *selection
	w       *changegroup.Writer
	version changegroup.Version

	// sentFile, if not nil, is told the name of each file that is sent.
	sentFile func(path string)

	// empty are files without any revision, where all is sent.
	empty []string
}

// writeChangegroup writes changesets, manifests and files of a selection.
func writeChangegroup(ctx context.Context, sel *selection, w *changegroup.Writer, v changegroup.Version) error {
	g := &changegroupWriter{sel: sel, w: w, version: v}
	return g.write(ctx)
}

func (g *changegroupWriter) write(ctx context.Context) error {
	if err := g.w.StartChangelog(); err != nil {
		return err
	}
	cl := g.sel.view.Changelog()
	self := func(r hg.Rev) hg.Node { return cl.Node(r) }
	if err := g.revisions(ctx, cl, g.sel.revs, self); err != nil {
		return err
	}
	files, err := g.manifests(ctx)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := g.file(ctx, path, files[path]); err != nil {
			return err
		}
	}
	if err := checkLost(ctx, g.sel.view, g.empty); err != nil {
		return err
	}
	return g.w.Close()
}

// links maps revisions of one log, by node, to the changeset they are sent
// with. Nil stands for all revisions, each with its own linkrev.
type links map[hg.Node]hg.Rev

// manifests sends the manifests and returns the file revisions that the
// client will need.
func (g *changegroupWriter) manifests(ctx context.Context) (map[string]links, error) {
	if err := g.w.StartManifest(); err != nil {
		return nil, err
	}
	if g.sel.all {
		return g.allManifests(ctx)
	}
	m, err := newManifestWalk(ctx, g.sel)
	if err != nil {
		return nil, err
	}
	cl := g.sel.view.Changelog()
	if err := g.revisions(ctx, g.sel.view.Manifest(), m.revs, func(r hg.Rev) hg.Node { return cl.Node(m.link[r]) }); err != nil {
		return nil, err
	}
	return m.files, nil
}

// allManifests serves a client that gets everything: whatever is linked to a
// changeset goes, and no manifest has to be looked into.
func (g *changegroupWriter) allManifests(ctx context.Context) (map[string]links, error) {
	mf, cl := g.sel.view.Manifest(), g.sel.view.Changelog()
	if err := g.revisions(ctx, mf, g.linked(mf), func(r hg.Rev) hg.Node { return cl.Node(mf.LinkRev(r)) }); err != nil {
		return nil, err
	}
	paths, err := filePaths(ctx, g.sel.view)
	files := make(map[string]links, len(paths))
	for _, path := range paths {
		files[path] = nil
	}
	return files, err
}

// linked returns the revisions of a log that belong to changesets of the View.
func (g *changegroupWriter) linked(s *revlog.Snapshot) []hg.Rev {
	revs := make([]hg.Rev, 0, s.Len())
	for r := hg.Rev(0); int(r) < s.Len(); r++ {
		if int(s.LinkRev(r)) < g.sel.view.Len() {
			revs = append(revs, r)
		}
	}
	return revs
}

// file sends what the client needs of one file, if there is any.
func (g *changegroupWriter) file(ctx context.Context, path string, need links) error {
	log, err := g.sel.view.Filelog(ctx, path)
	if err != nil {
		return err
	}
	defer log.Close()
	cl := g.sel.view.Changelog()
	linkNode := func(r hg.Rev) hg.Node { return cl.Node(log.LinkRev(r)) }
	var revs []hg.Rev
	if need == nil {
		revs = g.linked(log)
		if log.Len() == 0 {
			g.empty = append(g.empty, path)
		}
	} else if revs, err = g.needed(log, path, need); err != nil {
		return err
	} else {
		linkNode = func(r hg.Rev) hg.Node { return cl.Node(need[log.Node(r)]) }
	}
	if len(revs) == 0 {
		return nil
	}
	if g.sentFile != nil {
		g.sentFile(path)
	}
	if err := g.w.StartFile(path); err != nil {
		return err
	}
	return g.revisions(ctx, log, revs, linkNode)
}

// needed returns the revisions of a log that the client needs and lacks,
// ascending.
func (g *changegroupWriter) needed(log *revlog.Snapshot, path string, need links) ([]hg.Rev, error) {
	revs := make([]hg.Rev, 0, len(need))
	for n := range need {
		r, ok := log.Rev(n)
		if !ok {
			return nil, lacks(log.Name(), path, n)
		}
		if !g.sel.clientHas(log.LinkRev(r)) {
			revs = append(revs, r)
		}
	}
	slices.Sort(revs)
	return revs, nil
}

// revisions sends revisions of one log, ascending, as one group.
func (g *changegroupWriter) revisions(ctx context.Context, s *revlog.Snapshot, revs []hg.Rev, linkNode func(hg.Rev) hg.Node) error {
	d := deltaSource{sel: g.sel, log: s, read: s.Reader(0), anyBase: g.version != changegroup.V01, sent: make(map[hg.Rev]struct{}, len(revs))}
	prev := hg.NullRev
	for i, r := range revs {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p1, p2 := s.Parents(r)
		if i == 0 {
			prev = p1
		}
		base, head, diff, err := d.delta(r, p1, prev)
		if err != nil {
			return err
		}
		h := changegroup.Header{Node: s.Node(r), P1: s.Node(p1), P2: s.Node(p2), Base: s.Node(base), Link: linkNode(r), Flags: s.Flags(r)}
		if g.version < changegroup.V03 {
			// There is no place for flags. Clients know a censored text by how it
			// begins.
			h.Flags &^= hg.FlagCensored
		}
		if err := g.w.WriteDelta(h, head, diff); err != nil {
			return err
		}
		d.sent[r] = struct{}{}
		prev = r
	}
	return g.w.EndGroup()
}

// deltaSource picks the delta to send of each revision of one log.
type deltaSource struct {
	sel     *selection
	log     *revlog.Snapshot
	read    *revlog.Reader
	sent    map[hg.Rev]struct{}
	anyBase bool // else the base must be prev

	fullHead []byte // scratch
}

// delta returns the delta to send of r, in two parts, and its base. The slices
// are valid until the next call.
func (d *deltaSource) delta(r, p1, prev hg.Rev) (base hg.Rev, head, diff []byte, err error) {
	base = d.log.DeltaBase(r)
	full := base == r
	if full {
		base = hg.NullRev
	}
	if d.usable(base, prev) {
		diff, err := d.read.Delta(r)
		if err == nil && full {
			head = d.full(diff)
		}
		return base, head, diff, err
	}
	base = d.otherBase(p1, prev)
	text, err := d.read.Text(r)
	if err != nil {
		return base, nil, nil, err
	}
	if base == hg.NullRev {
		return base, d.full(text), text, nil
	}
	if d.censored(r) || d.censored(base) {
		return base, nil, delta.Replace(int(d.log.TextLen(base)), text), nil
	}
	baseText, err := d.log.Text(base)
	if err != nil {
		return base, nil, nil, err
	}
	return base, nil, delta.Diff(baseText, text), nil
}

// full returns what goes before a text to make it a delta: the text itself, which
// may be long, is not copied.
func (d *deltaSource) full(text []byte) []byte {
	d.fullHead = delta.AppendFullHeader(d.fullHead[:0], len(text))
	return d.fullHead
}

// usable tells whether the client can apply a delta against base.
func (d *deltaSource) usable(base, prev hg.Rev) bool {
	if !d.anyBase {
		return base == prev
	}
	return base == hg.NullRev || d.clientHas(base)
}

func (d *deltaSource) clientHas(r hg.Rev) bool {
	if _, ok := d.sent[r]; ok {
		return true
	}
	return d.sel.clientHas(d.log.LinkRev(r))
}

// censored tells whether the text of a revision was replaced by a tombstone.
// Deltas to and from such a one replace the whole text, so that they fit
// whichever text the client has.
func (d *deltaSource) censored(r hg.Rev) bool {
	return r != hg.NullRev && d.log.Flags(r)&hg.FlagCensored != 0
}

// otherBase picks a base for a delta that has to be computed.
func (d *deltaSource) otherBase(p1, prev hg.Rev) hg.Rev {
	fits := func(r hg.Rev) bool { return r != hg.NullRev && !d.censored(r) && d.clientHas(r) }
	switch {
	case !d.anyBase:
		return prev
	case fits(p1):
		return p1
	case fits(prev):
		return prev
	}
	return hg.NullRev
}
