package frame

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
	"vcsd/internal/bigbuf"
)

func TestNext(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	for _, n := range []int{0, 1, growBytes - 1, growBytes, growBytes + 1, 3*growBytes + 7, len(data)} {
		for _, buf := range [][]byte{nil, make([]byte, 100), make([]byte, 0, 2*len(data))} {
			r := NewReader(iotest.HalfReader(bytes.NewReader(data)), "test")
			got, err := r.Next(buf, n)
			if err != nil || !bytes.Equal(got, data[:n]) || r.Offset() != int64(n) {
				t.Errorf("Next(buffer of %d, %d) = %d bytes, %v, offset %d", cap(buf), n, len(got), err, r.Offset())
			}
		}
	}
}

// source yields n bytes, and says that it has claimed.
type source struct {
	n       int
	claimed int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.n == 0 {
		return 0, io.EOF
	}
	n := min(s.n, len(p), 100_000)
	s.n -= n
	s.claimed -= int64(n)
	return n, nil
}

func (s *source) Remaining() int64 { return s.claimed }

// allocated returns how many bytes f allocates in all.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestMemory wants pieces to cost what has arrived, whatever was promised.
func TestMemory(t *testing.T) {
	const came, piece = 40 << 20, 1<<31 - 5
	for _, tt := range []struct {
		name    string
		came, n int
		claimed int64
		most    int64 // bytes allocated in all
	}{
		{"cut, end unknown", came, piece, -1, came + came/4 + 1<<20},
		{"cut, file is short", came, piece, came, came + came/4 + 1<<20},
		{"cut at once", 10, piece, -1, 1 << 20},
		{"whole, end unknown", came, came, -1, 2*came + came/4 + came/16 + 1<<20},
		{"whole, from a file", came, came, came, came + came/16 + 1<<20},
		{"short, end unknown", 1000, 1000, -1, 100_000},
	} {
		src := &source{tt.came, tt.claimed}
		r := NewBuffered(src, "test", 4096)
		var got []byte
		var err error
		bytes := allocated(func() { got, err = r.Next(nil, tt.n) })
		if (err == nil) != (tt.came == tt.n) || err == nil && len(got) != tt.n {
			t.Errorf("%s: %d bytes, %v", tt.name, len(got), err)
		}
		if bytes > tt.most {
			t.Errorf("%s: Next allocated %d bytes, want at most %d", tt.name, bytes, tt.most)
		}
	}
}

// TestGivesBack wants a buffer that was huge once not to be kept for ever.
func TestGivesBack(t *testing.T) {
	huge := make([]byte, 8*bigbuf.Min)
	r := NewReader(&source{1 << 20, -1}, "test")
	if b, err := r.Next(huge, 100); err != nil || cap(b) > bigbuf.Min {
		t.Errorf("Next(%d bytes of buffer, 100): capacity %d, %v; want a small one", cap(huge), cap(b), err)
	}
	small := make([]byte, bigbuf.Min)
	if n := testing.AllocsPerRun(10, func() { _, _ = r.Next(small, 100) }); n > 0 {
		t.Errorf("Next allocates %v times with a buffer of %d bytes", n, cap(small))
	}
}

// TestErrorOfEnclosingStream wants the error of the stream that ended, not
// that of the stream inside it.
func TestErrorOfEnclosingStream(t *testing.T) {
	outer := NewReader(strings.NewReader("abc"), "outer")
	inner := NewReader(readerFunc(func(p []byte) (int, error) { return outer.Some(p, 0, 100) }), "inner")
	err := inner.Full(make([]byte, 10))
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Stream != "outer" || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(err, hg.ErrMalformed) {
		t.Errorf("err = %v, want that of outer", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
