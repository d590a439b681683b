package bundle2_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"vcsd/hg"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
)

// hugeDelta writes a bundle with one changeset whose delta has n zero bytes.
func hugeDelta(t *testing.T, n int, e compression.Engine) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := bundle2.NewWriter(&b, bundle2.WriterOptions{Compression: e})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Part("changegroup", true)
	if err != nil {
		t.Fatal(err)
	}
	cg := changegroup.NewWriter(p, changegroup.V02)
	node := hg.Node{1}
	err = errors.Join(cg.StartChangelog(), cg.WriteDelta(changegroup.Header{Node: node, Link: node}, make([]byte, n)), cg.EndGroup(), cg.Close(), p.Close(), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readDelta reads the first delta of such a bundle, and tells how many bytes
// were allocated for it in all.
func readDelta(t *testing.T, in []byte) (length int, allocated int64, err error) {
	t.Helper()
	_, body, err := compression.OpenBundle(bytes.NewReader(in), 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bundle2.NewReader(body, bundle2.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := r.NextPart()
	if err != nil {
		t.Fatal(err)
	}
	cg := changegroup.NewReader(p, changegroup.V02, changegroup.Limits{})
	if _, err := cg.NextGroup(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, d, err := cg.NextDelta()
	runtime.ReadMemStats(&after)
	return len(d), int64(after.TotalAlloc - before.TotalAlloc), err
}

// TestDeltaMemory wants a delta to be read into memory of its size, and one
// that was cut, or that is a bomb, to cost what arrived of it.
func TestDeltaMemory(t *testing.T) {
	const size = 60 << 20
	whole := hugeDelta(t, size, compression.None)
	for _, tt := range []struct {
		name string
		in   []byte
		len  int
		most int64
		err  error
	}{
		{"whole", whole, size, size + size/10, nil},
		{"cut", whole[:size/2], 0, size/2 + size/8 + 1<<20, io.ErrUnexpectedEOF},
		{"bomb", hugeDelta(t, size, compression.Zlib), 0, 48 << 20, hg.ErrTooLarge},
	} {
		n, allocated, err := readDelta(t, tt.in)
		if n != tt.len || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: delta of %d bytes, %v; want %d, %v", tt.name, n, err, tt.len, tt.err)
		}
		if allocated > tt.most {
			t.Errorf("%s: %d bytes were allocated, want at most %d", tt.name, allocated, tt.most)
		}
	}
}
