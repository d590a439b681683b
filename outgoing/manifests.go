package outgoing

import (
	"context"
	"fmt"
	"slices"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// A manifestWalk finds what a partial pull has to send beside changesets:
// the manifests that its changesets name, and the file revisions that those
// name and the client lacks.
type manifestWalk struct {
	sel   *selection
	mf    *revlog.Snapshot
	texts lanes             // of mf
	revs  []hg.Rev          // manifests to send, ascending
	link  map[hg.Rev]hg.Rev // of revs: the first changeset that names each
	files map[string]links
}

func newManifestWalk(ctx context.Context, sel *selection) (*manifestWalk, error) {
	m := &manifestWalk{
		sel: sel, mf: sel.view.Manifest(), link: make(map[hg.Rev]hg.Rev), files: make(map[string]links),
	}
	m.texts.s = m.mf
	if err := m.findManifests(ctx); err != nil {
		return nil, err
	}
	for _, r := range m.revs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.findFiles(r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// findManifests fills revs and link.
func (m *manifestWalk) findManifests(ctx context.Context) error {
	err := eachChangeset(ctx, m.sel.view, slices.Values(m.sel.revs), func(r hg.Rev, c *store.Changeset) error {
		mr, ok := m.mf.Rev(c.Manifest)
		if !ok {
			return &revlog.CorruptError{File: m.mf.Name(), Rev: hg.NullRev, Err: errNoManifest(r, c.Manifest)}
		}
		if mr == hg.NullRev || m.sel.clientHas(m.mf.LinkRev(mr)) {
			return nil
		}
		if _, ok := m.link[mr]; !ok {
			m.link[mr] = r
			m.revs = append(m.revs, mr)
		}
		return nil
	})
	slices.Sort(m.revs)
	return err
}

// findFiles notes the file revisions that a manifest adds to one whose file
// revisions the client has or gets: its delta's base if that is such a one,
// else to none at all.
func (m *manifestWalk) findFiles(r hg.Rev) error {
	note := func(e store.ManifestEntry) error {
		m.need(string(e.Path), e.Node, m.link[r])
		return nil
	}
	text, err := m.texts.text(r)
	if err != nil {
		return err
	}
	base := m.mf.DeltaBase(r)
	if base == r || !m.covered(base) {
		return m.findFilesFrom(r, text, note)
	}
	d, err := m.mf.Delta(r)
	if err != nil {
		return err
	}
	return m.corrupt(r, store.TouchedEntries(text, d, note))
}

// findFilesFrom compares a manifest with those of its parents that the client
// has or gets.
func (m *manifestWalk) findFilesFrom(r hg.Rev, text []byte, note func(store.ManifestEntry) error) error {
	p1, p2 := m.mf.Parents(r)
	for _, p := range []hg.Rev{p1, p2} {
		if p == hg.NullRev || !m.covered(p) {
			continue
		}
		base, err := m.mf.Text(p)
		if err != nil {
			return err
		}
		return m.corrupt(r, store.AddedEntries(base, text, note))
	}
	return m.corrupt(r, store.AddedEntries(nil, text, note))
}

// covered tells whether all that a manifest names is with the client, or will
// be by this pull.
func (m *manifestWalk) covered(r hg.Rev) bool {
	if r == hg.NullRev {
		return true
	}
	if _, ok := m.link[r]; ok {
		return true
	}
	return m.sel.clientHas(m.mf.LinkRev(r))
}

// need notes a file revision, with the first changeset that brings it.
func (m *manifestWalk) need(path string, n hg.Node, link hg.Rev) {
	l, ok := m.files[path]
	if !ok {
		l = make(links)
		m.files[path] = l
	}
	if have, ok := l[n]; !ok || link < have {
		l[n] = link
	}
}

func (m *manifestWalk) corrupt(r hg.Rev, err error) error {
	if err == nil {
		return nil
	}
	return &revlog.CorruptError{File: m.mf.Name(), Rev: r, Err: err}
}

func errNoManifest(r hg.Rev, n hg.Node) error {
	return fmt.Errorf("changeset %d names manifest %s, which is not there", r, n)
}
