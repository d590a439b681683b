package outgoing

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// phaseHeads tells the phases of what the client gets or knows: on a
// publishing server all is public.
func (b *bundleWriter) phaseHeads() error {
	byPhase := map[hg.Phase][]hg.Rev{}
	if b.args.Publishing {
		byPhase[hg.Public] = b.heads
	} else {
		for _, h := range b.heads {
			p := hg.Public
			if h != hg.NullRev {
				p = b.view.Phase(h)
			}
			byPhase[p] = append(byPhase[p], h)
		}
		byPhase[hg.Public] = b.withPublicBelow(byPhase[hg.Public], byPhase[hg.Draft])
	}
	var entries []bundle2.PhaseHead
	for _, p := range []hg.Phase{hg.Public, hg.Draft} {
		nodes := make([]hg.Node, 0, len(byPhase[p]))
		for _, r := range byPhase[p] {
			nodes = append(nodes, b.view.Changelog().Node(r))
		}
		slices.SortFunc(nodes, hg.Node.Compare)
		for _, n := range slices.Compact(nodes) {
			entries = append(entries, bundle2.PhaseHead{Phase: p, Node: n})
		}
	}
	_, err := b.out.WritePart("phase-heads", true, bundle2.AppendPhaseHeads(nil, entries))
	return err
}

// withPublicBelow adds to public heads the heads of the public ancestors of
// drafts, but for those that are below a public head anyway.
func (b *bundleWriter) withPublicBelow(public, drafts []hg.Rev) []hg.Rev {
	edge := b.publicEdge(drafts)
	if len(edge) == 0 {
		return public
	}
	known := withoutNull(public)
	all := slices.Clone(public)
	for _, r := range dag.HeadsOf(b.view, slices.Concat(edge, known)) {
		if !slices.Contains(known, r) {
			all = append(all, r)
		}
	}
	return all
}

// publicEdge returns the public changesets that a walk down from drafts meets
// first, ascending.
func (b *bundleWriter) publicEdge(drafts []hg.Rev) []hg.Rev {
	seen := make(map[hg.Rev]struct{})
	var edge []hg.Rev
	stack := slices.Clone(drafts)
	for len(stack) > 0 {
		r := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if _, ok := seen[r]; ok || r == hg.NullRev {
			continue
		}
		seen[r] = struct{}{}
		if b.view.Phase(r) == hg.Public {
			edge = append(edge, r)
			continue
		}
		p1, p2 := b.view.Parents(r)
		stack = append(stack, p1, p2)
	}
	slices.Sort(edge)
	return edge
}
