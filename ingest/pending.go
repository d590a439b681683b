package ingest

import (
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

// pending is the published state plus the pushes of a batch that were
// accepted so far. Decisions are taken on it; nothing of it touches a disk.
// It belongs to the sequencer and satisfies store.RevGraph and store.Phases.
type pending struct {
	base *store.View

	// Changesets beyond base, in the order in which they will be numbered.
	added []changeset
	index map[hg.Node]hg.Rev // of added
	edges [][2]hg.Rev        // parents of added

	// heads are all heads, hidden ones too: that is what hg counts.
	heads headSet

	// Overrides of base.
	branchHeads map[string][]hg.Rev
	phases      map[hg.Rev]hg.Phase
	bookmarks   map[string]hg.Node // absent: deleted

	markers []obsmarker.Marker // beyond base
	obs     *store.ObsStore    // with markers

	sight sight

	before map[string][]hg.Rev // heads of the branches changed since the last keep, as they were
	undo   []func()            // takes back what was done since the last keep

	// trace is told of changesets whose phase is changed; may be nil.
	trace func(r hg.Rev, from hg.Phase)
}

func newPending(base *store.View) *pending {
	return &pending{
		base:        base,
		heads:       headSet{read: base.AllHeadRevs},
		sight:       sight{filtered: base.Filtered(), obsolete: base.ObsoleteRevs(), heads: headSet{read: base.HeadRevs}},
		obs:         base.ObsStore(),
		index:       make(map[hg.Node]hg.Rev),
		branchHeads: make(map[string][]hg.Rev),
		phases:      make(map[hg.Rev]hg.Phase),
		bookmarks:   make(map[string]hg.Node),
		before:      make(map[string][]hg.Rev),
	}
}

// keep makes everything done so far part of the batch.
func (p *pending) keep() {
	p.undo = p.undo[:0]
	clear(p.before)
}

// rollback takes back everything done since the last keep.
func (p *pending) rollback() {
	for _, f := range slices.Backward(p.undo) {
		f()
	}
	p.sight.fresh, p.sight.stale = nil, false
	p.keep()
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

// Rev returns the rev of a changeset, hidden or not.
func (p *pending) Rev(n hg.Node) (hg.Rev, bool) {
	if n.IsNull() {
		return hg.NullRev, true
	}
	if r, ok := p.index[n]; ok {
		return r, true
	}
	return p.base.Changelog().Rev(n)
}

// Node returns the node of a changeset.
func (p *pending) Node(r hg.Rev) hg.Node {
	if i := int(r) - p.base.Len(); i >= 0 {
		return p.added[i].node
	}
	return p.base.Changelog().Node(r)
}

// Phase implements store.Phases.
func (p *pending) Phase(r hg.Rev) hg.Phase {
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

// bookmark returns where a bookmark stands, absent if it does not exist.
func (p *pending) bookmark(name string) hg.Node {
	if n, ok := p.bookmarks[name]; ok {
		return n
	}
	if n, ok := p.base.Bookmark(name); ok {
		return n
	}
	return absent
}

// A headSet is a set of heads that begins as the base has them. It is copied
// when first asked for.
type headSet struct {
	read func() []hg.Rev
	revs map[hg.Rev]struct{}
}

func (h *headSet) all() map[hg.Rev]struct{} {
	if h.revs == nil {
		h.set(h.read())
	}
	return h.revs
}

func (h *headSet) set(revs []hg.Rev) {
	h.revs = make(map[hg.Rev]struct{}, len(revs))
	for _, r := range revs {
		h.revs[r] = struct{}{}
	}
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
	heads := &p.sight.heads
	if heads.revs == nil {
		return p.base.Heads()
	}
	nodes := make([]hg.Node, 0, len(heads.all()))
	for r := range heads.all() {
		nodes = append(nodes, p.Node(r))
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
	r, ok := p.Rev(n)
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
	p1, ok1 := p.Rev(c.p1)
	p2, ok2 := p.Rev(c.p2)
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
	if phase = max(phase, p.Phase(p1), p.Phase(p2)); phase != hg.Public {
		set(p, p.phases, r, phase)
	}
	p.heads.add(p, r, p1, p2)
	p.see(r, p1, p2)
	return r, nil
}

// advance moves revs and their ancestors down to a phase, and returns those of
// revs that were above it.
func (p *pending) advance(revs []hg.Rev, to hg.Phase) (moved []hg.Rev) {
	for _, r := range revs {
		if r != hg.NullRev && p.Phase(r) > to {
			moved = append(moved, r)
		}
	}
	for stack := slices.Clone(moved); len(stack) > 0; {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if r == hg.NullRev || p.Phase(r) <= to {
			continue
		}
		if !p.shows(r) {
			p.sight.stale = true
		}
		if p.trace != nil {
			p.trace(r, p.Phase(r))
		}
		set(p, p.phases, r, to)
		p1, p2 := p.Parents(r)
		stack = append(stack, p1, p2)
	}
	return moved
}

// moveBookmark sets a bookmark; absent deletes it.
func (p *pending) moveBookmark(name string, to hg.Node) {
	for _, n := range []hg.Node{p.bookmark(name), to} {
		if r, ok := p.Rev(n); ok && r != hg.NullRev && !p.shows(r) {
			p.sight.stale = true // it is pinned, or not any more
		}
	}
	set(p, p.bookmarks, name, to)
}

// addMarkers adds those of markers that are not there yet, and returns them.
// It fails for what the file of markers can't hold.
func (p *pending) addMarkers(markers []obsmarker.Marker) ([]obsmarker.Marker, error) {
	fresh := p.obs.Fresh(markers)
	if _, _, err := p.base.ObsStore().AppendForm(fresh); err != nil || len(fresh) == 0 {
		return nil, err
	}
	for i := range fresh {
		if r, ok := p.Rev(fresh[i].Prec); ok && p.Phase(r) != hg.Public && !p.obsolete(r) {
			p.sight.stale = true
		}
	}
	obs, n := p.obs, len(p.markers)
	p.undo = append(p.undo, func() { p.obs, p.markers = obs, p.markers[:n] })
	p.obs, p.markers = p.obs.With(fresh), append(p.markers, fresh...)
	return fresh, nil
}

// changedHeads returns the branches whose heads changed since the last keep,
// sorted.
func (p *pending) changedHeads() []journal.BranchHeads {
	var changed []journal.BranchHeads
	for _, b := range slices.Sorted(maps.Keys(p.before)) {
		changed = append(changed, journal.BranchHeads{
			Branch: b, Old: nodesOf(p, p.before[b]), New: nodesOf(p, p.headsOfBranch(b)),
		})
	}
	return changed
}

// NonPublic implements store.Phases.
func (p *pending) NonPublic() []hg.Rev {
	revs := p.base.NonPublic()
	for r := range p.phases {
		revs = append(revs, r)
	}
	slices.Sort(revs)
	revs = slices.Compact(revs)
	return slices.DeleteFunc(revs, func(r hg.Rev) bool { return p.Phase(r) == hg.Public })
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
	return ph != hg.Public && p.Phase(p1) < ph && p.Phase(p2) < ph
}

// phaseRoots returns the roots of each phase above public after the batch.
func (p *pending) phaseRoots() store.PhaseRoots {
	roots := make(store.PhaseRoots)
	for _, r := range p.NonPublic() {
		if ph := p.Phase(r); p.isRoot(r, ph) {
			roots[ph] = append(roots[ph], p.Node(r))
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
		if n == absent {
			delete(all, name)
		} else {
			all[name] = n
		}
	}
	return all
}

var (
	_ store.RevGraph = (*pending)(nil)
	_ store.Phases   = (*pending)(nil)
)
