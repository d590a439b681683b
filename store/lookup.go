package store

import (
	"context"
	"strconv"

	"vcsd/hg"
)

// Lookup finds the changeset that a name stands for, as hg does for names
// from the wire: "tip", "null", a rev, a whole node, a bookmark, a tag, a
// branch, the beginning of a node. What is not found or not visible is an
// *hg.UnknownRevision.
func (v *View) Lookup(ctx context.Context, name string) (hg.Node, error) {
	cl := v.state.changelog
	switch name {
	case "null":
		return hg.NullNode, nil
	case "tip", ".":
		return cl.Node(v.Tip()), nil
	}
	if r, ok := v.lookupRev(name); ok {
		if !v.Visible(r) {
			return hg.NullNode, &hg.UnknownRevision{Name: name, Filtered: true}
		}
		return cl.Node(r), nil
	}
	if n, err := hg.ParseNode(name); err == nil {
		if r, ok := cl.Rev(n); ok {
			if r != hg.NullRev && !v.Visible(r) {
				return hg.NullNode, &hg.UnknownRevision{Name: name, Filtered: true}
			}
			return n, nil
		}
	}
	if n, ok, err := v.lookupName(ctx, name); ok || err != nil {
		return n, err
	}
	switch n, count := cl.MatchPrefix(name, v.Visible); count {
	case 0:
		return hg.NullNode, &hg.UnknownRevision{Name: name}
	case 1:
		return n, nil
	}
	return hg.NullNode, &hg.UnknownRevision{Name: name, Ambiguous: true}
}

// lookupRev reads a rev in decimal, from the end if it is negative.
func (v *View) lookupRev(name string) (hg.Rev, bool) {
	i, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(i) != name {
		return 0, false
	}
	if i < 0 {
		i += v.Len()
	}
	return hg.Rev(i), i >= 0 && i < v.Len()
}

func (v *View) lookupName(ctx context.Context, name string) (hg.Node, bool, error) {
	if n, ok := v.state.bookmarks[name]; ok {
		if r, ok := v.Rev(n); ok && r != hg.NullRev {
			return n, true, nil
		}
	}
	if n, ok, err := v.tag(ctx, name); ok || err != nil {
		return n, ok, err
	}
	if r, ok := v.BranchTip(name); ok {
		return v.state.changelog.Node(r), true, nil
	}
	return hg.NullNode, false, nil
}
