package store

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"vcsd/dag"
	"vcsd/hg"
)

// PhaseRoots are what store/phaseroots holds, by phase: the changesets from
// which on all descendants are at least in that phase. A line for each:
//
//	phase in decimal, SPACE, node in hexadecimal, newline
//
// Source: hg help phases, and what hg writes.
type PhaseRoots map[hg.Phase][]hg.Node

// allPhases are in the order in which they stand in the file.
var allPhases = []hg.Phase{hg.Public, hg.Draft, hg.Secret, hg.Archived, hg.Internal}

// ParsePhaseRoots reads a phaseroots file. The order of nodes is the file's.
func ParsePhaseRoots(b []byte) (PhaseRoots, error) {
	roots := make(PhaseRoots)
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) != 2 {
			return nil, fmt.Errorf("phaseroots: line %q: %w", line, hg.ErrMalformed)
		}
		p, err := strconv.ParseUint(string(f[0]), 10, 8)
		if err != nil || !hg.Phase(p).Valid() {
			return nil, fmt.Errorf("phaseroots: phase %q: %w", f[0], hg.ErrMalformed)
		}
		n, err := hg.ParseNode(f[1])
		if err != nil {
			return nil, fmt.Errorf("phaseroots: %w: %w", err, hg.ErrMalformed)
		}
		roots[hg.Phase(p)] = append(roots[hg.Phase(p)], n)
	}
	return roots, nil
}

// EncodePhaseRoots returns a phaseroots file as hg writes it: by phase, and
// then by node.
func EncodePhaseRoots(roots PhaseRoots) []byte {
	var b []byte
	for _, p := range allPhases {
		for _, n := range slices.SortedFunc(slices.Values(roots[p]), hg.Node.Compare) {
			b = strconv.AppendUint(b, uint64(p), 10)
			b = append(b, ' ')
			b = append(n.AppendHex(b), '\n')
		}
	}
	return b
}

// A RevGraph is a graph whose revs have nodes, such as a snapshot of the
// changelog.
type RevGraph interface {
	dag.Graph
	Rev(n hg.Node) (hg.Rev, bool)
	Node(r hg.Rev) hg.Node
}

// A PhaseMap knows the phase of every changeset of one graph. It is immutable:
// Advance and Retract return another one.
type PhaseMap struct {
	g     RevGraph
	roots map[hg.Phase][]hg.Rev // ascending; of phases above public

	// phases are those of first and all after it; before it all is public.
	first  hg.Rev
	phases []hg.Phase
}

// NewPhaseMap computes phases from their roots. Roots that the graph does not
// have are passed over: they hold for descendants only, of which there are
// none.
func NewPhaseMap(g RevGraph, roots PhaseRoots) *PhaseMap { return NextPhaseMap(nil, g, roots) }

// NextPhaseMap computes what NewPhaseMap does. If g continues the graph of
// old, and the roots in what they share are the same, it goes on from there.
func NextPhaseMap(old *PhaseMap, g RevGraph, roots PhaseRoots) *PhaseMap {
	m := &PhaseMap{g: g, roots: make(map[hg.Phase][]hg.Rev)}
	for p, nodes := range roots {
		if p == hg.Public {
			continue
		}
		for _, n := range nodes {
			if r, ok := g.Rev(n); ok && r != hg.NullRev {
				m.roots[p] = append(m.roots[p], r)
			}
		}
		slices.Sort(m.roots[p])
		m.roots[p] = slices.Compact(m.roots[p])
	}
	m.compute(old)
	return m
}

// compute fills phases, from old's as far as they are the same.
func (m *PhaseMap) compute(old *PhaseMap) {
	byRev := make(map[hg.Rev]hg.Phase)
	m.first = hg.Rev(m.g.Len())
	for p, revs := range m.roots {
		for _, r := range revs {
			byRev[r] = max(byRev[r], p)
			m.first = min(m.first, r)
		}
	}
	n := m.g.Len() - int(m.first)
	m.phases = make([]hg.Phase, 0, n)
	if old.continuedBy(m) {
		m.phases = append(m.phases, old.phases...)
	}
	for r := m.first + hg.Rev(len(m.phases)); int(r) < m.g.Len(); r++ {
		p1, p2 := m.g.Parents(r)
		m.phases = append(m.phases, max(byRev[r], m.Phase(p1), m.Phase(p2)))
	}
}

// continuedBy tells whether next begins with the same changesets in the same
// phases.
func (old *PhaseMap) continuedBy(next *PhaseMap) bool {
	if old == nil || len(old.phases) == 0 || old.first != next.first || old.end() > next.g.Len() ||
		old.g.Node(hg.Rev(old.end()-1)) != next.g.Node(hg.Rev(old.end()-1)) {
		return false
	}
	for _, p := range allPhases {
		a, b := old.roots[p], next.roots[p]
		i, _ := slices.BinarySearch(b, hg.Rev(old.end()))
		if !slices.Equal(a, b[:i]) {
			return false
		}
	}
	return true
}

// end is the number of changesets whose phase is known.
func (m *PhaseMap) end() int { return int(m.first) + len(m.phases) }

// Phase returns the phase of a changeset; NullRev's is public.
func (m *PhaseMap) Phase(r hg.Rev) hg.Phase {
	if r < m.first {
		return hg.Public
	}
	return m.phases[r-m.first]
}

// NonPublic returns the changesets that are not public, ascending. The slice
// is the caller's.
func (m *PhaseMap) NonPublic() []hg.Rev {
	var revs []hg.Rev
	for i, p := range m.phases {
		if p != hg.Public {
			revs = append(revs, m.first+hg.Rev(i))
		}
	}
	return revs
}

// Roots returns the roots by node, as a phaseroots file has them.
func (m *PhaseMap) Roots() PhaseRoots {
	roots := make(PhaseRoots)
	for p, revs := range m.roots {
		for _, r := range revs {
			roots[p] = append(roots[p], m.g.Node(r))
		}
	}
	return roots
}

// Advance moves revs, and their ancestors, down to phase target, and returns
// the phases after it and the changesets that moved, ascending. Those in
// target or below stay where they are.
func (m *PhaseMap) Advance(target hg.Phase, revs []hg.Rev) (next *PhaseMap, moved []hg.Rev) {
	moving := m.above(target, revs)
	if moving.Len() == 0 {
		return m, nil
	}
	roots := maps.Clone(m.roots)
	var lost []hg.Rev // roots that the phases above target lose
	for _, p := range allPhases {
		if p <= target {
			continue
		}
		if !slices.ContainsFunc(revs, func(r hg.Rev) bool { return m.Phase(r) >= p }) {
			break
		}
		left := dag.Descendants(m.g, roots[p])
		for r := range moving.All() {
			left.Remove(r)
		}
		now := dag.Roots(m.g, left)
		for _, r := range roots[p] {
			if _, kept := slices.BinarySearch(now, r); !kept {
				lost = append(lost, r)
			}
		}
		roots[p] = now
	}
	next = m.with(roots)
	if target != hg.Public {
		// What was only above target because of those roots stays in it.
		next, _ = next.Retract(target, lost)
	}
	return next, moving.Revs()
}

// above returns revs and their ancestors that are above a phase. Ancestors of
// what isn't are not either.
func (m *PhaseMap) above(target hg.Phase, revs []hg.Rev) *dag.Set {
	s := new(dag.Set)
	stack := slices.Clone(revs)
	for len(stack) > 0 {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if m.Phase(r) <= target || !s.Add(r) {
			continue
		}
		p1, p2 := m.g.Parents(r)
		stack = append(stack, p1, p2)
	}
	return s
}

// Retract moves revs, and their descendants, up to phase target, and returns
// the phases after it and the changesets that moved, ascending. Those in
// target or above stay where they are.
func (m *PhaseMap) Retract(target hg.Phase, revs []hg.Rev) (next *PhaseMap, moved []hg.Rev) {
	old := m.roots[target]
	all := slices.Clone(old)
	low := hg.Rev(m.g.Len())
	for _, r := range revs {
		if r != hg.NullRev && m.Phase(r) < target {
			all = append(all, r)
			low = min(low, r)
		}
	}
	if len(all) == len(old) {
		return m, nil
	}
	slices.Sort(all)
	all = slices.Compact(all)
	// Roots before the first new one have no new one below them.
	i, _ := slices.BinarySearch(all, low)
	now := append(slices.Clone(all[:i]), dag.Roots(m.g, dag.Descendants(m.g, all[i:]))...)
	roots := maps.Clone(m.roots)
	roots[target] = now
	next = m.with(roots)
	for i, p := range next.phases {
		if r := next.first + hg.Rev(i); p != m.Phase(r) {
			moved = append(moved, r)
		}
	}
	return next, moved
}

func (m *PhaseMap) with(roots map[hg.Phase][]hg.Rev) *PhaseMap {
	next := &PhaseMap{g: m.g, roots: roots}
	next.compute(nil)
	return next
}

// hides tells whether there are changesets in a phase that hg never shows.
func (m *PhaseMap) hides() bool {
	for p, revs := range m.roots {
		if p >= hg.Archived && len(revs) > 0 {
			return true
		}
	}
	return false
}
