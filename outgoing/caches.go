package outgoing

import (
	"cmp"
	"slices"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// caches writes the parts that spare a client some work: which revision of
// .hgtags the heads have, as far as hg's cache knows, and on which branch each
// changeset lies. Clients of 6.3 don't ask for the second one.
func (b *bundleWriter) caches() error {
	if _, ok := b.args.Caps["hgtagsfnodes"]; ok {
		if err := b.tagsFileNodes(); err != nil {
			return err
		}
	}
	if _, ok := b.args.Caps["rev-branch-cache"]; ok {
		_, err := b.out.WritePart("cache:rev-branch-cache", false, bundle2.AppendBranchCache(nil, b.branches()))
		return err
	}
	return nil
}

func (b *bundleWriter) tagsFileNodes() error {
	fnodes, err := b.view.CachedTagsFileNodes(b.heads)
	if err != nil || len(fnodes) == 0 {
		return err
	}
	pairs := make([]bundle2.TagsFnode, 0, len(fnodes))
	for _, h := range b.heads {
		if f, ok := fnodes[h]; ok {
			pairs = append(pairs, bundle2.TagsFnode{Changeset: b.view.Changelog().Node(h), File: f})
		}
	}
	_, err = b.out.WritePart("hgtagsfnodes", true, bundle2.AppendTagsFnodes(nil, pairs))
	return err
}

// branches returns the changesets of the bundle by branch, in hg's order.
func (b *bundleWriter) branches() []bundle2.BranchNodes {
	byName := make(map[string]*bundle2.BranchNodes)
	for _, r := range b.sel.revs {
		name := b.view.Branch(r)
		br := byName[name]
		if br == nil {
			br = &bundle2.BranchNodes{Branch: name}
			byName[name] = br
		}
		to := &br.Open
		if b.view.Closes(r) {
			to = &br.Closed
		}
		*to = append(*to, b.view.Changelog().Node(r))
	}
	all := make([]bundle2.BranchNodes, 0, len(byName))
	for _, br := range byName {
		slices.SortFunc(br.Open, hg.Node.Compare)
		slices.SortFunc(br.Closed, hg.Node.Compare)
		all = append(all, *br)
	}
	slices.SortFunc(all, func(a, b bundle2.BranchNodes) int { return cmp.Compare(a.Branch, b.Branch) })
	return all
}
