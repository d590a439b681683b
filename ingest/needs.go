package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/store"
)

// needs are the file revisions that the new manifests of a push name: 28 bytes
// each, and each path once.
type needs struct {
	ids     map[string]uint32
	paths   []string // by id
	entries []need
	sorted  bool // entries are, by compare
}

type need struct {
	node hg.Node
	path uint32
	by   uint32 // changeset that brings the manifest, an index in staged.changesets
}

func (a need) compare(b need) int {
	return cmp.Or(cmp.Compare(a.path, b.path), a.node.Compare(b.node), cmp.Compare(a.by, b.by))
}

// add notes that the manifest which the changeset by brings names a revision.
func (n *needs) add(path []byte, node hg.Node, by int) {
	if n.ids == nil {
		n.ids = make(map[string]uint32)
	}
	id, ok := n.ids[string(path)]
	if !ok {
		id = uint32(len(n.paths))
		n.paths = append(n.paths, string(path))
		n.ids[n.paths[id]] = id
	}
	n.entries = append(n.entries, need{node, id, uint32(by)})
	n.sorted = false
}

// first returns the first changeset whose manifest names a revision.
func (n *needs) first(path string, node hg.Node) (by int, ok bool) {
	id, ok := n.ids[path]
	if !ok {
		return 0, false
	}
	n.sort()
	i, _ := slices.BinarySearchFunc(n.entries, need{node: node, path: id}, need.compare)
	if i == len(n.entries) || n.entries[i].path != id || n.entries[i].node != node {
		return 0, false
	}
	return int(n.entries[i].by), true
}

func (n *needs) sort() {
	if !n.sorted {
		slices.SortFunc(n.entries, need.compare)
		n.sorted = true
	}
}

// check finds every needed revision among files or in the store, and names
// the first that is missing.
func (n *needs) check(ctx context.Context, view *store.View, files []stagedFile) error {
	n.sort()
	staged := make(map[string][]revlog.Staged, len(files))
	for _, f := range files {
		staged[f.path] = f.revs
	}
	for i := 0; i < len(n.entries); {
		j := i + 1
		for j < len(n.entries) && n.entries[j].path == n.entries[i].path {
			j++
		}
		path := n.paths[n.entries[i].path]
		if err := checkFile(ctx, view, path, n.entries[i:j], staged[path]); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// checkFile checks the needed revisions of one file. It opens the filelog
// only if the push doesn't bring them all.
func checkFile(ctx context.Context, view *store.View, path string, entries []need, revs []revlog.Staged) error {
	have := make(map[hg.Node]struct{}, len(revs))
	for _, r := range revs {
		have[r.Node] = struct{}{}
	}
	missing := slices.DeleteFunc(entries, func(e need) bool {
		_, ok := have[e.node]
		return ok
	})
	if len(missing) == 0 {
		return nil
	}
	snap, err := view.Filelog(ctx, path)
	if err != nil {
		return fmt.Errorf("open filelog of %q: %w", path, err)
	}
	defer snap.Close()
	for _, e := range missing {
		if _, ok := snap.Rev(e.node); !ok {
			return hg.Abortf("missing file data for %s:%s - run hg verify", path, e.node)
		}
	}
	return nil
}
