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

// A nodeTable is a hash table over buckets of 4 slots, with linear probing from
// bucket to bucket. A slot of 4 bytes holds rev+1 in its low bits and, in the
// bits that the revs of this table leave over, bits of the node's hash (the
// mark): at a million revisions 11, so that a wrong slot costs a look at the
// index once in 2,000. 0 is a free slot; the slots of a bucket are filled in
// order, and none is ever emptied.
//
// A bucket is searched without a branch that depends on where in it the node
// is: in a table of this load it is nearly always the only one, so a processor
// foresees the whole lookup and has several of them under way, each waiting for
// its own memory.
//
// A new table has slotsPerEntry slots an entry and is replaced when maxLoad of
// them are taken, so it has between 5.7 and 8.8 bytes an entry.
type nodeTable struct {
	// words are the slots, two in each, the first in the low half; two words
	// are a bucket. Loaded and stored atomically.
	words   []uint64
	buckets uint64 // len(words)/2
	revMask uint32 // the bits of a slot that hold rev+1
	limit   hg.Rev // revisions that fit

	// covered is the number of revisions that are in the table.
	covered atomic.Int32
}

const (
	slotsPerEntryNum, slotsPerEntryDen = 22, 10
	maxLoadNum, maxLoadDen             = 7, 10
	bucketSlots                        = 4
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
	buckets := uint64(entries) * slotsPerEntryNum / slotsPerEntryDen / bucketSlots
	t := &nodeTable{
		words:   make([]uint64, 2*buckets),
		buckets: buckets,
		limit:   hg.Rev(min(buckets*bucketSlots*maxLoadNum/maxLoadDen, maxChunkLen-1)),
	}
	t.revMask = 1<<bits.Len32(uint32(t.limit)) - 1
	return t
}

// bucket returns where the search for a node of hash h begins, as an index of
// words.
func (t *nodeTable) bucket(h uint64) uint64 {
	hi, _ := bits.Mul64(h, t.buckets)
	return 2 * hi
}

// mark returns the bits of h that stand above the rev in a slot. They are low
// bits of h: the high ones have chosen the bucket.
func (t *nodeTable) mark(h uint64) uint32 { return uint32(h<<7) &^ t.revMask }

// insert adds rev. The caller holds nodeIndex.mu, and the table has room.
func (t *nodeTable) insert(node *hg.Node, rev hg.Rev) {
	h := hash(node)
	slot := uint64(t.mark(h) | uint32(rev+1))
	for i := t.bucket(h); ; i++ {
		if i == uint64(len(t.words)) {
			i = 0
		}
		w := atomic.LoadUint64(&t.words[i])
		switch {
		case uint32(w) == 0:
			atomic.StoreUint64(&t.words[i], slot)
			return
		case w>>32 == 0:
			atomic.StoreUint64(&t.words[i], w|slot<<32)
			return
		}
	}
}

// lanes has the lowest bit of each of the two slots in a word.
const lanes = 1<<32 | 1

// zeroLanes has the highest bit of each slot of x that is 0, and no other bit.
func zeroLanes(x uint64) uint64 {
	const low = 0x7fffffff * lanes
	return ^((x&low + low) | x | low)
}

// find returns the rev of node in s.
func (t *nodeTable) find(s *state, node *hg.Node) (hg.Rev, bool) {
	h := hash(node)
	mark := uint64(t.mark(h)) * lanes
	marks := uint64(^t.revMask) * lanes
	for i := t.bucket(h); ; {
		w0, w1 := atomic.LoadUint64(&t.words[i]), atomic.LoadUint64(&t.words[i+1])
		// Bits 0 and 32 stand for the slots of w0, bits 1 and 33 for those of w1.
		found := zeroLanes((w0^mark)&marks)>>31 | zeroLanes((w1^mark)&marks)>>30
		for ; found != 0; found &= found - 1 {
			at := bits.TrailingZeros64(found)
			word := w0 ^ (w0^w1)&-uint64(at&1)
			// A free slot has rev -1 here, which is too large for an unsigned.
			rev := uint32(word>>(at&32))&t.revMask - 1
			if rev < uint32(s.n) && sameNode(s.entry(hg.Rev(rev)).node(), node) {
				return hg.Rev(rev), true
			}
		}
		if w1>>32 == 0 {
			return hg.NullRev, false
		}
		if i += 2; i == uint64(len(t.words)) {
			i = 0
		}
	}
}

// sameNode is *a == *b without a call.
func sameNode(a, b *hg.Node) bool {
	return binary.LittleEndian.Uint64(a[:]) == binary.LittleEndian.Uint64(b[:]) &&
		binary.LittleEndian.Uint64(a[8:]) == binary.LittleEndian.Uint64(b[8:]) &&
		binary.LittleEndian.Uint32(a[16:]) == binary.LittleEndian.Uint32(b[16:])
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
		if sameNode(s.entry(rev).node(), node) {
			return rev, true
		}
	}
	return hg.NullRev, false
}
