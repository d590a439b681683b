package store

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// Relevant returns the markers that a repository needs which has certain
// changesets, sorted: those that lead to them, from all sides, and those of
// changesets that were pruned above or among them. has tells which they are.
func (s *ObsStore) Relevant(has func(hg.Node) bool) []obsmarker.Marker {
	r := relevance{s: s, taken: make(map[*obsmarker.Marker]struct{})}
	// There may be many more changesets than markers.
	for _, part := range s.parts() {
		for i := range part.markers {
			if m := &part.markers[i]; concerns(m, has) {
				r.take(m)
			}
		}
	}
	r.follow()
	relevant := make([]obsmarker.Marker, 0, len(r.taken))
	for m := range r.taken {
		relevant = append(relevant, *m)
	}
	slices.SortFunc(relevant, obsmarker.Compare)
	return relevant
}

// parts returns the stores that s is made of.
func (s *ObsStore) parts() []*ObsStore {
	if s == nil {
		return nil
	}
	return append(s.below.parts(), s)
}

// concerns tells whether a marker concerns whoever has certain changesets: one
// replaces something, one or a child of one was pruned.
func concerns(m *obsmarker.Marker, has func(hg.Node) bool) bool {
	if m.Long != nil {
		return false
	}
	if len(m.Succs) == 0 {
		return has(m.Prec) || slices.ContainsFunc(m.Parents, has)
	}
	return slices.ContainsFunc(m.Succs, has)
}

// A relevance is the markers found so far.
type relevance struct {
	s       *ObsStore
	taken   map[*obsmarker.Marker]struct{}
	pending []hg.Node // whose markers have to be looked at
}

func (r *relevance) take(m *obsmarker.Marker) {
	if _, ok := r.taken[m]; !ok {
		r.taken[m] = struct{}{}
		r.pending = append(r.pending, m.Prec)
	}
}

// follow takes the markers that concern what those taken obsolete.
func (r *relevance) follow() {
	seen := make(map[hg.Node]struct{})
	for len(r.pending) > 0 {
		n := r.pending[len(r.pending)-1]
		r.pending = r.pending[:len(r.pending)-1]
		if _, ok := seen[n]; ok {
			continue
		}
		seen[n] = struct{}{}
		for _, m := range r.s.Preceding(n) {
			r.take(m)
		}
		for _, m := range slices.Concat(r.s.OfChildren(n), r.s.Replacing(n)) {
			if len(m.Succs) == 0 {
				r.take(m)
			}
		}
	}
}

// Phases tells phases, as a PhaseMap.
type Phases interface {
	Phase(r hg.Rev) hg.Phase
	// NonPublic returns the changesets that are not public, ascending.
	NonPublic() []hg.Rev
}

// ObsoleteRevs returns the changesets that are obsolete: replaced, and not
// public.
func ObsoleteRevs(g RevGraph, phases Phases, obs *ObsStore) *dag.Set {
	set := new(dag.Set)
	if obs.Len() == 0 {
		return set
	}
	for _, r := range phases.NonPublic() {
		if obs.Replaced(g.Node(r)) {
			set.Add(r)
		}
	}
	return set
}

// HiddenRevs returns the changesets that hg does not show: those obsolete, and
// those in a phase that is never shown, without the pinned ones and without
// ancestors of what is shown. Pinned are the parents of the working copy, and
// what bookmarks and local tags point to.
func HiddenRevs(g dag.Graph, phases Phases, obsolete *dag.Set, pinned []hg.Rev) *dag.Set {
	hidden := obsolete.Clone()
	nonPublic := phases.NonPublic()
	for _, r := range nonPublic {
		if phases.Phase(r) >= hg.Archived {
			hidden.Add(r)
		}
	}
	for _, r := range pinned {
		hidden.Remove(r)
	}
	if hidden.Len() == 0 {
		return hidden
	}
	// Parents come before children, so one pass from the end reveals chains.
	for _, r := range slices.Backward(nonPublic) {
		if !hidden.Has(r) {
			p1, p2 := g.Parents(r)
			hidden.Remove(p1)
			hidden.Remove(p2)
		}
	}
	return hidden
}
