package revlog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// builder makes the files of a log in memory.
type builder struct {
	engine      chunk.Engine // not compressed unless set
	hdr         header
	index, data []byte
	texts       [][]byte
	nodes       []hg.Node
	end         int64 // of the data
	base        []hg.Rev
	sizes       []Size // at each length, from none on
}

func newBuilder(inline, generalDelta bool) *builder {
	return &builder{hdr: makeHeader(inline, generalDelta), sizes: []Size{{Inline: inline}}}
}

// add appends a revision whose chunk is a delta against base, or a full text
// if base is the new rev itself. link is the rev.
func (b *builder) add(text []byte, p1, p2, base hg.Rev) hg.Node {
	rev := hg.Rev(len(b.nodes))
	stored := text
	if base != rev {
		var old []byte
		if base >= 0 {
			old = b.texts[base]
		}
		stored = delta.Diff(old, text)
	}
	f := entryFields{TextLen: int32(len(text)), Base: b.storedBase(rev, base), P1: p1, P2: p2, Link: rev,
		Node: hg.HashText(b.node(p1), b.node(p2), text)}
	b.addRaw(f, chunk.Encode(nil, stored, b.engine, 0))
	b.texts = append(b.texts, text)
	b.base = append(b.base, base)
	return f.Node
}

// storedBase is what an entry says of a delta against base.
func (b *builder) storedBase(rev, base hg.Rev) hg.Rev {
	if b.hdr.generalDelta() || base == rev {
		return base
	}
	for b.base[base] != base {
		base = b.base[base]
	}
	return base
}

func (b *builder) node(rev hg.Rev) hg.Node {
	if rev < 0 {
		return hg.NullNode
	}
	return b.nodes[rev]
}

// addRaw appends an entry and its chunk; offset and length are filled in.
func (b *builder) addRaw(f entryFields, stored []byte) {
	f.Offset, f.ChunkLen = b.end, int32(len(stored))
	b.index = f.append(b.index)
	if len(b.nodes) == 0 {
		putHeader(b.index, b.hdr)
	}
	b.nodes = append(b.nodes, f.Node)
	b.end += int64(len(stored))
	if b.hdr.inline() {
		b.index = append(b.index, stored...)
	} else {
		b.data = append(b.data, stored...)
	}
	b.sizes = append(b.sizes, Size{len(b.nodes), b.hdr.inline(), int64(len(b.index)), int64(len(b.data))})
}

// history adds n revisions with deltas, merges and full texts in between.
func (b *builder) history(rng *rand.Rand, n int) *builder {
	lines := strings.Split(strings.Repeat("some line of text\n", 30), "\n")
	for range n {
		rev := hg.Rev(len(b.nodes))
		lines[rng.IntN(len(lines))] = fmt.Sprintf("line %d of rev %d", rng.Uint32(), rev)
		text := []byte(strings.Join(lines, "\n"))
		p1, p2 := rev-1, hg.NullRev
		if rev > 3 && rng.IntN(5) == 0 {
			p2 = rev - 3
		}
		base := rev - 1
		switch {
		case rev == 0 || rng.IntN(10) == 0:
			base = rev
		case b.hdr.generalDelta() && rng.IntN(3) == 0:
			base = hg.Rev(rng.IntN(int(rev)))
		}
		b.add(text, p1, p2, base)
	}
	return b
}

func (b *builder) files() map[string][]byte {
	m := map[string][]byte{"log.i": b.index}
	if !b.hdr.inline() {
		m["log.d"] = b.data
	}
	return m
}

// open opens the log from memory and returns a snapshot that ends with t.
func (b *builder) open(t testing.TB, o Options) *Snapshot {
	t.Helper()
	s, err := openFake(t, b.files(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openFake(t testing.TB, files map[string][]byte, o Options) (*Snapshot, error) {
	t.Helper()
	l, err := Open(&fakeFS{files: files}, "log", o)
	if err != nil {
		return nil, err
	}
	s := l.Snapshot()
	t.Cleanup(func() {
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, nil
}

// shapes are the kinds of log there are; every test that reads goes over all.
var shapes = []struct {
	name                         string
	inline, generalDelta, mapped bool
}{
	{"inline gd", true, true, false},
	{"inline gd mapped", true, true, true},
	{"inline prev", true, false, false},
	{"split gd", false, true, false},
	{"split gd mapped", false, true, true},
	{"split prev", false, false, false},
	{"split prev mapped", false, false, true},
}
