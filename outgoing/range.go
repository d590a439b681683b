package outgoing

import (
	"context"
	"io"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire/changegroup"
)

// Changegroup writes a bare changegroup 01 of the descendants of roots that
// are ancestors of heads; nil heads mean all visible ones. It is what clients
// from before getbundle ask for.
func Changegroup(ctx context.Context, view *store.View, roots, heads []hg.Node, w io.Writer) error {
	args := Args{Heads: heads, Changegroup: true}
	_, headRevs, err := args.selection(view)
	if err != nil {
		return err
	}
	rootArgs := Args{Heads: roots, Changegroup: true}
	_, rootRevs, err := rootArgs.selection(view)
	if err != nil {
		return err
	}
	sel := newSelection(view, nil, headRevs)
	if len(rootRevs) > 0 {
		sel = newSelection(view, unwanted(dag.Descendants(view, rootRevs), sel.revs), headRevs)
	}
	return writeChangegroup(ctx, sel, changegroup.NewWriter(w, changegroup.V01), changegroup.V01)
}

// unwanted returns what a client has that lacks only the members of
// wanted among revs: the others of revs.
func unwanted(wanted *dag.Set, revs []hg.Rev) []hg.Rev {
	var has []hg.Rev
	for _, r := range revs {
		if !wanted.Has(r) {
			has = append(has, r)
		}
	}
	return has
}
