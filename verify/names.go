package verify

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"vcsd/hg"
)

// names are what changesets and manifests say of files, for those of the paths
// whose hash lies in a span. A span that turns out to hold too much is cut to
// half; what is beyond it is left to another walk.
type names struct {
	seed   maphash.Seed
	lo, hi uint64 // of 32-bit hashes; hi is excluded
	max    int    // entries

	ids   map[string]uint32
	paths []tracked // by id
	// listed are the paths that changesets say they changed: id << 32 | rev.
	// Sorted by sort.
	listed []uint64
	named  map[fileRev]hg.Rev // the first manifest that names it
}

// tracked is a path of the span.
type tracked struct {
	name string
	hash uint32
	gone bool // of another span, or its log can't be read
}

// A fileRev is a revision of a file, whose path has an id.
type fileRev struct {
	path uint32
	node hg.Node
}

// allHashes is the end of the last span.
const allHashes = 1 << 32

func newNames(seed maphash.Seed, lo uint64, max int) *names {
	return &names{seed: seed, lo: lo, hi: allHashes, max: max, ids: make(map[string]uint32), named: make(map[fileRev]hg.Rev)}
}

func (n *names) hash(name []byte) uint32 { return uint32(maphash.Bytes(n.seed, name)) }

// has tells whether a path is of the span.
func (n *names) has(name []byte) bool {
	h := uint64(n.hash(name))
	return n.lo <= h && h < n.hi
}

// id returns the id of a path of the span, and makes one.
func (n *names) id(name []byte) (id uint32, ok bool) {
	if id, ok := n.ids[string(name)]; ok {
		return id, true
	}
	if !n.has(name) {
		return 0, false
	}
	id = uint32(len(n.paths))
	n.paths = append(n.paths, tracked{name: string(name), hash: n.hash(name)})
	n.ids[n.paths[id].name] = id
	return id, true
}

// list notes that a changeset lists a path.
func (n *names) list(name []byte, rev hg.Rev) {
	if id, ok := n.id(name); ok {
		n.listed = append(n.listed, uint64(id)<<32|uint64(rev))
		n.limit()
	}
}

// name notes that a manifest names a file revision.
func (n *names) name(name []byte, node hg.Node, manifest hg.Rev) {
	id, ok := n.id(name)
	if !ok {
		return
	}
	key := fileRev{id, node}
	if _, known := n.named[key]; !known {
		n.named[key] = manifest
		n.limit()
	}
}

// limit cuts the span to half while it holds too much.
func (n *names) limit() {
	for len(n.listed)/4+len(n.named) > n.max && n.hi-n.lo > 1 {
		n.hi = n.lo + (n.hi-n.lo)/2
		for id := range n.paths {
			if p := &n.paths[id]; !p.gone && uint64(p.hash) >= n.hi {
				p.gone = true
				delete(n.ids, p.name)
				p.name = ""
			}
		}
		n.listed = slices.DeleteFunc(n.listed, func(e uint64) bool { return n.paths[e>>32].gone })
		maps.DeleteFunc(n.named, func(f fileRev, _ hg.Rev) bool { return n.paths[f.path].gone })
	}
}

// sort is called when all are noted.
func (n *names) sort() { slices.Sort(n.listed) }

// lists tells whether a changeset lists a path.
func (n *names) lists(id uint32, rev hg.Rev) bool {
	_, ok := slices.BinarySearch(n.listed, uint64(id)<<32|uint64(rev))
	return ok
}

// firstLister returns the first changeset that lists a path.
func (n *names) firstLister(id uint32) (hg.Rev, bool) {
	i, _ := slices.BinarySearch(n.listed, uint64(id)<<32)
	if i == len(n.listed) || uint32(n.listed[i]>>32) != id {
		return 0, false
	}
	return hg.Rev(uint32(n.listed[i])), true
}

// sortedIDs returns the ids of all paths, by name.
func (n *names) sortedIDs() []uint32 {
	ids := slices.Collect(maps.Values(n.ids))
	slices.SortFunc(ids, func(a, b uint32) int { return strings.Compare(n.paths[a].name, n.paths[b].name) })
	return ids
}

// leftover is a file revision that a manifest names and no log has.
type leftover struct {
	fileRev
	manifest hg.Rev
}

// leftovers returns what is left of named, but for paths that are gone, by the
// manifest.
func (n *names) leftovers() []leftover {
	var left []leftover
	for f, m := range n.named {
		if !n.paths[f.path].gone {
			left = append(left, leftover{f, m})
		}
	}
	slices.SortFunc(left, func(a, b leftover) int {
		if a.manifest != b.manifest {
			return int(a.manifest - b.manifest)
		}
		return a.node.Compare(b.node)
	})
	return left
}
