package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/refs"
	"vcsd/store"
)

// Refs is what is asked of the coordination service.
type Refs interface {
	State(ctx context.Context, repo refs.RepoID) (refs.State, error)
}

// headKeysName is how a finding names the head key of a branch.
func headKeysName(branch string) string { return "etcd: head key of branch " + branch }

// checkHeadKeys compares the head keys with the store, if the tip stands still
// meanwhile. They are an index, which a local hg or a push that died may have
// left behind.
func (v *verifier) checkHeadKeys(c *chain) (err error) {
	if c.published.Seq == 0 || c.foreign || c.linked != idOf(c.published) || v.counts.Findings > 0 {
		return nil
	}
	before, err := v.o.Refs.State(v.ctx, v.o.RepoID)
	if err != nil {
		return nil // noted, or it has just gone
	}
	heads, ok, err := v.branchHeads(before.Tip)
	if err != nil || !ok {
		return err
	}
	after, err := v.o.Refs.State(v.ctx, v.o.RepoID)
	if err != nil || after.Tip != before.Tip || before.Tip != c.published {
		return nil // pushes go on
	}
	for _, branch := range slices.Sorted(maps.Keys(after.Heads)) {
		key, err := ingest.ParseHeadKey(after.Heads[branch])
		switch {
		case err != nil:
			v.reportFile(headKeysName(branch), remedyRefs, "%v", err)
		case key.Seq > after.Tip.Seq:
			v.reportFile(headKeysName(branch), remedyRefs, "it is of record %d, and the tip is record %d", key.Seq, after.Tip.Seq)
		case key.Seq >= c.oldest && key.Seq > c.adopted && !key.Tells(heads[branch]):
			v.reportFile(headKeysName(branch), remedyRefs, "it tells other heads than the store has, as of record %d; the next push to the branch mends it too", key.Seq)
		}
	}
	return nil
}

// branchHeads returns the heads of all branches by name, if the store is at a
// tip, and if all changesets are shown: what is hidden changes without a record.
func (v *verifier) branchHeads(tip refs.Tip) (heads map[string][]hg.Node, ok bool, err error) {
	err = v.withView(func(view *store.View) error {
		last := hg.Rev(view.Len() - 1)
		if view.Len() != tip.ChangelogLen || view.Changelog().Node(last) != tip.Node || !view.AllVisible() {
			return nil
		}
		heads, ok = headsOf(view), true
		return nil
	})
	return heads, ok, err
}

// headsOf returns the heads of all branches, in order of rev.
func headsOf(view *store.View) map[string][]hg.Node {
	heads := make(map[string][]hg.Node)
	for branch, revs := range view.EachBranch() {
		for _, r := range revs {
			heads[branch] = append(heads[branch], view.Changelog().Node(r))
		}
	}
	return heads
}

// withView calls f with a view of a store that is sound.
func (v *verifier) withView(f func(*store.View) error) error {
	repo, err := store.Open(v.fs, store.Options{})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer repo.Close() // read only
	view, err := repo.View(v.ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	return f(view)
}
