package dag

import (
	"slices"

	"vcsd/hg"
)

// A Graph knows the parents of revs 0 to Len-1. A parent is NullRev or below
// the rev it is asked for.
type Graph interface {
	Len() int
	Parents(r hg.Rev) (p1, p2 hg.Rev)
}

// Heads returns the visible revs that have no visible child, ascending. With
// a nil visible all are.
func Heads(g Graph, visible func(hg.Rev) bool) []hg.Rev {
	n := g.Len()
	inner := NewSet(n)
	var heads []hg.Rev
	for r := hg.Rev(n - 1); r >= 0; r-- {
		if visible != nil && !visible(r) {
			continue
		}
		if !inner.Has(r) {
			heads = append(heads, r)
		}
		p1, p2 := g.Parents(r)
		inner.Add(p1)
		inner.Add(p2)
	}
	slices.Reverse(heads)
	return heads
}

// HeadsOf returns those of revs that are no ancestors of others of them,
// ascending: hg's heads(::revs). The walk ends at the lowest of revs, or
// before it as soon as the rest is known.
func HeadsOf(g Graph, revs []hg.Rev) []hg.Rev { return HeadsAmong(g, revs, revs) }

// HeadsAmong is HeadsOf for a caller who knows that all of revs but the
// doubtful ones, which are among them, are no ancestors of others. The walk
// ends at the lowest of these.
func HeadsAmong(g Graph, revs, doubtful []hg.Rev) []hg.Rev {
	// open are those that may still turn out to be ancestors; below are
	// ancestors, not yet walked.
	open, below := SetOf(doubtful...), new(Set)
	heads := SetOf(revs...)
	members := heads.Clone()
	top, _ := bounds(revs)
	_, low := bounds(doubtful)
	for r := top; r >= low && open.Len() > 0; {
		if open.Remove(r) && below.Has(r) {
			heads.Remove(r)
		}
		// A member's parents count whether or not it is itself an ancestor:
		// marking them again is free.
		p1, p2 := g.Parents(r)
		below.Add(p1)
		below.Add(p2)
		below.Remove(r)
		r = max(members.prev(r-1), below.prev(r-1))
	}
	return heads.Revs()
}

// Ancestors returns revs and all their ancestors.
func Ancestors(g Graph, revs []hg.Rev) *Set {
	s := NewSet(g.Len())
	for _, r := range revs {
		s.Add(r)
	}
	top, _ := bounds(revs)
	for r := s.prev(top); r >= 0; r = s.prev(r - 1) {
		p1, p2 := g.Parents(r)
		s.Add(p1)
		s.Add(p2)
	}
	return s
}

// Descendants returns roots and all their descendants. It walks from the
// lowest root to the end of the graph.
func Descendants(g Graph, roots []hg.Rev) *Set {
	s := NewSet(g.Len())
	for _, r := range roots {
		s.Add(r)
	}
	if s.Len() == 0 {
		return s
	}
	_, low := bounds(roots)
	for r := low + 1; int(r) < g.Len(); r++ {
		if p1, p2 := g.Parents(r); s.Has(p1) || s.Has(p2) {
			s.Add(r)
		}
	}
	return s
}

// Roots returns the members of set that have no parent in it, ascending:
// hg's roots(set).
func Roots(g Graph, set *Set) []hg.Rev {
	var roots []hg.Rev
	for r := range set.All() {
		if p1, p2 := g.Parents(r); !set.Has(p1) && !set.Has(p2) {
			roots = append(roots, r)
		}
	}
	return roots
}

// bounds returns the highest and the lowest of revs; without any, a range
// that is empty and below all.
func bounds(revs []hg.Rev) (top, low hg.Rev) {
	top, low = hg.NullRev, 0
	for _, r := range revs {
		if r < 0 {
			continue
		}
		if top < 0 || r < low {
			low = r
		}
		top = max(top, r)
	}
	return top, low
}
