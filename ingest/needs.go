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

// needs are the file revisions that the new manifests of a push name and that
// are to be found. Each takes 28 bytes, and each path its own, however often
// they are named. When that comes to maxBytes, those that are found by then are
// dropped.
type needs struct {
	maxBytes  int64
	ids       map[string]uint32 // of paths
	paths     []string          // by id
	pathBytes int64             // what ids and paths take, about

	sorted []need // each once
	recent []need // named since, in any order
}

type need struct {
	node hg.Node
	path uint32
	by   uint32 // first changeset whose manifest names it, an index in staged.changesets
}

// compare tells which of two revisions comes first; by says nothing.
func (n need) compare(o need) int {
	if n.path != o.path {
		return cmp.Compare(n.path, o.path)
	}
	return n.node.Compare(o.node)
}

const (
	needBytes = hg.NodeLen + 4 + 4
	// needPathBytes is what a path takes beside its letters: two string headers
	// and its share of a map.
	needPathBytes = 64

	minRecentNeeds = 4096
)

// maxNeedBytes is what the needs of a push of some size may take. A revision
// that the store lacks comes with the push, whose bundle holds at least its
// hash, which no compression makes shorter: so the needs of an honest push
// stay well below this. What goes beyond it is a compressed list of names.
func maxNeedBytes(payload int64) int64 { return 64<<20 + 4*payload }

// add notes that the manifest which the changeset by brings names a revision
// of a file. It reports whether there is room for more; if not, the caller calls
// shed.
func (n *needs) add(path []byte, node hg.Node, by int) bool {
	n.recent = append(n.recent, need{node, n.id(path), uint32(by)})
	if len(n.recent) >= max(minRecentNeeds, len(n.sorted)/4) {
		n.fold()
	}
	return n.bytes() <= n.maxBytes
}

func (n *needs) id(path []byte) uint32 {
	id, ok := n.ids[string(path)]
	if !ok {
		id = n.newPath(string(path))
	}
	return id
}

func (n *needs) newPath(path string) uint32 {
	if n.ids == nil {
		n.ids = make(map[string]uint32)
	}
	id := uint32(len(n.paths))
	n.paths = append(n.paths, path)
	n.ids[path] = id
	n.pathBytes += int64(len(path)) + needPathBytes
	return id
}

// first returns the first changeset whose manifest names a revision.
func (n *needs) first(path string, node hg.Node) (by int, ok bool) {
	id, ok := n.ids[path]
	if !ok {
		return 0, false
	}
	n.fold()
	i, ok := slices.BinarySearchFunc(n.sorted, need{node: node, path: id}, need.compare)
	if !ok {
		return 0, false
	}
	return int(n.sorted[i].by), true
}

func (n *needs) bytes() int64 {
	return n.pathBytes + needBytes*int64(len(n.sorted)+len(n.recent))
}

// fold merges recent into sorted.
func (n *needs) fold() {
	slices.SortFunc(n.recent, func(a, b need) int { return cmp.Or(a.compare(b), cmp.Compare(a.by, b.by)) })
	once := slices.CompactFunc(n.recent, func(a, b need) bool { return a.compare(b) == 0 })
	fresh := slices.DeleteFunc(once, func(e need) bool {
		i, ok := slices.BinarySearchFunc(n.sorted, e, need.compare)
		if ok {
			n.sorted[i].by = min(n.sorted[i].by, e.by)
		}
		return ok
	})
	i := len(n.sorted) - 1
	n.sorted = append(n.sorted, fresh...)
	// From the end, where there is room.
	for k, j := len(n.sorted)-1, len(fresh)-1; j >= 0; k-- {
		if i >= 0 && n.sorted[i].compare(fresh[j]) > 0 {
			n.sorted[k] = n.sorted[i]
			i--
		} else {
			n.sorted[k] = fresh[j]
			j--
		}
	}
	n.recent = n.recent[:0]
}

// shed makes room by dropping the revisions that are staged or in the store.
func (n *needs) shed(ctx context.Context, view *store.View, files []stagedFile) error {
	if err := n.drop(ctx, view, files); err != nil {
		return err
	}
	n.renumber()
	if n.bytes() > n.maxBytes/2 {
		return fmt.Errorf("push whose manifests name %d missing revisions of %d files: %w", len(n.sorted), len(n.paths), hg.ErrTooLarge)
	}
	return nil
}

// check finds every revision among files or in the store, and names the first
// that is missing.
func (n *needs) check(ctx context.Context, view *store.View, files []stagedFile) error {
	if err := n.drop(ctx, view, files); err != nil || len(n.sorted) == 0 {
		return err
	}
	e := n.sorted[0]
	return hg.Abortf("missing file data for %s:%s - run hg verify", n.paths[e.path], e.node)
}

// drop removes what can be found.
func (n *needs) drop(ctx context.Context, view *store.View, files []stagedFile) error {
	n.fold()
	staged := make(map[string][]revlog.Staged, len(files))
	for _, f := range files {
		staged[f.path] = f.revs
	}
	left := n.sorted[:0]
	for rest := n.sorted; len(rest) > 0; {
		id, k := rest[0].path, 1
		for k < len(rest) && rest[k].path == id {
			k++
		}
		path := n.paths[id]
		missing, err := missingRevs(ctx, view, path, rest[:k], staged[path])
		if err != nil {
			return err
		}
		left = append(left, missing...)
		rest = rest[k:]
	}
	n.sorted = left
	return nil
}

// renumber forgets the paths that no need has. The others keep their order.
func (n *needs) renumber() {
	old := n.paths
	n.ids, n.paths, n.pathBytes = nil, nil, 0
	for i, e := range n.sorted {
		if id := uint32(len(n.paths)) - 1; i > 0 && n.paths[id] == old[e.path] {
			n.sorted[i].path = id
		} else {
			n.sorted[i].path = n.newPath(old[e.path])
		}
	}
	n.sorted = slices.Clip(n.sorted)
}

// missingRevs returns which of the needed revisions of one file are neither
// among revs nor in the store, in the place of entries. It opens the filelog
// only if revs aren't all.
func missingRevs(ctx context.Context, view *store.View, path string, entries []need, revs []revlog.Staged) ([]need, error) {
	missing := notStagedRevs(entries, revs)
	if len(missing) == 0 {
		return nil, nil
	}
	snap, err := view.Filelog(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open filelog of %q: %w", path, err)
	}
	defer snap.Close()
	return slices.DeleteFunc(missing, func(e need) bool {
		_, ok := snap.Rev(e.node)
		return ok
	}), nil
}

func notStagedRevs(entries []need, revs []revlog.Staged) []need {
	if len(revs) == 0 {
		return entries
	}
	found := make([]bool, len(entries))
	for i := range revs {
		if j, ok := slices.BinarySearchFunc(entries, need{node: revs[i].Node, path: entries[0].path}, need.compare); ok {
			found[j] = true
		}
	}
	missing := entries[:0]
	for i, e := range entries {
		if !found[i] {
			missing = append(missing, e)
		}
	}
	return missing
}
