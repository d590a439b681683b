package ingest

import (
	"maps"
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
)

// pending is the published state plus the pushes of a batch that were
// accepted so far. Decisions are taken on it; nothing of it touches a disk.
// It belongs to the sequencer and satisfies dag.Graph.
type pending struct {
	base *store.View

	// Changesets beyond base, in the order in which they will be numbered.
	added []changeset
	index map[hg.Node]hg.Rev // of added
	edges [][2]hg.Rev        // parents of added

	// heads are all heads, hidden ones too: that is what hg counts. seen are those
	// that clients see.
	heads, seen headSet

	// Overrides of base.
	branchHeads map[string][]hg.Rev
	phases      map[hg.Rev]hg.Phase
	bookmarks   map[string]hg.Node // NullNode: deleted
	shown       map[hg.Rev]bool    // hidden in base for their phase, and not any more

	undo []func() // takes back what was done since the last keep
}

func newPending(base *store.View) *pending {
	return &pending{
		base:        base,
		heads:       headSet{read: base.AllHeadRevs},
		seen:        headSet{read: base.HeadRevs},
		index:       make(map[hg.Node]hg.Rev),
		branchHeads: make(map[string][]hg.Rev),
		phases:      make(map[hg.Rev]hg.Phase),
		bookmarks:   make(map[string]hg.Node),
		shown:       make(map[hg.Rev]bool),
	}
}

// keep makes everything done so far part of the batch.
func (p *pending) keep() { p.undo = p.undo[:0] }

// rollback takes back everything done since the last keep.
func (p *pending) rollback() {
	for _, f := range slices.Backward(p.undo) {
		f()
	}
	p.undo = p.undo[:0]
}

// set changes m[k] and remembers how to take that back.
func set[K comparable, V any](p *pending, m map[K]V, k K, v V) {
	old, had := m[k]
	p.undo = append(p.undo, func() {
		if had {
			m[k] = old
		} else {
			delete(m, k)
		}
	})
	m[k] = v
}

// Len is the number of changesets, hidden ones included.
func (p *pending) Len() int { return p.base.Len() + len(p.added) }

// Parents implements dag.Graph.
func (p *pending) Parents(r hg.Rev) (hg.Rev, hg.Rev) {
	if i := int(r) - p.base.Len(); i >= 0 {
		return p.edges[i][0], p.edges[i][1]
	}
	return p.base.Parents(r)
}

func (p *pending) rev(n hg.Node) (hg.Rev, bool) {
	if n.IsNull() {
		return hg.NullRev, true
	}
	if r, ok := p.index[n]; ok {
		return r, true
	}
	return p.base.Changelog().Rev(n)
}

func (p *pending) node(r hg.Rev) hg.Node {
	if i := int(r) - p.base.Len(); i >= 0 {
		return p.added[i].node
	}
	return p.base.Changelog().Node(r)
}

func (p *pending) visible(r hg.Rev) bool {
	return int(r) >= p.base.Len() || p.base.Visible(r) || p.shown[r]
}

func (p *pending) phase(r hg.Rev) hg.Phase {
	if r == hg.NullRev {
		return hg.Public
	}
	if ph, ok := p.phases[r]; ok {
		return ph
	}
	if int(r) >= p.base.Len() {
		return hg.Public
	}
	return p.base.Phase(r)
}

// bookmark returns where a bookmark stands, NullNode if it does not exist.
func (p *pending) bookmark(name string) hg.Node {
	if n, ok := p.bookmarks[name]; ok {
		return n
	}
	return p.base.Bookmark(name)
}

// A headSet is a set of heads that begins as the base has them. It is copied
// when first asked for.
type headSet struct {
	read func() []hg.Rev
	revs map[hg.Rev]struct{}
}

func (h *headSet) all() map[hg.Rev]struct{} {
	if h.revs == nil {
		h.revs = make(map[hg.Rev]struct{})
		for _, r := range h.read() {
			h.revs[r] = struct{}{}
		}
	}
	return h.revs
}

// count counts as hg does: an empty repository has one head, the null revision.
func (h *headSet) count() int { return max(1, len(h.all())) }

func (h *headSet) has(r hg.Rev) bool {
	_, ok := h.all()[r]
	return ok
}

// add makes r a head in place of its parents.
func (h *headSet) add(p *pending, r, p1, p2 hg.Rev) {
	revs := h.all()
	for _, parent := range []hg.Rev{p1, p2} {
		if h.has(parent) {
			delete(revs, parent)
			p.undo = append(p.undo, func() { revs[parent] = struct{}{} })
		}
	}
	set(p, revs, r, struct{}{})
}

// headNodes returns the visible heads; that of an empty repository is NullNode.
func (p *pending) headNodes() []hg.Node {
	if p.seen.revs == nil {
		return p.base.Heads()
	}
	nodes := make([]hg.Node, 0, len(p.seen.revs))
	for r := range p.seen.revs {
		nodes = append(nodes, p.node(r))
	}
	if len(nodes) == 0 {
		nodes = append(nodes, hg.NullNode)
	}
	return nodes
}

func (p *pending) headsOfBranch(branch string) []hg.Rev {
	if h, ok := p.branchHeads[branch]; ok {
		return h
	}
	return p.base.BranchHeadRevs(branch)
}

// isBranchHead tells whether n is the head of some branch. Its own is the
// only one it can be a head of.
func (p *pending) isBranchHead(n hg.Node) bool {
	r, ok := p.rev(n)
	if !ok || r == hg.NullRev || !p.visible(r) {
		return false
	}
	return slices.Contains(p.headsOfBranch(p.branch(r)), r)
}

func (p *pending) branch(r hg.Rev) string {
	if i := int(r) - p.base.Len(); i >= 0 {
		return p.added[i].branch
	}
	return p.base.Branch(r)
}

// add appends a changeset whose parents are known, in the phase given or a
// higher one that a parent has.
func (p *pending) add(c changeset, phase hg.Phase) (hg.Rev, error) {
	p1, ok1 := p.rev(c.p1)
	p2, ok2 := p.rev(c.p2)
	if !ok1 || !ok2 {
		return 0, hg.Abortf("changeset %s: unknown parent", c.node.Short())
	}
	r := hg.Rev(p.Len())
	p.added = append(p.added, c)
	p.edges = append(p.edges, [2]hg.Rev{p1, p2})
	p.undo = append(p.undo, func() {
		p.added = p.added[:len(p.added)-1]
		p.edges = p.edges[:len(p.edges)-1]
	})
	set(p, p.index, c.node, r)
	if phase = max(phase, p.phase(p1), p.phase(p2)); phase != hg.Public {
		set(p, p.phases, r, phase)
	}
	p.heads.add(p, r, p1, p2)
	p.seen.add(p, r, p1, p2)
	return r, nil
}

// updateBranchHeads recomputes the heads of a branch after revs, ascending,
// were added to it.
func (p *pending) updateBranchHeads(branch string, revs []hg.Rev) {
	old := p.headsOfBranch(branch)
	set(p, p.branchHeads, branch, store.AddBranchHeads(p, old, revs, p.seen.all()))
}

// advance moves revs and their ancestors down to a phase, and returns those of
// revs that were above it.
func (p *pending) advance(revs []hg.Rev, to hg.Phase) (moved []hg.Rev) {
	for _, r := range revs {
		if r != hg.NullRev && p.phase(r) > to {
			moved = append(moved, r)
		}
	}
	var shown []hg.Rev
	for stack := slices.Clone(moved); len(stack) > 0; {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if r == hg.NullRev || p.phase(r) <= to {
			continue
		}
		if p.phase(r) >= hg.Secret && to < hg.Secret && !p.visible(r) {
			shown = append(shown, r)
		}
		set(p, p.phases, r, to)
		p1, p2 := p.Parents(r)
		stack = append(stack, p1, p2)
	}
	p.show(shown)
	return moved
}

// show makes changesets visible that were hidden because they were secret.
func (p *pending) show(revs []hg.Rev) {
	if len(revs) == 0 {
		return
	}
	slices.Sort(revs)
	byBranch := make(map[string][]hg.Rev)
	for _, r := range revs {
		set(p, p.shown, r, true)
		byBranch[p.branch(r)] = append(byBranch[p.branch(r)], r)
	}
	old := p.seen
	p.undo = append(p.undo, func() { p.seen = old })
	p.seen = headSet{read: func() []hg.Rev { return dag.Heads(p, p.visible) }}
	p.seen.all()
	for branch, revs := range byBranch {
		p.updateBranchHeads(branch, revs)
	}
}

// movesRoots tells whether the roots of any phase are others after the batch.
func (p *pending) movesRoots() bool {
	for r, ph := range p.phases {
		if int(r) < p.base.Len() || p.isRoot(r, ph) {
			return true
		}
	}
	return false
}

// isRoot tells whether a changeset in a phase above public is a root of it.
func (p *pending) isRoot(r hg.Rev, ph hg.Phase) bool {
	p1, p2 := p.Parents(r)
	return ph != hg.Public && p.phase(p1) < ph && p.phase(p2) < ph
}

// phaseRoots returns the roots of each phase above public after the batch.
func (p *pending) phaseRoots() store.PhaseRoots {
	nonPublic := p.base.NonPublic()
	for r, ph := range p.phases {
		if ph != hg.Public {
			nonPublic = append(nonPublic, r)
		}
	}
	slices.Sort(nonPublic)
	nonPublic = slices.Compact(nonPublic)
	roots := make(store.PhaseRoots)
	for _, r := range nonPublic {
		if ph := p.phase(r); p.isRoot(r, ph) {
			roots[ph] = append(roots[ph], p.node(r))
		}
	}
	return roots
}

// bookmarksAfter returns all bookmarks after the batch.
func (p *pending) bookmarksAfter() map[string]hg.Node {
	all := maps.Clone(p.base.Bookmarks())
	if all == nil {
		all = make(map[string]hg.Node)
	}
	for name, n := range p.bookmarks {
		if n.IsNull() {
			delete(all, name)
		} else {
			all[name] = n
		}
	}
	return all
}

var _ dag.Graph = (*pending)(nil)
