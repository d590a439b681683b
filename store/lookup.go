package store

import (
	"context"
	"strconv"
	"strings"

	"vcsd/hg"
)

// Lookup finds the changeset that a name stands for, as hg does for names
// from the wire: "tip", "null", a rev, a whole node, a bookmark, a tag, a
// branch, the beginning of a node. What is not found or not visible is an
// *hg.UnknownRevision. The working directory's parent, ".", is not of the store.
func (v *View) Lookup(ctx context.Context, name string) (hg.Node, error) {
	cl := v.state.changelog
	switch name {
	case "null":
		return hg.NullNode, nil
	case "tip":
		return cl.Node(v.Tip()), nil
	}
	if r, ok := v.lookupRev(name); ok {
		return v.shown(cl.Node(r), name)
	}
	if n, err := hg.ParseNode(name); err == nil {
		if _, ok := cl.Rev(n); ok {
			return v.shown(n, name)
		}
	}
	if n, ok, err := v.lookupName(ctx, name); ok || err != nil {
		return n, err
	}
	return v.lookupPrefix(name)
}

// shown returns a node that is in the changelog, unless it is hidden.
func (v *View) shown(n hg.Node, name string) (hg.Node, error) {
	if _, ok := v.Rev(n); !ok {
		return hg.NullNode, &hg.UnknownRevision{Name: name, Filtered: true}
	}
	return n, nil
}

// lookupPrefix finds the node that begins with a prefix, perhaps behind an "x".
// hg counts hidden changesets, the null node and the working directory's pseudo
// node when it decides what is ambiguous.
func (v *View) lookupPrefix(name string) (hg.Node, error) {
	prefix := strings.TrimPrefix(name, "x")
	n, count := v.state.changelog.MatchPrefix(prefix, nil)
	if len(prefix) < hg.NodeHexLen {
		for _, pseudo := range []hg.Node{hg.NullNode, hg.WorkingNode} {
			if strings.HasPrefix(pseudo.String(), prefix) && (count > 0 || pseudo.IsNull()) {
				count++
			}
		}
	}
	switch count {
	case 0:
		return hg.NullNode, &hg.UnknownRevision{Name: name}
	case 1:
		return v.shown(n, name)
	}
	return hg.NullNode, &hg.UnknownRevision{Name: prefix, Ambiguous: true}
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

// lookupName asks the namespaces in hg's order. The first one that has the name
// decides, even if what it names is hidden.
func (v *View) lookupName(ctx context.Context, name string) (hg.Node, bool, error) {
	n, found := v.state.bookmarks[name]
	if !found {
		tags, err := v.tags(ctx)
		if err != nil {
			return hg.NullNode, false, err
		}
		n = tags[name].node
		found = !n.IsNull()
	}
	if found {
		_, ok := v.Rev(n)
		return n, ok, nil
	}
	if r, ok := v.BranchTip(name); ok {
		return v.state.changelog.Node(r), true, nil
	}
	return hg.NullNode, false, nil
}
