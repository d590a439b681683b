package ingest

import (
	"maps"
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
)

// A sight is what clients see of a pending state: not what is secret, nor what
// is obsolete unless something visible stands on it or names it.
type sight struct {
	// filtered are the changesets that clients don't see, obsolete those that
	// are obsolete, seen or not. They are not changed, and may be nil.
	filtered, obsolete *dag.Set

	heads headSet // visible ones

	// What happened since the last settle.
	fresh []hg.Rev // changesets that were added
	stale bool     // filtered and obsolete are to be computed anew
}

func (p *pending) visible(r hg.Rev) bool { return !p.sight.filtered.Has(r) }

func (p *pending) obsolete(r hg.Rev) bool { return p.sight.obsolete.Has(r) }

// sees tells whether a client may name a changeset: the null one too.
func (p *pending) sees(r hg.Rev) bool { return r == hg.NullRev || p.visible(r) }

// shows tells whether a changeset counts where heads of branches are looked
// for: it does unless it is hidden, or obsolete.
func (p *pending) shows(r hg.Rev) bool { return p.visible(r) && !p.obsolete(r) }

// see takes notice of a changeset that was added.
func (p *pending) see(r, p1, p2 hg.Rev) {
	p.sight.fresh = append(p.sight.fresh, r)
	if p.obs.Replaced(p.Node(r)) || !p.sees(p1) || !p.sees(p2) {
		p.sight.stale = true
	}
}

// settle brings the heads up to date with what happened since it
// was called last.
func (p *pending) settle() error {
	fresh := p.sight.fresh
	p.sight.fresh = nil
	if p.sight.stale {
		p.sight.stale = false
		return p.lookAgain(fresh)
	}
	byBranch := make(map[string]*store.BranchChange)
	for _, r := range fresh {
		p1, p2 := p.Parents(r)
		p.sight.heads.add(p, r, p1, p2)
		c := p.changeOf(byBranch, r)
		c.Come = append(c.Come, r)
	}
	p.updateBranches(byBranch)
	return nil
}

// changeOf returns the change of the branch of r.
func (p *pending) changeOf(byBranch map[string]*store.BranchChange, r hg.Rev) *store.BranchChange {
	b := p.branch(r)
	c, ok := byBranch[b]
	if !ok {
		start, known := p.base.BranchStart(b)
		if !known {
			start = hg.Rev(p.base.Len())
		}
		c = &store.BranchChange{First: start, Counts: func(r hg.Rev) bool { return p.branch(r) == b && p.shows(r) }}
		byBranch[b] = c
	}
	return c
}

func (p *pending) updateBranches(byBranch map[string]*store.BranchChange) {
	for b, c := range byBranch {
		p.setBranchHeads(b, store.BranchHeadsAfter(p, p.headsOfBranch(b), *c, p.sight.heads.all()))
	}
}

// lookAgain computes what clients see. fresh are the changesets that were
// added since it was known.
func (p *pending) lookAgain(fresh []hg.Rev) error {
	old := p.sight
	filtered, obsolete, err := p.filter()
	if err != nil {
		return err
	}
	isFresh := dag.SetOf(fresh...)
	byBranch := make(map[string]*store.BranchChange)
	var come, gone []hg.Rev
	for _, r := range store.UnionOf(isFresh, old.filtered, old.obsolete, filtered, obsolete) {
		saw, sees := !isFresh.Has(r) && !old.filtered.Has(r), !filtered.Has(r)
		switch {
		case sees && !saw:
			come = append(come, r)
		case saw && !sees:
			gone = append(gone, r)
		}
		switch showed, shows := saw && !old.obsolete.Has(r), sees && !obsolete.Has(r); {
		case shows && !showed:
			c := p.changeOf(byBranch, r)
			c.Come = append(c.Come, r)
		case showed && !shows:
			c := p.changeOf(byBranch, r)
			c.Gone = append(c.Gone, r)
		}
	}
	was := slices.Collect(maps.Keys(old.heads.all()))
	p.undo = append(p.undo, func() { p.sight = old })
	p.sight = sight{filtered: filtered, obsolete: obsolete}
	p.sight.heads.set(store.HeadsAfter(p, was, come, gone, p.visible))
	p.updateBranches(byBranch)
	return nil
}

// filter computes what is filtered and what is obsolete.
func (p *pending) filter() (filtered, obsolete *dag.Set, err error) {
	hidden, obsolete, err := p.hide()
	if err != nil {
		return nil, nil, err
	}
	return store.Served.Filter(p.Len(), p, hidden), obsolete, nil
}

// hide computes what hg shows nobody, and what is obsolete.
func (p *pending) hide() (hidden, obsolete *dag.Set, err error) {
	obsolete = store.ObsoleteRevs(p, p, p.obs)
	var pinned []hg.Rev
	if obsolete.Len() > 0 {
		if pinned, err = p.base.Pinned(p, p.bookmarksAfter()); err != nil {
			return nil, nil, err
		}
	}
	return store.HiddenRevs(p, p, obsolete, pinned), obsolete, nil
}

// filterAs computes what s doesn't show.
func (p *pending) filterAs(s store.Sight) (*dag.Set, error) {
	if s == store.Served {
		return p.sight.filtered, nil
	}
	hidden, _, err := p.hide()
	return s.Filter(p.Len(), p, hidden), err
}

// headsAs returns the heads that s shows; of an empty repository, NullNode.
func (p *pending) headsAs(s store.Sight) ([]hg.Node, error) {
	if s == store.Served {
		return p.headNodes(), nil
	}
	filtered, err := p.filterAs(s)
	if err != nil {
		return nil, err
	}
	nodes := nodesOf(p, dag.Heads(p, func(r hg.Rev) bool { return !filtered.Has(r) }))
	if len(nodes) == 0 {
		nodes = append(nodes, hg.NullNode)
	}
	return nodes, nil
}

// branchHeadsAs returns a function that tells whether a changeset is the head
// of a branch, of what s shows.
func (p *pending) branchHeadsAs(s store.Sight) (func(hg.Node) bool, error) {
	if s == store.Served {
		return p.isBranchHead, nil
	}
	filtered, err := p.filterAs(s)
	if err != nil {
		return nil, err
	}
	heads := p.branchHeadsAmong(func(r hg.Rev) bool { return !filtered.Has(r) && !p.obsolete(r) })
	return func(n hg.Node) bool {
		r, ok := p.Rev(n)
		return ok && r != hg.NullRev && slices.Contains(heads[p.branch(r)], r)
	}, nil
}

// setBranchHeads sets the heads of a branch.
func (p *pending) setBranchHeads(branch string, heads []hg.Rev) {
	old := p.headsOfBranch(branch)
	if slices.Equal(old, heads) {
		return
	}
	if _, ok := p.before[branch]; !ok {
		p.before[branch] = old
	}
	set(p, p.branchHeads, branch, heads)
}
