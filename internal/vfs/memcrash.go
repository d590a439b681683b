package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// An edit sets one entry of a directory, or removes it if node is nil.
type edit struct {
	dir  *memNode
	base string
	node *memNode
}

func set(p place, n *memNode) edit { return edit{p.dir, p.base, n} }
func unset(p place) edit           { return edit{p.dir, p.base, nil} }

// A dirOp is a change of directories that is durable as a whole or not at all.
type dirOp struct{ edits []edit }

func (o dirOp) touches(dir *memNode) bool {
	return slices.ContainsFunc(o.edits, func(e edit) bool { return e.dir == dir })
}

// entryKey names an entry, whatever stands there.
type entryKey struct {
	dir  *memNode
	base string
}

// meets reports whether the operation changes one of the entries in keys.
func (o dirOp) meets(keys map[entryKey]bool) bool {
	return slices.ContainsFunc(o.edits, func(e edit) bool { return keys[entryKey{e.dir, e.base}] })
}

func (o dirOp) addKeys(keys map[entryKey]bool) {
	for _, e := range o.edits {
		keys[entryKey{e.dir, e.base}] = true
	}
}

// changeLocked changes directories in one step, not durably.
func (m *Mem) changeLocked(edits ...edit) {
	now := time.Now()
	for _, e := range edits {
		if was := e.dir.entries[e.base]; was != nil {
			was.nlink--
			was.ctime = now
			if was.nlink == 0 {
				m.used -= was.holds()
			}
		}
		delete(e.dir.entries, e.base)
		if e.node != nil {
			if e.node.nlink == 0 {
				m.used += e.node.holds()
			}
			e.node.nlink++
			e.node.ctime = now
			e.dir.entries[e.base] = e.node
		}
		e.dir.mtime = now
	}
	m.pending = append(m.pending, dirOp{edits})
}

// SyncDir makes the entries of a directory durable. A rename between two
// directories becomes durable by a sync of either.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.dirLocked(name)
	if err != nil {
		return pathErr("open", name, err)
	}
	// Backwards, as an operation drags along those before it that changed the
	// same entries.
	durable := make([]bool, len(m.pending))
	keys := make(map[entryKey]bool)
	for i := len(m.pending) - 1; i >= 0; i-- {
		if o := m.pending[i]; o.touches(dir) || o.meets(keys) {
			durable[i] = true
			o.addKeys(keys)
		}
	}
	var rest []dirOp
	for i, o := range m.pending {
		if !durable[i] {
			rest = append(rest, o)
			continue
		}
		for _, e := range o.edits {
			e.apply(e.dir.durableEntries)
		}
	}
	m.pending = rest
	return nil
}

func (e edit) apply(entries map[string]*memNode) {
	if e.node == nil {
		delete(entries, e.base)
		return
	}
	entries[e.base] = e.node
}

// Crash returns what a power cut at this moment leaves. What was synced is
// there. What wasn't is there by chance: each change of directories, in an order
// that keeps those of one name in sequence; each written page, whole, not at
// all or some of its sectors; each length. Bytes that are lost below a length
// that isn't read as zeros. With a nil rng nothing that wasn't synced survives.
//
// The file system itself is not changed. Locks are not carried over.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{
		luck:    newLuck(rng),
		to:      NewMem(),
		entries: make(map[*memNode]map[string]*memNode),
		nodes:   make(map[*memNode]*memNode),
	}
	c.to.capacity = m.capacity
	c.pickOps(m.pending)
	c.nodes[m.root] = c.to.root
	c.fillDir(m.root, c.to.root)
	return c.to
}

// crash is a power cut in progress.
type crash struct {
	luck    *luck
	to      *Mem
	entries map[*memNode]map[string]*memNode // of directories that differ from what is durable
	nodes   map[*memNode]*memNode            // old to new
}

// pickOps decides which changes of directories survive.
func (c *crash) pickOps(pending []dirOp) {
	gone := make(map[entryKey]bool)
	for _, o := range pending {
		if o.meets(gone) || !c.luck.keep() {
			o.addKeys(gone)
			continue
		}
		for _, e := range o.edits {
			if c.entries[e.dir] == nil {
				c.entries[e.dir] = maps.Clone(e.dir.durableEntries)
			}
			e.apply(c.entries[e.dir])
		}
	}
}

func (c *crash) fillDir(from, to *memNode) {
	entries := from.durableEntries
	if changed, ok := c.entries[from]; ok {
		entries = changed
	}
	// Sorted, so that a seed means the same every time.
	for _, base := range slices.Sorted(maps.Keys(entries)) {
		old := entries[base]
		n, known := c.nodes[old]
		if !known {
			n = c.node(old)
		}
		n.nlink++
		to.entries[base], to.durableEntries[base] = n, n
	}
}

func (c *crash) node(old *memNode) *memNode {
	n := c.to.newNodeLocked(old.mode)
	c.nodes[old] = n
	n.mtime, n.target = old.mtime, old.target
	if old.isDir() {
		c.fillDir(old, n)
		return n
	}
	n.data = c.content(old)
	n.durable = slices.Clone(n.data)
	c.to.used += n.holds()
	return n
}

// content decides which bytes of a file survive.
func (c *crash) content(old *memNode) []byte {
	b := make([]byte, c.length(len(old.durable), len(old.data)))
	copy(b, old.durable)
	for _, p := range slices.Sorted(maps.Keys(old.dirty)) {
		whole, torn := c.luck.keep(), c.luck.tear()
		for at := p * pageSize; at < (p+1)*pageSize && at < int64(len(b)); at += sectorSize {
			if torn && c.luck.keep() || !torn && whole {
				end := min(at+sectorSize, int64(len(b)))
				copy(b[at:end], old.data[at:])
			}
		}
	}
	return b
}

// length picks a length from the durable one to the current one.
func (c *crash) length(durable, current int) int {
	switch {
	case durable >= current || !c.luck.keep():
		return durable
	case c.luck.tear():
		return durable + c.luck.rng.IntN(current-durable+1)
	}
	return current
}

// luck draws lots. A crash has a degree of luck of its own, so that all and
// nothing happen too.
type luck struct {
	rng  *rand.Rand // nil: no luck at all
	rate float64
}

func newLuck(rng *rand.Rand) *luck {
	l := &luck{rng: rng}
	if rng != nil {
		l.rate = []float64{0, 0.1, 0.5, 0.5, 0.9, 1}[rng.IntN(6)]
	}
	return l
}

func (l *luck) keep() bool { return l.rng != nil && l.rng.Float64() < l.rate }
func (l *luck) tear() bool { return l.rng != nil && l.rng.IntN(4) == 0 }
