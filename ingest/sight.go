package ingest

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
)

// A sight is what clients see of a pending state: not what is secret, nor what
// is obsolete unless something visible stands on it or names it.
type sight struct {
	// filtered are the changesets that clients don't see, obsolete those that
	// are obsolete, seen or not. nil means that both are as in the base, and
	// that all added changesets are seen and none of them obsolete.
	filtered, obsolete *dag.Set

	heads headSet // visible ones

	// What happened since the last settle.
	fresh []hg.Rev // changesets that were added
	stale bool     // filtered and obsolete are to be computed anew
}

func (p *pending) visible(r hg.Rev) bool {
	if f := p.sight.filtered; f != nil {
		return !f.Has(r)
	}
	return int(r) >= p.base.Len() || p.base.Visible(r)
}

// sees tells whether a client may name a changeset: the null one too.
func (p *pending) sees(r hg.Rev) bool { return r == hg.NullRev || p.visible(r) }

func (p *pending) obsolete(r hg.Rev) bool {
	if o := p.sight.obsolete; o != nil {
		return o.Has(r)
	}
	return int(r) < p.base.Len() && p.base.Obsolete(r)
}

// shows tells whether a changeset counts where heads of branches are looked
// for: it does unless it is hidden, or obsolete.
func (p *pending) shows(r hg.Rev) bool { return p.visible(r) && !p.obsolete(r) }

// see takes notice of a changeset that was added.
func (p *pending) see(r, p1, p2 hg.Rev) {
	p.sight.fresh = append(p.sight.fresh, r)
	hidden := func(parent hg.Rev) bool { return parent != hg.NullRev && !p.visible(parent) }
	if p.obs.Replaced(p.Node(r)) || hidden(p1) || hidden(p2) {
		p.sight.stale = true
		return
	}
	p.sight.heads.add(p, r, p1, p2)
}

// settle brings the heads of branches up to date with what happened since it
// was called last.
func (p *pending) settle() error {
	fresh := p.sight.fresh
	p.sight.fresh = nil
	if p.sight.stale {
		p.sight.stale = false
		return p.lookAgain(fresh)
	}
	byBranch := make(map[string][]hg.Rev)
	for _, r := range fresh {
		byBranch[p.branch(r)] = append(byBranch[p.branch(r)], r)
	}
	for b, revs := range byBranch {
		p.setBranchHeads(b, store.AddBranchHeads(p, p.headsOfBranch(b), revs, p.sight.heads.all()))
	}
	return nil
}

// lookAgain computes what clients see. fresh are the changesets that were
// added since it was known.
func (p *pending) lookAgain(fresh []hg.Rev) error {
	isFresh := dag.SetOf(fresh...)
	shown := func(r hg.Rev) bool { return !isFresh.Has(r) && p.shows(r) }
	// Whether others show can't change: they were public and are.
	mutable := slices.Concat(p.base.NonPublic(), fresh)
	for r := range p.phases {
		mutable = append(mutable, r)
	}
	slices.Sort(mutable)
	mutable = slices.Compact(mutable)
	was := make([]bool, len(mutable))
	for i, r := range mutable {
		was[i] = shown(r)
	}
	if err := p.filter(); err != nil {
		return err
	}
	come, gone := make(map[string][]hg.Rev), make(map[string][]hg.Rev)
	for i, r := range mutable {
		switch is := p.shows(r); {
		case is && !was[i]:
			come[p.branch(r)] = append(come[p.branch(r)], r)
		case was[i] && !is:
			gone[p.branch(r)] = append(gone[p.branch(r)], r)
		}
	}
	for b := range come {
		p.setBranchHeads(b, p.branchHeadsAfter(b, come[b], gone[b]))
	}
	for b := range gone {
		if _, done := come[b]; !done {
			p.setBranchHeads(b, p.branchHeadsAfter(b, nil, gone[b]))
		}
	}
	return nil
}

// filter computes filtered, obsolete and the visible heads.
func (p *pending) filter() error {
	obsolete := store.ObsoleteRevs(p, p, p.obs)
	var pinned []hg.Rev
	if obsolete.Len() > 0 {
		var err error
		if pinned, err = p.base.Pinned(p, p.bookmarksAfter()); err != nil {
			return err
		}
	}
	filtered := store.HiddenRevs(p, p, obsolete, pinned)
	for _, r := range p.NonPublic() {
		if p.Phase(r) >= hg.Secret {
			filtered.Add(r)
		}
	}
	old := p.sight
	p.undo = append(p.undo, func() { p.sight = old })
	p.sight = sight{filtered: filtered, obsolete: obsolete, heads: headSet{read: func() []hg.Rev { return dag.Heads(p, p.visible) }}}
	p.sight.heads.all()
	return nil
}

// branchHeadsAfter returns the heads of a branch after some of its changesets
// came to count, and others don't any more.
func (p *pending) branchHeadsAfter(branch string, come, gone []hg.Rev) []hg.Rev {
	heads := slices.DeleteFunc(slices.Clone(p.headsOfBranch(branch)), func(r hg.Rev) bool { return !p.shows(r) })
	heads = append(heads, come...)
	// What only changesets that are gone stood on is found below them.
	seen := dag.SetOf(gone...)
	for stack := slices.Clone(gone); len(stack) > 0; {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p1, p2 := p.Parents(r)
		for _, parent := range []hg.Rev{p1, p2} {
			switch {
			case parent == hg.NullRev || !seen.Add(parent):
			case p.branch(parent) == branch && p.shows(parent):
				heads = append(heads, parent)
			default:
				stack = append(stack, parent)
			}
		}
	}
	return dag.HeadsOf(p, heads)
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
