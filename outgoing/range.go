package outgoing

import (
	"context"
	"io"
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire/changegroup"
)

// Changegroup writes a bare changegroup 01 for clients from before getbundle:
// the ancestors of those heads that descend from roots, but for what the client
// has, which is the ancestors of the roots' parents. nil heads mean all
// visible ones; no roots, or the null node among them, mean everything.
func Changegroup(ctx context.Context, view *store.View, roots, heads []hg.Node, hooks Hooks, w io.Writer) error {
	headRevs := view.HeadRevs()
	var err error
	if heads != nil {
		if headRevs, err = resolve(view, heads); err != nil {
			return err
		}
	}
	rootRevs, err := resolve(view, roots)
	if err != nil {
		return err
	}
	var common []hg.Rev
	if len(rootRevs) > 0 {
		common, headRevs = between(view, rootRevs, headRevs)
	}
	sel := newSelection(view, common, withoutNull(headRevs))
	return sendGroup(ctx, hooks, sel, func() error {
		return writeChangegroup(ctx, sel, changegroup.NewWriter(w, changegroup.V01), changegroup.V01)
	})
}

// between returns what a client has that lacks the descendants of roots, and
// those heads that descend from them.
func between(view *store.View, roots, heads []hg.Rev) (common, reached []hg.Rev) {
	inside := func(hg.Rev) bool { return true }
	if !slices.Contains(roots, hg.NullRev) {
		inside = dag.Descendants(view, roots).Has
	}
	for _, h := range heads {
		if h != hg.NullRev && inside(h) {
			reached = append(reached, h)
		}
	}
	below := dag.Ancestors(view, reached)
	for _, r := range withoutNull(roots) {
		p1, p2 := view.Parents(r)
		for _, p := range withoutNull([]hg.Rev{p1, p2}) {
			if !inside(p) || !below.Has(p) {
				common = append(common, p)
			}
		}
	}
	return common, reached
}

func withoutNull(revs []hg.Rev) []hg.Rev {
	return slices.DeleteFunc(slices.Clone(revs), func(r hg.Rev) bool { return r == hg.NullRev })
}

// resolve returns the revs of nodes. One that is not visible is an
// *hg.UnknownRevision.
func resolve(view *store.View, nodes []hg.Node) ([]hg.Rev, error) {
	revs := make([]hg.Rev, 0, len(nodes))
	for _, n := range nodes {
		r, ok := view.Rev(n)
		if !ok {
			_, exists := view.Changelog().Rev(n)
			return nil, &hg.UnknownRevision{Name: n.String(), Filtered: exists}
		}
		revs = append(revs, r)
	}
	return revs, nil
}
