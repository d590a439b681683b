package revlog

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"vcsd/hg"
)

// openIndex opens an index of n random nodes from memory.
func openIndex(t testing.TB, n int, o Options) *Snapshot {
	t.Helper()
	s, err := openFake(t, map[string][]byte{"log.i": syntheticIndex(n)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The table against its dumb twin, a map.
func TestRevAgainstMap(t *testing.T) {
	for _, n := range []int{1, maxScan, maxScan + 1, 1000, 20_000} {
		for _, mapped := range []bool{false, true} {
			s := openIndex(t, n, Options{Mapped: mapped})
			twin := make(map[hg.Node]hg.Rev)
			for rev := range hg.Rev(n) {
				twin[s.Node(rev)] = rev
			}
			nodes := []hg.Node{hg.NullNode, hg.WorkingNode}
			for rev := range hg.Rev(n) {
				near := s.Node(rev)
				near[rev%hg.NodeLen]++
				nodes = append(nodes, s.Node(rev), near)
			}
			many := s.Revs([]hg.Rev{77}, nodes)
			for i, node := range nodes {
				want, ok := twin[node]
				if !ok {
					want = hg.NullRev
				}
				if got, gotOK := s.Rev(node); got != want || gotOK != (ok || node.IsNull()) {
					t.Errorf("n=%d mapped=%v: Rev(%v) = %d, %v, want %d, %v", n, mapped, node, got, gotOK, want, ok)
				}
				if many[i+1] != want {
					t.Errorf("n=%d mapped=%v: Revs: %d for %v, want %d", n, mapped, many[i+1], node, want)
				}
			}
		}
	}
}

func TestRevDoesNotAllocate(t *testing.T) {
	s := openIndex(t, 5000, Options{Mapped: true})
	hit, miss := s.Node(4000), hg.Node{1, 2, 3}
	revs, nodes := make([]hg.Rev, 0, 100), slices.Repeat([]hg.Node{hit, miss}, 50)
	if n := testing.AllocsPerRun(100, func() {
		s.Rev(hit)
		s.Rev(miss)
		s.Revs(revs, nodes)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Whatever the number of entries and however the table came to have them.
func TestTableSize(t *testing.T) {
	x := &nodeIndex{}
	s := openIndex(t, 30_000, Options{})
	for n := hg.Rev(1000); n <= s.n; n += 7 {
		st := s.state
		st.n = n
		table := x.cover(&st)
		perEntry := float64(len(table.buckets)*bucketSlots*4) / float64(n)
		if perEntry > 9 || perEntry < 5.5 {
			t.Fatalf("%d entries: %.2f bytes an entry, want 5.5 to 9", n, perEntry)
		}
	}
}

// Nodes that somebody chose so that they hash alike must still be found, and
// the search for one that isn't there must end; also where the mark is 0, as in
// a free slot.
func TestCollidingNodes(t *testing.T) {
	defer func(key [2]uint64) { hashKey = key }(hashKey)
	hashKey = [2]uint64{0, 1} // the hash is bytes 4 to 11 of the node
	tests := []struct {
		name string
		mid  func(i int) uint64
	}{
		{"all alike", func(int) uint64 { return 0 }},
		{"marks of 0", func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 &^ (1<<32 - 1) }},
		{"two marks", func(i int) uint64 { return uint64(i&1) << 20 }},
		{"pairs, the second of mark 0", func(i int) uint64 {
			return uint64(i/2)*0x9e3779b97f4a7c15&^(1<<32-1) | uint64(1-i&1)<<20
		}},
		{"same bucket", func(i int) uint64 { return uint64(i) << 8 }},
	}
	for _, tt := range tests {
		var index []byte
		for rev := range hg.Rev(500) {
			f := entryFields{Base: rev, P1: -1, P2: -1}
			f.Node = collider(tt.mid(int(rev)), uint32(rev)+1)
			index = f.append(index)
		}
		putHeader(index, makeHeader(false, true))
		s, err := openFake(t, map[string][]byte{"log.i": index}, Options{Mapped: true})
		if err != nil {
			t.Fatal(err)
		}
		nodes := make([]hg.Node, 0, 2*s.Len())
		for rev := range hg.Rev(s.Len()) {
			nodes = append(nodes, s.Node(rev), collider(tt.mid(int(rev)), 0xffff0000+uint32(rev)))
			if got, ok := s.Rev(s.Node(rev)); got != rev || !ok {
				t.Errorf("%s: Rev(node %d) = %d, %v", tt.name, rev, got, ok)
			}
			if got, ok := s.Rev(nodes[2*rev+1]); ok {
				t.Errorf("%s: Rev(%v) = %d, want none", tt.name, nodes[2*rev+1], got)
			}
		}
		for i, got := range s.Revs(nil, nodes) {
			if want := hg.Rev(i/2) - hg.Rev(i%2)*hg.Rev(i/2+1); got != want {
				t.Errorf("%s: Revs: %d for %v, want %d", tt.name, got, nodes[i], want)
			}
		}
	}
}

// collider returns a node of hash mid; first makes it unlike others.
func collider(mid uint64, first uint32) (n hg.Node) {
	binary.LittleEndian.PutUint64(n[4:], mid)
	binary.LittleEndian.PutUint32(n[:], first)
	return n
}

func TestZeroLanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 10_000 {
		// Bit 0 of a slot is never set, as in masked marks; small values are the
		// delicate ones.
		a, b := rng.Uint32()>>rng.IntN(33)&^1, rng.Uint32()>>rng.IntN(33)&^1
		var want uint64
		if a == 0 {
			want |= 1 << 31
		}
		if b == 0 {
			want |= 1 << 63
		}
		if got := zeroLanes(uint64(b)<<32 | uint64(a)); got != want {
			t.Fatalf("zeroLanes(%08x, %08x) = %016x, want %016x", b, a, got, want)
		}
	}
}
