package outgoing

import (
	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
)

// A selection is the changesets of one pull.
type selection struct {
	view   *store.View
	revs   []hg.Rev // to send, ascending
	has    *dag.Set // of revs
	common []hg.Rev // what the client has, with its ancestors
	all    bool     // revs are all changesets of the repository

	// edge holds parents of revs outside revs: the client has them.
	edge map[hg.Rev]struct{}
	// commonSet is all that the client has; made when edge doesn't tell.
	commonSet *dag.Set
}

// newSelection returns what a client lacks that has common, with ancestors,
// and wants heads, with ancestors. Revs of common that are not visible must
// have been left out.
func newSelection(view *store.View, common, heads []hg.Rev) *selection {
	s := &selection{view: view, common: common, revs: dag.Missing(view, common, heads)}
	s.all = len(s.revs) == view.Len()
	s.edge = make(map[hg.Rev]struct{})
	if len(s.revs) == 0 {
		return s
	}
	s.has = dag.NewSet(view.Len())
	for _, r := range s.revs {
		s.has.Add(r)
	}
	for _, r := range s.revs {
		p1, p2 := view.Parents(r)
		for _, p := range []hg.Rev{p1, p2} {
			if p != hg.NullRev && !s.has.Has(p) {
				s.edge[p] = struct{}{}
			}
		}
	}
	return s
}

// sends tells whether a changeset is among those to send.
func (s *selection) sends(r hg.Rev) bool { return s.has != nil && s.has.Has(r) }

// clientHas tells whether the client has what came with changeset link. What
// neither it has nor the selection sends belongs to some other head.
func (s *selection) clientHas(link hg.Rev) bool {
	if s.sends(link) {
		return false
	}
	if _, ok := s.edge[link]; ok {
		return true
	}
	if int(link) >= s.view.Len() {
		return false
	}
	if s.commonSet == nil {
		s.commonSet = dag.Ancestors(s.view, s.common)
	}
	return s.commonSet.Has(link)
}

// on returns the same selection on another View of the same state.
func (s *selection) on(view *store.View) *selection {
	c := *s
	c.view = view
	return &c
}
