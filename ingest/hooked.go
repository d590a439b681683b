package ingest

import (
	"slices"

	"vcsd/hg"
	"vcsd/journal"
)

// hooked is what the hooks of a push have said, and seen of it, when it is
// decided for good. A nil one is that of a push without hooks.
type hooked struct {
	opened, closed   string         // what hooks said before the first op, and after the last
	earlier, later   map[int]string // what they said before and after an op did its work
	vetoed           map[int]bool   // pushkeys that hooks have refused
	saw              *decision      // what hooks know; nil while they are at work
	followPhaseMoves bool           // hooks want to know of each changeset
}

func newHooked() *hooked {
	return &hooked{earlier: make(map[int]string), later: make(map[int]string), vetoed: make(map[int]bool)}
}

func (h *hooked) opening() string {
	if h == nil {
		return ""
	}
	return h.opened
}

func (h *hooked) closing() string {
	if h == nil {
		return ""
	}
	return h.closed
}

func (h *hooked) before(op int) string {
	if h == nil {
		return ""
	}
	return h.earlier[op]
}

func (h *hooked) after(op int) string {
	if h == nil {
		return ""
	}
	return h.later[op]
}

func (h *hooked) refused(op int) bool { return h != nil && h.vetoed[op] }

// covers tells whether d changes nothing but what the hooks know of.
func (h *hooked) covers(d *decision) bool { return h == nil || h.saw == nil || d.within(h.saw) }

// within tells whether d changes nothing that o doesn't.
func (d *decision) within(o *decision) bool {
	phases := make(map[phaseNode]bool)
	for _, m := range o.phases {
		for _, n := range m.Nodes {
			phases[phaseNode{m.Phase, n}] = true
		}
	}
	for _, m := range d.phases {
		for _, n := range m.Nodes {
			if !phases[phaseNode{m.Phase, n}] {
				return false
			}
		}
	}
	for _, m := range d.bookmarkMoves {
		if !slices.Contains(o.bookmarkMoves, m) {
			return false
		}
	}
	return len(d.markers) <= len(o.markers) && subset(d.fresh, o.fresh)
}

// subset tells whether all of a is in b; both are ascending.
func subset(a, b []int) bool {
	for _, x := range a {
		i, ok := slices.BinarySearch(b, x)
		if !ok {
			return false
		}
		b = b[i+1:]
	}
	return true
}

// did is what an op of a push did, for hooks.
type did struct {
	first, last int                    // the changesets it added are decision.fresh[first:last]
	marks       []journal.BookmarkMove // bookmarks it set, those too that stood there
	ok          bool                   // of a pushkey
	changed     bool                   // it changed anything
	movedRoots  bool                   // phase roots are others now than before the push
	markers     int                    // how many the push has added by now
}

// traced is a changeset whose phase a push sets.
type traced struct {
	node hg.Node
	rev  hg.Rev
	old  bool     // it was there before the push,
	from hg.Phase // in this phase
	to   hg.Phase
}

// watch makes the decision remember what hooks want to know, if there are any.
func (d *decision) watch(p *pending) {
	if d.push.hooked == nil {
		return
	}
	d.did = make([]did, len(d.push.ops))
	begun := hg.Rev(p.Len())
	seen := make(map[hg.Rev]bool)
	p.trace = func(r hg.Rev, from hg.Phase) {
		if r >= begun {
			return
		}
		d.did[d.at].movedRoots = true
		if d.push.hooked.followPhaseMoves && !seen[r] {
			seen[r] = true
			d.trace = append(d.trace, traced{rev: r, from: from, old: true})
		}
	}
}

// note remembers what the op did that was decided just now.
func (d *decision) note(p *pending) {
	if d.did == nil {
		return
	}
	o := &d.did[d.at]
	if d.at > 0 {
		o.first = d.did[d.at-1].last
		o.movedRoots = o.movedRoots || d.did[d.at-1].movedRoots
	}
	o.last = len(d.fresh)
	for _, i := range d.fresh[o.first:o.last] {
		r := p.index[d.push.changesets[i].node]
		o.movedRoots = o.movedRoots || p.isRoot(r, p.Phase(r))
	}
	o.markers = len(d.markers)
	changes := len(d.fresh) + len(d.bookmarkMoves) + len(d.phases) + len(d.markers)
	o.changed = changes > d.noted
	d.noted = changes
}

// finishTrace adds the new changesets to those whose phase is changed, and
// the phases that all have now, in the order of revisions.
func (d *decision) finishTrace(p *pending) {
	p.trace = nil
	if h := d.push.hooked; h == nil || !h.followPhaseMoves {
		return
	}
	for _, i := range d.fresh {
		d.trace = append(d.trace, traced{rev: p.index[d.push.changesets[i].node]})
	}
	slices.SortFunc(d.trace, func(a, b traced) int { return int(a.rev - b.rev) })
	for i := range d.trace {
		t := &d.trace[i]
		t.node, t.to = p.Node(t.rev), p.Phase(t.rev)
	}
}

// changesBefore counts the ops before one of them that change anything.
func (d *decision) changesBefore(op int) int {
	n := 0
	for _, o := range d.did[:op] {
		if o.changed {
			n++
		}
	}
	return n
}
