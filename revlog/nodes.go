package revlog

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"runtime"
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
	buckets []bucket
	revMask uint32 // the bits of a slot that hold rev+1
	marks   uint64 // the other bits, in both slots of a word
	limit   hg.Rev // revisions that fit

	// covered is the number of revisions that are in the table.
	covered atomic.Int32
}

// A bucket is four slots, two in each word, the first in the low half. The
// words are loaded and stored atomically.
type bucket [2]uint64

const (
	slotsPerEntryNum, slotsPerEntryDen = 22, 10
	maxLoadNum, maxLoadDen             = 7, 10
	bucketSlots                        = 4
	minTableEntries                    = 64
)

// lanes has the lowest bit of each of the two slots in a word.
const lanes = 1<<32 | 1

// hashKey makes the place of a node in the table unforeseeable, or a client
// could send nodes that all begin their search at the same slot.
var hashKey = [2]uint64{rand.Uint64(), rand.Uint64() | 1}

// words is a node in registers. A node that is passed on by value is copied to
// the stack, and a processor that reads such a copy late in a lookup stops
// overlapping it with the next one.
type words struct {
	mid, last uint64 // bytes 4 to 11 and 12 to 19
	first     uint32 // bytes 0 to 3
}

func wordsOf(n *hg.Node) words {
	return words{
		binary.LittleEndian.Uint64(n[4:]),
		binary.LittleEndian.Uint64(n[12:]),
		binary.LittleEndian.Uint32(n[:]),
	}
}

func (w words) isNull() bool { return w == words{} }

// hash spreads a node over 64 bits. Nodes are SHA-1 already; the key is there
// against those who choose them.
func (w words) hash() uint64 {
	hi, lo := bits.Mul64(w.mid^hashKey[0], hashKey[1])
	return hi ^ lo
}

func newNodeTable(entries hg.Rev) *nodeTable {
	entries = max(entries, minTableEntries)
	buckets := int64(entries) * slotsPerEntryNum / slotsPerEntryDen / bucketSlots
	t := &nodeTable{
		buckets: make([]bucket, buckets),
		limit:   hg.Rev(min(buckets*bucketSlots*maxLoadNum/maxLoadDen, maxChunkLen-1)),
	}
	t.revMask = 1<<bits.Len32(uint32(t.limit)) - 1
	t.marks = uint64(^t.revMask) * lanes
	return t
}

// bucket returns where the search for a node of hash h begins.
func (t *nodeTable) bucket(h uint64) uint64 {
	hi, _ := bits.Mul64(h, uint64(len(t.buckets)))
	return hi
}

// mark returns the bits of h that stand above the rev in a slot. They are low
// bits of h: the high ones have chosen the bucket.
func (t *nodeTable) mark(h uint64) uint32 { return uint32(h<<7) &^ t.revMask }

// insert adds rev beside readers. The caller holds nodeIndex.mu, and the table
// has room.
func (t *nodeTable) insert(node words, rev hg.Rev) {
	h := node.hash()
	slot := uint64(t.mark(h) | uint32(rev+1))
	for i := t.bucket(h); ; i = t.after(i) {
		if word, to := t.buckets[i].free(slot); to >= 0 {
			atomic.StoreUint64(&t.buckets[i][to], word)
			return
		}
	}
}

// fill adds all revisions of s to a table that is not published yet. It asks
// for the memory of many buckets at once before it looks at any of them, and
// stores without a fence.
func (t *nodeTable) fill(s *state) {
	var hashes [findBatch]uint64
	for from := hg.Rev(0); from < s.n; from += findBatch {
		revs := min(findBatch, s.n-from)
		var touched uint64
		for i := range revs {
			h := wordsOf(s.entry(from + i).node()).hash()
			hashes[i%findBatch] = h
			touched |= t.buckets[t.bucket(h)][0]
		}
		runtime.KeepAlive(touched)
		for i := range revs {
			t.insertUnseen(hashes[i%findBatch], from+i)
		}
	}
	t.covered.Store(int32(s.n))
}

func (t *nodeTable) insertUnseen(h uint64, rev hg.Rev) {
	slot := uint64(t.mark(h) | uint32(rev+1))
	for i := t.bucket(h); ; i = t.after(i) {
		if word, to := t.buckets[i].free(slot); to >= 0 {
			t.buckets[i][to] = word
			return
		}
	}
}

// after returns the bucket in which a search goes on after bucket i.
func (t *nodeTable) after(i uint64) uint64 {
	if i++; i == uint64(len(t.buckets)) {
		return 0
	}
	return i
}

// free returns the word that has slot in the first free slot of b, and which
// word that is; -1 if there is none. Only the one who writes b may call it.
func (b *bucket) free(slot uint64) (word uint64, to int) {
	switch {
	case b[0] == 0:
		return slot, 0
	case b[0]>>32 == 0:
		return b[0] | slot<<32, 0
	case b[1] == 0:
		return slot, 1
	case b[1]>>32 == 0:
		return b[1] | slot<<32, 1
	}
	return 0, -1
}

// load returns the words of b.
func (b *bucket) load() (w0, w1 uint64) {
	return atomic.LoadUint64(&b[0]), atomic.LoadUint64(&b[1])
}

// zeroLanes has the highest bit of each slot of x that is 0, and no other bit.
// It is exact because no slot of x is 1: bit 0 is never part of a mark.
func zeroLanes(x uint64) uint64 { return (x - lanes) &^ x & (lanes << 31) }

// matches returns the slots of a bucket that have the mark h, as bits: 0 and 32
// stand for the slots of w0, 1 and 33 for those of w1.
func (t *nodeTable) matches(w0, w1, h uint64) uint64 {
	mark := uint64(uint32(h<<7)) * lanes
	return zeroLanes((w0^mark)&t.marks)>>31 | zeroLanes((w1^mark)&t.marks)>>30
}

// rev returns the rev in the first slot of found, which is not 0. In a free
// slot it is -1, which is too large when it is taken as unsigned.
func (t *nodeTable) rev(w0, w1, found uint64) uint32 {
	at := bits.TrailingZeros64(found)
	word := w0 ^ (w0^w1)&-uint64(at&1)
	return uint32(word>>(at&32))&t.revMask - 1
}

// find returns the rev of node in s.
func (t *nodeTable) find(s *state, node words) (hg.Rev, bool) {
	h := node.hash()
	for i := t.bucket(h); ; i = t.after(i) {
		w0, w1 := t.buckets[i].load()
		for found := t.matches(w0, w1, h); found != 0; found &= found - 1 {
			rev := t.rev(w0, w1, found)
			if rev < uint32(s.n) && wordsOf(s.entry(hg.Rev(rev)).node()) == node {
				return hg.Rev(rev), true
			}
		}
		if w1>>32 == 0 {
			return hg.NullRev, false
		}
	}
}

// findBatch is the number of nodes whose lookups wait for memory together.
const findBatch = 32

// findAll puts the revs of nodes, at most findBatch of them, in revs; NullRev
// where s has none. It does one step for all nodes before it does the next
// step, so that the processor fetches many lines at once.
func (t *nodeTable) findAll(s *state, nodes []hg.Node, revs []hg.Rev) {
	var hashes [findBatch]uint64
	var fetched [findBatch]bucket
	revs = revs[:len(nodes)]
	for i := range nodes {
		h := wordsOf(&nodes[i]).hash()
		hashes[i%findBatch] = h
		fetched[i%findBatch][0], fetched[i%findBatch][1] = t.buckets[t.bucket(h)].load()
	}
	for i := range nodes {
		revs[i] = t.guess(fetched[i%findBatch], hashes[i%findBatch])
	}
	for i, rev := range revs {
		known := uint32(rev) < uint32(s.n) && wordsOf(s.entry(rev).node()) == wordsOf(&nodes[i])
		if !known && rev != hg.NullRev {
			revs[i], _ = t.find(s, wordsOf(&nodes[i]))
		}
	}
}

// unsure is what guess returns if it takes find to know.
const unsure hg.Rev = -2

// guess returns the rev that a node of hash h has if it is in the table and the
// first slot of its bucket w that has its mark is its own; NullRev if it is not
// in the table.
func (t *nodeTable) guess(w bucket, h uint64) hg.Rev {
	found := t.matches(w[0], w[1], h)
	switch {
	case found == 0 && w[1]>>32 == 0:
		return hg.NullRev
	case found == 0:
		return unsure
	}
	rev := hg.Rev(t.rev(w[0], w[1], found))
	if rev == hg.NullRev {
		return unsure // a free slot looked like a mark of zeros
	}
	return rev
}

// cover sees to it that a table has all revisions of s.
func (x *nodeIndex) cover(s *state) *nodeTable {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.table.Load(); t != nil && s.n <= t.limit {
		for rev := hg.Rev(t.covered.Load()); rev < s.n; rev++ {
			t.insert(wordsOf(s.entry(rev).node()), rev)
		}
		t.covered.Store(max(t.covered.Load(), int32(s.n)))
		return t
	}
	t := newNodeTable(s.n)
	t.fill(s)
	// Those who search the old one go on with it until they have their answer.
	x.table.Store(t)
	return t
}

// ready returns a table that has all revisions of s, or nil if there is none.
func (x *nodeIndex) ready(s *state) *nodeTable {
	t := x.table.Load()
	if t == nil || hg.Rev(t.covered.Load()) < s.n {
		return nil
	}
	return t
}

// tableFor is ready, and makes the table if s is too long to be scanned.
func (x *nodeIndex) tableFor(s *state) *nodeTable {
	t := x.ready(s)
	if t == nil && s.n > maxScan {
		t = x.cover(s)
	}
	return t
}

// revUnready is a lookup in a log that has no table at hand.
func (x *nodeIndex) revUnready(s *state, node words) (hg.Rev, bool) {
	if t := x.tableFor(s); t != nil {
		return t.find(s, node)
	}
	return s.scan(node)
}

// revs puts the revs of nodes in revs, NullRev where s has none.
func (x *nodeIndex) revs(s *state, nodes []hg.Node, revs []hg.Rev) {
	t := x.tableFor(s)
	if t == nil {
		for i := range nodes {
			revs[i], _ = s.scan(wordsOf(&nodes[i]))
		}
		return
	}
	for len(nodes) > 0 {
		n := min(len(nodes), findBatch)
		t.findAll(s, nodes[:n], revs[:n])
		nodes, revs = nodes[n:], revs[n:]
	}
}

// scan looks at every entry, the newest first.
func (s *state) scan(node words) (hg.Rev, bool) {
	for rev := s.n - 1; rev >= 0; rev-- {
		if wordsOf(s.entry(rev).node()) == node {
			return rev, true
		}
	}
	return hg.NullRev, false
}
