package store

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// Instabilities count the visible changesets, neither public nor obsolete,
// that obsolescence leaves in some trouble (hg help evolution).
type Instabilities struct {
	Orphans          int // have an obsolete ancestor
	PhaseDivergent   int // replace something that is public
	ContentDivergent int // compete with others to replace the same
}

// CountInstabilities counts them. live are the changesets that are neither
// public nor obsolete, ascending; only the visible ones among them count.
func CountInstabilities(g RevGraph, phases Phases, obs *ObsStore, live []hg.Rev, obsolete, visible func(hg.Rev) bool) Instabilities {
	orphan := orphans(g, live, obsolete)
	late := replacements(g, phases, obs, live)
	rivals := newRivals(g, obs)
	var n Instabilities
	for _, r := range live {
		if !visible(r) {
			continue
		}
		if orphan.Has(r) {
			n.Orphans++
		}
		if _, ok := late[g.Node(r)]; ok {
			n.PhaseDivergent++
		}
		if rivals.has(g.Node(r)) {
			n.ContentDivergent++
		}
	}
	return n
}

// orphans returns those of live that have an obsolete ancestor.
func orphans(g dag.Graph, live []hg.Rev, obsolete func(hg.Rev) bool) *dag.Set {
	set := new(dag.Set)
	for _, r := range live {
		p1, p2 := g.Parents(r)
		for _, p := range []hg.Rev{p1, p2} {
			if p != hg.NullRev && (obsolete(p) || set.Has(p)) {
				set.Add(r)
			}
		}
	}
	return set
}

// replacements returns those of live that replace a public changeset, directly
// or not, but for what mends that; and perhaps others.
func replacements(g RevGraph, phases Phases, obs *ObsStore, live []hg.Rev) map[hg.Node]struct{} {
	var seeds []hg.Node
	for _, r := range live {
		seeds = append(seeds, g.Node(r))
	}
	// Of all that was ever replaced, little led to what lives now.
	before := closure(seeds, func(n hg.Node, add func(hg.Node)) {
		for _, m := range obs.Preceding(n) {
			add(m.Prec)
		}
	})
	seeds = seeds[:0]
	for n := range before {
		if r, ok := g.Rev(n); ok && phases.Phase(r) == hg.Public {
			seeds = append(seeds, n)
		}
	}
	return closure(seeds, func(n hg.Node, add func(hg.Node)) {
		for _, m := range obs.Replacing(n) {
			for _, s := range m.Succs {
				if _, ok := before[s]; ok && m.Flags&obsmarker.BumpedFix == 0 {
					add(s)
				}
			}
		}
	})
}

// closure returns seeds and all that next adds to one of them.
func closure(seeds []hg.Node, next func(n hg.Node, add func(hg.Node))) map[hg.Node]struct{} {
	found := make(map[hg.Node]struct{}, len(seeds))
	var pending []hg.Node
	add := func(n hg.Node) {
		if _, ok := found[n]; !ok {
			found[n] = struct{}{}
			pending = append(pending, n)
		}
	}
	for _, n := range seeds {
		add(n)
	}
	for len(pending) > 0 {
		n := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		next(n, add)
	}
	return found
}

// rivals find changesets that compete. What replaces a changeset in the end is
// one set of changesets, of several if it was split; if it was replaced twice
// in different ways there are several sets, and their members compete.
type rivals struct {
	g    RevGraph
	obs  *ObsStore
	any  bool                    // something was replaced more than once
	sets map[hg.Node][][]hg.Node // what replaces each in the end, sorted

	// left is how many steps may still be made: who piles up replacements of
	// replacements gets no exact count.
	left int
}

const (
	maxRivalSteps = 1_000_000
	maxRivalSets  = 16 // more tell nothing new
)

func newRivals(g RevGraph, obs *ObsStore) *rivals {
	return &rivals{g: g, obs: obs, any: obs.replacedTwice(), sets: make(map[hg.Node][][]hg.Node), left: maxRivalSteps}
}

// has tells whether a changeset competes with others.
func (r *rivals) has(n hg.Node) bool {
	if !r.any {
		return false
	}
	seen := make(map[hg.Node]struct{})
	for pending := []hg.Node{n}; len(pending) > 0 && r.left > 0; r.left-- {
		n := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, m := range r.obs.Preceding(n) {
			if _, ok := seen[m.Prec]; ok {
				continue
			}
			seen[m.Prec] = struct{}{}
			if len(r.final(m.Prec)) > 1 {
				return true
			}
			pending = append(pending, m.Prec)
		}
	}
	return false
}

// final returns the sets that replace a changeset in the end. What replaces
// itself in a circle counts as pruned.
func (r *rivals) final(n hg.Node) [][]hg.Node {
	onPath := map[hg.Node]struct{}{n: {}}
	for path := []hg.Node{n}; len(path) > 0 && r.left > 0; r.left-- {
		n := path[len(path)-1]
		if next, ok := r.unknown(n, onPath); ok {
			path = append(path, next)
			onPath[next] = struct{}{}
			continue
		}
		if _, known := r.sets[n]; !known {
			r.sets[n] = r.combine(n)
		}
		path = path[:len(path)-1]
		delete(onPath, n)
	}
	return r.sets[n]
}

// unknown returns a successor whose sets are not known yet.
func (r *rivals) unknown(n hg.Node, onPath map[hg.Node]struct{}) (next hg.Node, ok bool) {
	if _, known := r.sets[n]; known {
		return next, false
	}
	for _, m := range r.obs.Replacing(n) {
		for _, s := range m.Succs {
			if _, known := r.sets[s]; known {
				continue
			}
			if _, circle := onPath[s]; !circle {
				return s, true
			}
			r.sets[s] = nil
		}
	}
	return next, false
}

// combine makes the sets of n from those of its successors.
func (r *rivals) combine(n hg.Node) [][]hg.Node {
	markers := r.obs.Replacing(n)
	if len(markers) == 0 {
		if _, ok := r.g.Rev(n); ok {
			return [][]hg.Node{{n}}
		}
		return nil
	}
	var all [][]hg.Node
	for _, m := range markers {
		all = append(all, r.ofMarker(m)...)
	}
	return maximal(all)
}

// ofMarker returns the sets by one marker: each successor is replaced in one of
// its ways.
func (r *rivals) ofMarker(m *obsmarker.Marker) [][]hg.Node {
	sets := [][]hg.Node{nil}
	for _, s := range m.Succs {
		ways := r.sets[s]
		if len(ways) == 0 {
			continue
		}
		var product [][]hg.Node
		for _, set := range sets {
			for _, way := range ways[:min(len(ways), maxRivalSets/len(sets)+1)] {
				r.left -= len(set) + len(way)
				product = append(product, union(set, way))
			}
		}
		sets = product
	}
	return slices.DeleteFunc(sets, func(s []hg.Node) bool { return len(s) == 0 })
}

func union(a, b []hg.Node) []hg.Node {
	u := slices.Concat(a, b)
	slices.SortFunc(u, hg.Node.Compare)
	return slices.Compact(u)
}

// maximal drops sets that are part of another one.
func maximal(sets [][]hg.Node) [][]hg.Node {
	slices.SortStableFunc(sets, func(a, b []hg.Node) int { return len(b) - len(a) })
	var kept [][]hg.Node
	for _, s := range sets[:min(len(sets), maxRivalSets)] {
		if !slices.ContainsFunc(kept, func(k []hg.Node) bool { return len(union(k, s)) == len(k) }) {
			kept = append(kept, s)
		}
	}
	return kept
}

// replacedTwice tells whether some changeset may have been replaced by more
// than one marker.
func (s *ObsStore) replacedTwice() bool {
	for ; s != nil && s.table != nil; s = s.below {
		s.table.mu.RLock()
		twice := s.table.twice
		s.table.mu.RUnlock()
		if twice || slices.ContainsFunc(s.markers, func(m obsmarker.Marker) bool { return s.below.Replaced(m.Prec) }) {
			return true
		}
	}
	return false
}
