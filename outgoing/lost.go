package outgoing

import (
	"context"
	"fmt"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// maxLostManifests is how many manifests checkLost reads at most: a client may
// have pushed any number of changesets that list files which never were.
const maxLostManifests = 1000

// checkLost looks for files without any revision whose name a manifest has: a
// full clone, which doesn't look into manifests, would leave them out, and the
// client would not know. empty are the names of files that changesets list and
// that have no revision.
func checkLost(ctx context.Context, view *store.View, empty []string) error {
	if len(empty) == 0 {
		return nil
	}
	isEmpty := make(map[string]bool, len(empty))
	for _, f := range empty {
		isEmpty[f] = true
	}
	mf, left := view.Manifest(), maxLostManifests
	return eachChangeset(ctx, view, allRevs(view), func(_ hg.Rev, c *store.Changeset) error {
		var listed []string
		for _, f := range c.Files() {
			if isEmpty[string(f)] {
				listed = append(listed, string(f))
			}
		}
		mr, ok := mf.Rev(c.Manifest)
		if len(listed) == 0 || !ok || mr == hg.NullRev || left == 0 {
			return nil
		}
		left--
		text, err := mf.Text(mr)
		if err != nil {
			return err
		}
		for _, f := range listed {
			e, named, err := store.FindEntry(text, f)
			if err != nil {
				return revlog.Corrupt(mf.Name(), mr, err)
			}
			if named {
				return lacks(view.Repo().FilelogRadix(f)+".i", f, e.Node)
			}
		}
		return nil
	})
}

// lacks is the error of a file's log that lacks a revision.
func lacks(log, path string, n hg.Node) error {
	return &revlog.CorruptError{File: log, Rev: hg.NullRev,
		Err: fmt.Errorf("%q lacks revision %s that a manifest names", path, n)}
}
