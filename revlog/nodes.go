package revlog

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"vcsd/hg"
)

// nodeIndex finds the rev of a node. It is shared by all states of a log, old
// and new ones: the table says which revs may have the node, the index of the
// state that asks says which one has it, and revs beyond its length are passed
// over.
type nodeIndex struct {
	// mu serialises the making, growing and filling of tables.
	mu sync.Mutex

	// table is nil until somebody wants it. Stored with mu held, loaded
	// without; filled in place beside readers. A table that was replaced is
	// never written again.
	table atomic.Pointer[nodeTable]
}

// maxScan is the number of entries up to which a lookup reads them all: less
// work than making a table for a log that is opened for one answer.
const maxScan = 48

// A nodeTable is an open-addressing hash table with linear probing. A slot of
// 4 bytes holds rev+1 in its low bits and, in the bits that the revs of this
// table leave over, bits of the node's hash: at a million revisions 11, so that
// one wrong slot in 2,000 costs a look at the index. 0 is a free slot.
//
// A new table has slotsPerEntry slots an entry and is replaced when maxLoad of
// them are taken, so it has between 5.7 and 8.8 bytes an entry.
type nodeTable struct {
	slots   []uint32 // loaded and stored atomically once published
	revMask uint32   // the bits of a slot that hold rev+1
	limit   hg.Rev   // revisions that fit

	// covered is the number of revisions that are in the table.
	covered atomic.Int32
}

const (
	slotsPerEntryNum, slotsPerEntryDen = 22, 10
	maxLoadNum, maxLoadDen             = 7, 10
	minTableEntries                    = 64
)

// hashKey makes the place of a node in the table unforeseeable, or a client
// could send nodes that all begin their search at the same slot.
var hashKey = [2]uint64{rand.Uint64(), rand.Uint64() | 1}

// hash spreads a node over 64 bits. Nodes are SHA-1 already; the key is there
// against those who choose them.
func hash(node *hg.Node) uint64 {
	hi, lo := bits.Mul64(binary.LittleEndian.Uint64(node[:])^hashKey[0], hashKey[1])
	return hi ^ lo
}

func newNodeTable(entries hg.Rev) *nodeTable {
	entries = max(entries, minTableEntries)
	slots := int64(entries) * slotsPerEntryNum / slotsPerEntryDen
	t := &nodeTable{
		slots: make([]uint32, slots),
		limit: hg.Rev(min(slots*maxLoadNum/maxLoadDen, maxChunkLen-1)),
	}
	t.revMask = 1<<bits.Len32(uint32(t.limit)) - 1
	return t
}

// slot returns where the search for a node of hash h begins.
func (t *nodeTable) slot(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(t.slots)))
	return int(hi)
}

// mark returns the bits of h that stand above the rev in a slot. They are low
// bits of h: the high ones have chosen the slot.
func (t *nodeTable) mark(h uint64) uint32 { return uint32(h<<7) &^ t.revMask }

// insert adds rev. The caller holds nodeIndex.mu, and the table has room.
func (t *nodeTable) insert(node *hg.Node, rev hg.Rev) {
	h := hash(node)
	i := t.slot(h)
	for atomic.LoadUint32(&t.slots[i]) != 0 {
		if i++; i == len(t.slots) {
			i = 0
		}
	}
	atomic.StoreUint32(&t.slots[i], t.mark(h)|uint32(rev+1))
}

// find returns the rev of node in s.
func (t *nodeTable) find(s *state, node *hg.Node) (hg.Rev, bool) {
	h := hash(node)
	mark, mask := t.mark(h), t.revMask
	for i := t.slot(h); ; {
		v := atomic.LoadUint32(&t.slots[i])
		if v == 0 {
			return hg.NullRev, false
		}
		if (v^mark)&^mask == 0 {
			if rev := hg.Rev(v&mask) - 1; rev < s.n && *s.entry(rev).node() == *node {
				return rev, true
			}
		}
		if i++; i == len(t.slots) {
			i = 0
		}
	}
}

// cover sees to it that a table has all revisions of s.
func (x *nodeIndex) cover(s *state) *nodeTable {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.table.Load()
	if t == nil || s.n > t.limit {
		// Readers keep the old one until their lookup is done.
		t = newNodeTable(s.n)
	}
	for rev := hg.Rev(t.covered.Load()); rev < s.n; rev++ {
		t.insert(s.entry(rev).node(), rev)
	}
	t.covered.Store(max(t.covered.Load(), int32(s.n)))
	x.table.Store(t)
	return t
}

// rev returns the rev of node in s.
func (x *nodeIndex) rev(s *state, node *hg.Node) (hg.Rev, bool) {
	t := x.table.Load()
	if t == nil || hg.Rev(t.covered.Load()) < s.n {
		if s.n <= maxScan {
			return s.scan(node)
		}
		t = x.cover(s)
	}
	return t.find(s, node)
}

// scan looks at every entry, the newest first.
func (s *state) scan(node *hg.Node) (hg.Rev, bool) {
	for rev := s.n - 1; rev >= 0; rev-- {
		if *s.entry(rev).node() == *node {
			return rev, true
		}
	}
	return hg.NullRev, false
}
