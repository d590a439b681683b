package ingest

import (
	"fmt"
	"slices"
	"strings"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
)

// A Policy is what a repository's configuration says on pushes.
type Policy struct {
	// Publishing makes what is pushed public (phases.publish).
	Publishing bool
	// Markers takes obsolescence markers
	// (experimental.evolution.createmarkers).
	Markers bool
	// ReportInstabilities tells the sender of a push what it left orphaned or
	// divergent (experimental.evolution.report-instabilities).
	ReportInstabilities bool
	SingleHead          SingleHead
	// Sight is what clients see: the heads that they say a push replaces are
	// among those.
	Sight store.Sight
}

// SingleHead refuses pushes after which a branch has several heads
// (experimental.single-head-per-branch). The zero value refuses none.
type SingleHead struct {
	Enabled    bool
	PublicOnly bool // what is not public doesn't count (:public-changes-only)
	Closed     bool // heads that close their branch count (:account-closed-heads)
}

// maxNamedHeads is how many heads hg names in a sentence.
const maxNamedHeads = 4

// checkSingleHead refuses a state in which a branch has several heads, with
// hg's words.
func (p *pending) checkSingleHead(s SingleHead) error {
	if !s.Enabled {
		return nil
	}
	all := p.allBranchHeads(s.PublicOnly)
	var bad []string
	for branch, heads := range all {
		if !s.Closed {
			heads = slices.DeleteFunc(slices.Clone(heads), p.closes)
			all[branch] = heads
		}
		if len(heads) > 1 {
			bad = append(bad, branch)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	branch := slices.Min(bad)
	return &hg.Abort{
		Message: fmt.Sprintf("rejecting multiple heads on branch \"%s\"", branch),
		Hint:    fmt.Sprintf("%d heads: %s", len(all[branch]), p.nameHeads(all[branch])),
	}
}

// nameHeads names the first of some changesets.
func (p *pending) nameHeads(revs []hg.Rev) string {
	names := make([]string, 0, maxNamedHeads)
	for _, r := range revs[:min(len(revs), maxNamedHeads)] {
		names = append(names, p.Node(r).Short())
	}
	text := strings.Join(names, " ")
	if more := len(revs) - maxNamedHeads; more > 0 {
		text += fmt.Sprintf(" and %d others", more)
	}
	return text
}

// allBranchHeads returns the heads of all branches: among public changesets,
// or among all but those that are hidden for being obsolete.
func (p *pending) allBranchHeads(publicOnly bool) map[string][]hg.Rev {
	shows := func(r hg.Rev) bool { return p.Phase(r) == hg.Public }
	if !publicOnly {
		if !slices.ContainsFunc(p.NonPublic(), func(r hg.Rev) bool { return p.Phase(r) >= hg.Secret }) {
			return p.servedBranchHeads()
		}
		// Secret ones count too.
		shows = func(r hg.Rev) bool { return p.Phase(r) == hg.Secret && !p.obsolete(r) || p.shows(r) }
	}
	return p.branchHeadsAmong(shows)
}

// branchHeadsAmong returns the heads of all branches among the changesets that
// count.
func (p *pending) branchHeadsAmong(counts func(hg.Rev) bool) map[string][]hg.Rev {
	byBranch := make(map[string][]hg.Rev)
	for r := range hg.Rev(p.Len()) {
		if counts(r) {
			byBranch[p.branch(r)] = append(byBranch[p.branch(r)], r)
		}
	}
	heads := make(map[string][]hg.Rev, len(byBranch))
	for b, revs := range byBranch {
		heads[b] = dag.HeadsOf(p, revs)
	}
	return heads
}

// servedBranchHeads returns the heads of all branches that clients see.
func (p *pending) servedBranchHeads() map[string][]hg.Rev {
	heads := make(map[string][]hg.Rev)
	for b, revs := range p.base.EachBranch() {
		heads[b] = revs
	}
	for b, revs := range p.branchHeads {
		heads[b] = revs
	}
	return heads
}

func (p *pending) closes(r hg.Rev) bool {
	if i := int(r) - p.base.Len(); i >= 0 {
		return p.added[i].closes
	}
	return p.base.Closes(r)
}
