package revlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/delta"
)

func TestReadBack(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			b := newBuilder(shape.inline, shape.generalDelta).history(rand.New(rand.NewPCG(1, 2)), 200)
			s := b.open(t, Options{Mapped: shape.mapped})
			if s.Len() != len(b.nodes) {
				t.Fatalf("Len() = %d, want %d", s.Len(), len(b.nodes))
			}
			if s.DataEnd() != b.end {
				t.Errorf("DataEnd() = %d, want %d", s.DataEnd(), b.end)
			}
			checkTexts(t, s, b)
			checkLookups(t, s, b)
			checkDeltas(t, s, b)
		})
	}
}

func checkTexts(t *testing.T, s *Snapshot, b *builder) {
	t.Helper()
	readers := map[string]func(hg.Rev) ([]byte, error){
		"Snapshot.Text":         s.Text,
		"Reader.Text":           s.Reader(0).Text,
		"Reader.Text, 1 KiB":    s.Reader(1 << 10).Text,
		"Reader.Text, no ahead": s.Reader(-1).Text,
	}
	for name, text := range readers {
		var kept [][]byte
		for rev := range hg.Rev(s.Len()) {
			got, err := text(rev)
			if err != nil || !bytes.Equal(got, b.texts[rev]) {
				t.Fatalf("%s(%d) = %d bytes, %v, want %d bytes", name, rev, len(got), err, len(b.texts[rev]))
			}
			kept = append(kept, got)
		}
		// Backwards, and what was returned before must not have changed.
		for rev := hg.Rev(s.Len()) - 1; rev >= 0; rev-- {
			got, err := text(rev)
			if err != nil || !bytes.Equal(got, b.texts[rev]) || !bytes.Equal(kept[rev], b.texts[rev]) {
				t.Fatalf("%s(%d), backwards: %d bytes, %v, want %d bytes", name, rev, len(got), err, len(b.texts[rev]))
			}
		}
	}
}

func checkLookups(t *testing.T, s *Snapshot, b *builder) {
	t.Helper()
	for rev, node := range b.nodes {
		if got, ok := s.Rev(node); !ok || got != hg.Rev(rev) {
			t.Errorf("Rev(%v) = %d, %v, want %d", node, got, ok, rev)
		}
		if got := s.Node(hg.Rev(rev)); got != node {
			t.Errorf("Node(%d) = %v, want %v", rev, got, node)
		}
		node[19] ^= 1
		if got, ok := s.Rev(node); ok {
			t.Errorf("Rev(%v) = %d, want none", node, got)
		}
	}
	if rev, ok := s.Rev(hg.NullNode); !ok || rev != hg.NullRev {
		t.Errorf("Rev(null) = %d, %v, want -1, true", rev, ok)
	}
}

func checkDeltas(t *testing.T, s *Snapshot, b *builder) {
	t.Helper()
	r := s.Reader(0)
	for rev := range hg.Rev(s.Len()) {
		if got := s.DeltaBase(rev); got != b.base[rev] {
			t.Errorf("DeltaBase(%d) = %d, want %d", rev, got, b.base[rev])
		}
		d, err := s.Delta(rev)
		if err != nil {
			t.Fatalf("Delta(%d): %v", rev, err)
		}
		if rd, err := r.Delta(rev); err != nil || !bytes.Equal(d, rd) {
			t.Errorf("Reader.Delta(%d) differs from Snapshot.Delta: %v", rev, err)
		}
		if base := b.base[rev]; base != rev {
			var old []byte
			if base >= 0 {
				old = b.texts[base]
			}
			if d, err = delta.Apply(nil, old, d, 1<<20); err != nil {
				t.Fatalf("apply Delta(%d): %v", rev, err)
			}
		}
		if !bytes.Equal(d, b.texts[rev]) {
			t.Errorf("Delta(%d) does not make the text", rev)
		}
	}
}

func TestBaseNull(t *testing.T) {
	b := newBuilder(false, true)
	b.add([]byte("against nothing"), -1, -1, hg.NullRev)
	b.add([]byte("against something"), 0, -1, 0)
	s := b.open(t, Options{})
	checkTexts(t, s, b)
	checkDeltas(t, s, b)
	for rev, want := range []int{1, 2} {
		if got, err := s.ChainLen(hg.Rev(rev)); got != want || err != nil {
			t.Errorf("ChainLen(%d) = %d, %v, want %d", rev, got, err, want)
		}
	}
}

func TestEmptyAndMissing(t *testing.T) {
	tests := []struct {
		name  string
		files map[string][]byte
	}{
		{"missing", nil},
		{"empty", map[string][]byte{"log.i": {}}},
		{"torn header", map[string][]byte{"log.i": {0, 3}}},
		{"torn first entry", map[string][]byte{"log.i": {0, 3, 0, 1, 0, 0, 0}}},
	}
	for _, tt := range tests {
		for _, mapped := range []bool{false, true} {
			s, err := openFake(t, tt.files, Options{Mapped: mapped, Inline: true, GeneralDelta: true})
			if err != nil {
				t.Errorf("%s, mapped=%v: %v", tt.name, mapped, err)
				continue
			}
			if want := (Size{Inline: true}); s.Size() != want || !s.GeneralDelta() || s.DataEnd() != 0 {
				t.Errorf("%s, mapped=%v: size %+v, want %+v", tt.name, mapped, s.Size(), want)
			}
			if _, ok := s.Rev(hg.Node{1}); ok {
				t.Errorf("%s, mapped=%v: has a node", tt.name, mapped)
			}
			if _, err := s.Text(0); !errors.Is(err, ErrNoRev) {
				t.Errorf("%s, mapped=%v: Text(0): %v, want ErrNoRev", tt.name, mapped, err)
			}
		}
	}
}

// A file's log is opened by the ten thousand in a clone.
func TestOpenCost(t *testing.T) {
	b := newBuilder(true, true).history(rand.New(rand.NewPCG(1, 1)), 5)
	f := &fakeFS{files: b.files()}
	l, err := Open(f, "log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := l.Snapshot()
	for rev := range hg.Rev(5) {
		if _, err := s.Text(rev); err != nil {
			t.Error(err)
		}
	}
	s.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	got := [...]int64{f.opens.Load(), f.stats.Load(), f.reads.Load(), f.maps.Load(), f.closes.Load()}
	if want := [...]int64{1, 1, 1, 0, 1}; got != want {
		t.Errorf("opens, stats, reads, maps, closes = %v, want %v", got, want)
	}
}

// A chain whose chunks lie together comes with one read.
func TestChainIsOneRead(t *testing.T) {
	b := newBuilder(false, false)
	text := bytes.Repeat([]byte("0123456789abcdef\n"), 100)
	b.add(text, -1, -1, 0)
	for rev := hg.Rev(1); rev < 50; rev++ {
		text = append(bytes.Clone(text), byte(rev), '\n')
		b.add(text, rev-1, -1, rev-1)
	}
	f := &fakeFS{files: b.files()}
	l, err := Open(f, "log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := l.Snapshot()
	defer s.Close()
	before := f.reads.Load()
	if _, err := s.Text(49); err != nil {
		t.Fatal(err)
	}
	if got := f.reads.Load() - before; got != 1 {
		t.Errorf("Text read %d times, want once", got)
	}
}

func TestMatchPrefix(t *testing.T) {
	b := newBuilder(true, true).history(rand.New(rand.NewPCG(3, 1)), 300)
	s := b.open(t, Options{})
	for length := range hg.NodeHexLen + 1 {
		for rev, node := range b.nodes[:40] {
			prefix := node.String()[:length]
			wantNode, wantCount := dumbMatch(b.nodes, prefix)
			if got, n := s.MatchPrefix(prefix, nil); got != wantNode || n != wantCount {
				t.Errorf("MatchPrefix(%q) = %v, %d, want %v, %d", prefix, got, n, wantNode, wantCount)
			}
			hidden := func(r hg.Rev) bool { return r != hg.Rev(rev) }
			if got, n := s.MatchPrefix(prefix, hidden); length > 8 && n != 0 {
				t.Errorf("MatchPrefix(%q) finds hidden %v", prefix, got)
			}
		}
	}
	for _, bad := range []string{"", "xyz", "g" + b.nodes[0].String()[1:], b.nodes[0].String() + "0", "00 "} {
		if _, n := s.MatchPrefix(bad, nil); n != 0 {
			t.Errorf("MatchPrefix(%q): count %d, want 0", bad, n)
		}
	}
}

func dumbMatch(nodes []hg.Node, prefix string) (hg.Node, int) {
	var found []hg.Node
	for _, n := range nodes {
		if prefix != "" && n.String()[:len(prefix)] == prefix {
			found = append(found, n)
		}
	}
	if len(found) == 1 {
		return found[0], 1
	}
	return hg.NullNode, min(len(found), 2)
}

func TestBeforeLinkRev(t *testing.T) {
	b := newBuilder(true, true).history(rand.New(rand.NewPCG(4, 1)), 10)
	for _, limit := range []hg.Rev{1, 7, 9, 10, 11} {
		s := b.open(t, Options{BeforeLinkRev: limit})
		if want := min(int(limit), 10); s.Len() != want {
			t.Errorf("BeforeLinkRev %d: Len() = %d, want %d", limit, s.Len(), want)
		}
		if _, ok := s.Rev(b.nodes[9]); ok != (limit >= 10) {
			t.Errorf("BeforeLinkRev %d: Rev(node 9) found = %v", limit, ok)
		}
	}
}

func TestFlagsExempt(t *testing.T) {
	for _, tt := range []struct {
		flags hg.RevFlags
		ok    bool
	}{{0, false}, {hg.FlagCensored, true}, {hg.FlagExtStored, true}, {hg.FlagHasCopies, false}} {
		b := newBuilder(true, true)
		b.addRaw(entryFields{Flags: tt.flags, TextLen: 5, P1: -1, P2: -1, Node: hg.Node{1}}, []byte("utomb!"))
		s := b.open(t, Options{})
		text, err := s.Text(0)
		if ok := err == nil && string(text) == "tomb!"; ok != tt.ok {
			t.Errorf("flags %04x: Text = %q, %v, want ok=%v", tt.flags, text, err, tt.ok)
		}
	}
}

func TestMaxTextBytes(t *testing.T) {
	b := newBuilder(true, true)
	b.add(bytes.Repeat([]byte("x"), 1000), -1, -1, 0)
	for _, limit := range []int64{999, 1000} {
		_, err := b.open(t, Options{MaxTextBytes: limit}).Text(0)
		if errors.Is(err, hg.ErrTooLarge) != (limit < 1000) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
