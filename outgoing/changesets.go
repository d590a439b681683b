package outgoing

import (
	"context"
	"iter"
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// eachChangeset hands the changesets of revs to do, until it fails.
func eachChangeset(ctx context.Context, view *store.View, revs iter.Seq[hg.Rev], do func(hg.Rev, *store.Changeset) error) error {
	cl := view.Changelog()
	read := cl.Reader(0)
	for r := range revs {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := read.Text(r)
		if err != nil {
			return err
		}
		c, err := store.ParseChangeset(text)
		if err != nil {
			return revlog.Corrupt(cl.Name(), r, err)
		}
		if err := do(r, &c); err != nil {
			return err
		}
	}
	return nil
}

// allRevs yields all changesets of a View, hidden ones included.
func allRevs(view *store.View) iter.Seq[hg.Rev] {
	return func(yield func(hg.Rev) bool) {
		for r := hg.Rev(0); int(r) < view.Len() && yield(r); r++ {
		}
	}
}

// filePaths returns the names of all files that any changeset changed, sorted.
func filePaths(ctx context.Context, view *store.View) ([]string, error) {
	seen := make(map[string]struct{})
	err := eachChangeset(ctx, view, allRevs(view), func(_ hg.Rev, c *store.Changeset) error {
		for _, f := range c.Files() {
			if _, ok := seen[string(f)]; !ok {
				seen[string(f)] = struct{}{}
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(seen)), err
}
