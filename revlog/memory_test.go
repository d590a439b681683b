package revlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// hugeLen is the length of a text that is kept only as long as it is needed.
const hugeLen = 2 * defaultCacheBytes

// fileSegment is a Segment outside the heap.
type fileSegment struct {
	*os.File
	end int64
}

func newFileSegment(t *testing.T) *fileSegment {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &fileSegment{File: f}
}

func (s *fileSegment) Append(b []byte) (int64, error) {
	off := s.end
	n, err := s.WriteAt(b, off)
	s.end += int64(n)
	return off, err
}

// randomText returns a text that can't be compressed.
func randomText(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// plainText returns a text of short lines.
func plainText(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d of a text that goes on and on\n", i)
	}
	return b.Bytes()[:n]
}

// allocated returns how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// encoderBytes is about what encoders take, whatever the length of a text.
const encoderBytes = 30 << 20

// TestStageHuge wants a huge revision to be staged with its text and its chunk
// as the only memory of that order, and one text to be kept of several that
// have nothing in common.
func TestStageHuge(t *testing.T) {
	if raceEnabled {
		t.Skip("huge texts take minutes with the race detector")
	}
	for _, engine := range []chunk.Engine{chunk.Zlib, chunk.Zstd} {
		s := newBuilder(false, true).open(t, Options{GeneralDelta: true})
		st := NewStager(s, newFileSegment(t), StageOptions{Sparse: true, Engine: engine})
		before := heap()
		var p1 hg.Node
		var old []byte
		for i := range 4 {
			text := randomText(uint64(i), hugeLen)
			in, d := incoming(p1, hg.NullNode, p1, old, text)
			var err error
			bytes := allocated(func() { _, _, err = st.Add(in, d) })
			if err != nil {
				t.Fatal(err)
			}
			// Later ones are compared with up to two others, read from the segment.
			most := int64(2+2*min(i, 1))*hugeLen*11/10 + encoderBytes
			if bytes > most {
				t.Errorf("%v: revision %d of %d bytes: Add allocated %d bytes, want at most %d", engine, i, hugeLen, bytes, most)
			}
			p1, old = in.Node, text
		}
		old = nil
		if held := heap() - before; held > hugeLen*11/10+encoderBytes {
			t.Errorf("%v: Stager holds %d bytes after texts of %d", engine, held, hugeLen)
		}
		runtime.KeepAlive(st)
	}
}

// TestStagerGivesBack wants one huge text to be forgotten over small ones.
func TestStagerGivesBack(t *testing.T) {
	if raceEnabled {
		t.Skip("huge texts take minutes with the race detector")
	}
	s := newBuilder(false, true).open(t, Options{GeneralDelta: true})
	before := heap()
	st := NewStager(s, newFileSegment(t), StageOptions{Sparse: true, Engine: chunk.Zlib})
	texts := [][]byte{randomText(1, hugeLen), []byte("short\n"), []byte("short\ntoo\n"), []byte("and\nthird\n")}
	var p1 hg.Node
	for _, text := range texts {
		in := Incoming{Node: hg.HashText(p1, hg.NullNode, text), P1: p1}
		if _, _, err := st.Add(in, delta.Full(text)); err != nil {
			t.Fatal(err)
		}
		p1 = in.Node
	}
	texts = nil
	if held := heap() - before; held > hugeLen/8 {
		t.Errorf("Stager holds %d bytes", held)
	}
	runtime.KeepAlive(st)
}

// TestReadHuge wants a huge revision to be read into memory of its length, and
// one that is stored as it is not to be copied.
func TestReadHuge(t *testing.T) {
	if raceEnabled {
		t.Skip("huge texts take minutes with the race detector")
	}
	const tenth = hugeLen / 10
	for _, tt := range []struct {
		name   string
		text   []byte
		engine chunk.Engine
		read   func(*Reader) ([]byte, error)
		most   int64
	}{
		{"delta, as it is", randomText(1, hugeLen), chunk.Zlib, func(r *Reader) ([]byte, error) { return r.Delta(0) }, hugeLen + tenth},
		{"text, as it is", randomText(1, hugeLen), chunk.Zlib, func(r *Reader) ([]byte, error) { return r.Text(0) }, hugeLen + tenth},
		{"delta, zlib", plainText(hugeLen), chunk.Zlib, func(r *Reader) ([]byte, error) { return r.Delta(0) }, hugeLen + 3*tenth},
		{"text, zlib", plainText(hugeLen), chunk.Zlib, func(r *Reader) ([]byte, error) { return r.Text(0) }, hugeLen + 3*tenth},
		{"text, zstd", plainText(hugeLen), chunk.Zstd, func(r *Reader) ([]byte, error) { return r.Text(0) }, hugeLen + 3*tenth},
	} {
		b := newBuilder(false, true)
		b.engine = tt.engine
		b.add(tt.text, -1, -1, 0)
		s := b.open(t, Options{})
		for _, ahead := range []int64{0, -1} {
			r := s.Reader(ahead)
			var got []byte
			var err error
			n := allocated(func() { got, err = tt.read(r) })
			if err != nil || !bytes.Equal(got, tt.text) {
				t.Errorf("%s: %d bytes, %v; want the text", tt.name, len(got), err)
			}
			if n > tt.most {
				t.Errorf("%s, reading %d ahead: %d bytes allocated, want at most %d", tt.name, ahead, n, tt.most)
			}
		}
	}
}

// TestRawTextsStay wants a text that is the memory it was read into not to
// change with the next one.
func TestRawTextsStay(t *testing.T) {
	b := newBuilder(false, true)
	texts := [][]byte{randomText(1, 2*longChunk), randomText(2, 2*longChunk), []byte("short\n"), randomText(3, 2*longChunk)}
	for i, text := range texts {
		b.add(text, -1, -1, hg.Rev(i))
	}
	r := b.open(t, Options{}).Reader(0)
	var got [][]byte
	for i := range texts {
		text, err := r.Text(hg.Rev(i))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
		if _, err := r.Delta(hg.Rev((i + 1) % len(texts))); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range texts {
		if !bytes.Equal(got[i], text) {
			t.Errorf("text of rev %d changed while others were read", i)
		}
	}
}

// TestStagedBytes wants a push to cost little for each revision, whatever the
// length of its text.
func TestStagedBytes(t *testing.T) {
	const revs, most = 20_000, 300
	s := newBuilder(false, true).open(t, Options{GeneralDelta: true})
	seg := newFileSegment(t)
	before := heap()
	st := NewStager(s, seg, StageOptions{Sparse: true, Engine: chunk.Zlib})
	var p1 hg.Node
	for i := range revs {
		text := fmt.Appendf(nil, "text %d\n", i)
		in := Incoming{Node: hg.HashText(p1, hg.NullNode, text), P1: p1}
		if _, _, err := st.Add(in, delta.Full(text)); err != nil {
			t.Fatal(err)
		}
		p1 = in.Node
	}
	if got := (heap() - before) / revs; got > most {
		t.Errorf("%d bytes for each of %d revisions, want at most %d", got, revs, most)
	} else {
		t.Logf("%d bytes for each of %d revisions", got, revs)
	}
	runtime.KeepAlive(st)
}
