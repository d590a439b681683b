package ingest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
)

// A segment is its dumb twin, a slice of bytes, wherever it is read.
func TestSegment(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f, err := vfs.NewMem().Create("seg")
	if err != nil {
		t.Fatal(err)
	}
	s := newSegment(f)
	var twin []byte
	for _, n := range []int{0, 1, 1000, segmentBufBytes - 1001, 1, 7, segmentBufBytes, segmentBufBytes + 1, 3, 3 * segmentBufBytes, 50} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		off, err := s.Append(b)
		if err != nil || off != int64(len(twin)) {
			t.Fatalf("Append of %d bytes = %d, %v, want %d", n, off, err, len(twin))
		}
		twin = append(twin, b...)
		clear(b) // it is the caller's again
		for range 50 {
			from := rng.IntN(len(twin) + 1)
			checkSegmentRead(t, s, twin, from, rng.IntN(len(twin)-from+20))
		}
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, len(twin))
	if _, err := f.ReadAt(whole, 0); err != nil && err != io.EOF || !bytes.Equal(whole, twin) {
		t.Errorf("the file is not what was appended (%v)", err)
	}
}

func checkSegmentRead(t *testing.T, s *segment, twin []byte, from, n int) {
	t.Helper()
	b := make([]byte, n)
	got, err := s.ReadAt(b, int64(from))
	want := twin[from:min(len(twin), from+n)]
	if !bytes.Equal(b[:got], want) || (err == nil) != (got == n) {
		t.Fatalf("ReadAt(%d bytes at %d) of %d = %d bytes, %v", n, from, len(twin), got, err)
	}
}

func TestSegmentFailsToWrite(t *testing.T) {
	errDisk := errors.New("disk on fire")
	f, err := errfs.FailNth(vfs.NewMem(), 0, errDisk, errfs.Write).Create("seg")
	if err != nil {
		t.Fatal(err)
	}
	s := newSegment(f)
	if _, err := s.Append(make([]byte, segmentBufBytes+1)); !errors.Is(err, errDisk) {
		t.Errorf("Append = %v, want %v", err, errDisk)
	}
}
