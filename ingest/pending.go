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

	// heads are the visible heads. A copy, made when first changed.
	heads map[hg.Rev]struct{}

	// Overrides of base.
	branchHeads map[string][]hg.Rev
	phases      map[hg.Rev]hg.Phase
	bookmarks   map[string]hg.Node // NullNode: deleted

	undo []func() // takes back what was done since the last keep
}

func newPending(base *store.View) *pending {
	return &pending{
		base:        base,
		index:       make(map[hg.Node]hg.Rev),
		branchHeads: make(map[string][]hg.Rev),
		phases:      make(map[hg.Rev]hg.Phase),
		bookmarks:   make(map[string]hg.Node),
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
	return int(r) >= p.base.Len() || p.base.Visible(r)
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

func (p *pending) headRevs() map[hg.Rev]struct{} {
	if p.heads == nil {
		p.heads = make(map[hg.Rev]struct{})
		for _, r := range p.base.HeadRevs() {
			p.heads[r] = struct{}{}
		}
	}
	return p.heads
}

// countHeads counts the visible heads as hg does: an empty repository has one,
// the null revision.
func (p *pending) countHeads() int { return max(1, len(p.headRevs())) }

// headNodes returns the visible heads; that of an empty repository is NullNode.
func (p *pending) headNodes() []hg.Node {
	if p.heads == nil {
		return p.base.Heads()
	}
	nodes := make([]hg.Node, 0, len(p.heads))
	for r := range p.heads {
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
	p.addHead(r, p1, p2)
	return r, nil
}

func (p *pending) addHead(r, p1, p2 hg.Rev) {
	heads := p.headRevs()
	for _, parent := range []hg.Rev{p1, p2} {
		if _, was := heads[parent]; was {
			delete(heads, parent)
			p.undo = append(p.undo, func() { heads[parent] = struct{}{} })
		}
	}
	set(p, heads, r, struct{}{})
}

// updateBranchHeads recomputes the heads of a branch after revs, ascending,
// were added to it.
func (p *pending) updateBranchHeads(branch string, revs []hg.Rev) {
	old := p.headsOfBranch(branch)
	set(p, p.branchHeads, branch, store.AddBranchHeads(p, old, revs, p.headRevs()))
}

// advance moves revs and their ancestors down to a phase, and reports whether
// any was above it.
func (p *pending) advance(revs []hg.Rev, to hg.Phase) bool {
	moved := false
	stack := slices.Clone(revs)
	for len(stack) > 0 {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if r == hg.NullRev || p.phase(r) <= to {
			continue
		}
		moved = true
		set(p, p.phases, r, to)
		p1, p2 := p.Parents(r)
		stack = append(stack, p1, p2)
	}
	return moved
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
		ph := p.phase(r)
		p1, p2 := p.Parents(r)
		if ph != hg.Public && p.phase(p1) < ph && p.phase(p2) < ph {
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
