package frame

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
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
