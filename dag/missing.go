package dag

import (
	"slices"

	"vcsd/hg"
)

// Missing returns the revs that are heads or their ancestors, and neither in
// common nor ancestors of it, ascending: what a side that has common needs to
// get heads.
//
// The walk goes down from the highest of all until nothing wanted is left
// whose membership is open. It costs the revs between, of either side, and not
// the history below.
func Missing(g Graph, common, heads []hg.Rev) []hg.Rev {
	m := missing{g: g}
	for _, r := range common {
		m.have.Add(r)
	}
	for _, r := range heads {
		m.wantRev(r)
	}
	top, _ := bounds(heads)
	if t, _ := bounds(common); t > top {
		top = t
	}
	m.walk(top)
	slices.Reverse(m.revs)
	return m.revs
}

// missing is one walk. have and want hold revs the walk has not come to:
// ancestors of common, and ancestors of heads not known to be such.
// Invariant: they have no rev in common.
type missing struct {
	g          Graph
	have, want Set
	revs       []hg.Rev // descending
}

func (m *missing) wantRev(r hg.Rev) {
	if !m.have.Has(r) {
		m.want.Add(r)
	}
}

func (m *missing) haveRev(r hg.Rev) {
	m.have.Add(r)
	m.want.Remove(r)
}

func (m *missing) walk(r hg.Rev) {
	for m.want.Len() > 0 {
		r = max(m.want.prev(r), m.have.prev(r))
		p1, p2 := m.g.Parents(r)
		if m.have.Remove(r) {
			m.haveRev(p1)
			m.haveRev(p2)
		} else {
			m.want.Remove(r)
			m.revs = append(m.revs, r)
			m.wantRev(p1)
			m.wantRev(p2)
		}
		r--
	}
}
