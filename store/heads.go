package store

import (
	"maps"
	"slices"

	"vcsd/dag"
	"vcsd/hg"
)

// HeadsAfter returns the heads, ascending, of a set of changesets that has all
// ancestors of its members, after some came to it and others left. come and
// gone ascend; old are the heads before, in tells what is a member now.
func HeadsAfter(g dag.Graph, old, come, gone []hg.Rev, in func(hg.Rev) bool) []hg.Rev {
	heads := make(map[hg.Rev]struct{}, len(old)+len(come))
	for _, r := range old {
		heads[r] = struct{}{}
	}
	for _, r := range gone {
		delete(heads, r)
	}
	for _, r := range come {
		p1, p2 := g.Parents(r)
		delete(heads, p1)
		delete(heads, p2)
		heads[r] = struct{}{}
	}
	doubtful := uncovered(g, come, gone, in)
	for _, r := range doubtful {
		heads[r] = struct{}{}
	}
	revs := slices.Sorted(maps.Keys(heads))
	if len(doubtful) == 0 {
		return revs
	}
	return dag.HeadsAmong(g, revs, doubtful)
}

// uncovered returns the members that lost a child, if none came instead: they
// may be heads.
func uncovered(g dag.Graph, come, gone []hg.Rev, in func(hg.Rev) bool) []hg.Rev {
	seen := new(dag.Set)
	for _, r := range come {
		p1, p2 := g.Parents(r)
		seen.Add(p1)
		seen.Add(p2)
	}
	var revs []hg.Rev
	for _, r := range gone {
		p1, p2 := g.Parents(r)
		for _, p := range []hg.Rev{p1, p2} {
			if p != hg.NullRev && in(p) && seen.Add(p) {
				revs = append(revs, p)
			}
		}
	}
	return revs
}

// A BranchChange is what happened to the changesets of a branch that count
// where its heads are looked for.
type BranchChange struct {
	Come, Gone []hg.Rev // those that count now, or don't any more; ascending
	// First is a lower bound of the branch's changesets.
	First hg.Rev
	// Counts tells whether a changeset is of this branch and counts.
	Counts func(hg.Rev) bool
}

// BranchHeadsAfter returns the heads of a branch, ascending, after a change.
// old are those before it; heads are those of the whole repository, after. A
// head of a branch has no descendant on that branch, not even by way of another
// one.
func BranchHeadsAfter(g dag.Graph, old []hg.Rev, c BranchChange, heads map[hg.Rev]struct{}) []hg.Rev {
	candidates := make(map[hg.Rev]struct{}, len(old)+len(c.Come))
	for _, r := range old {
		candidates[r] = struct{}{}
	}
	for _, r := range c.Gone {
		delete(candidates, r)
	}
	for _, r := range c.Come {
		p1, p2 := g.Parents(r)
		delete(candidates, p1)
		delete(candidates, p2)
		candidates[r] = struct{}{}
	}
	for _, r := range c.below(g) {
		candidates[r] = struct{}{}
	}
	revs := slices.Sorted(maps.Keys(candidates))
	if len(revs) < 2 {
		return revs
	}
	// Heads of the repository are nobody's ancestors.
	doubtful := slices.DeleteFunc(slices.Clone(revs), func(r hg.Rev) bool {
		_, isHead := heads[r]
		return isHead
	})
	if len(doubtful) == 0 {
		return revs
	}
	return dag.HeadsAmong(g, revs, doubtful)
}

// below returns what is found first below the changesets that are gone: what
// only those stood on.
func (c *BranchChange) below(g dag.Graph) []hg.Rev {
	var found []hg.Rev
	seen := dag.SetOf(c.Gone...)
	for stack := slices.Clone(c.Gone); len(stack) > 0; {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p1, p2 := g.Parents(r)
		for _, p := range []hg.Rev{p1, p2} {
			switch {
			case p < c.First || !seen.Add(p):
			case c.Counts(p):
				found = append(found, p)
			default:
				stack = append(stack, p)
			}
		}
	}
	return found
}
