package compression

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// splice puts sections together as a bundle is: zeros before each seam.
func splice(t testing.TB, e Engine, level int, sections [][]byte) (stream, want []byte) {
	t.Helper()
	b := bytes.NewBuffer(bytes.Clone(e.SpliceHead()))
	b.Write(e.Plain([]byte("plain")))
	want = []byte("plain")
	for i, s := range sections {
		last := i == len(sections)-1
		if !last {
			s = append(bytes.Clone(s), make([]byte, SpliceBefore)...)
		}
		w, err := NewSectionWriter(e, level, last, b)
		if err != nil {
			t.Fatal(err)
		}
		for part := range chunks(s, 10_000) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want = append(want, s...)
		if !last {
			b.Write(e.Seam())
			want = append(want, make([]byte, SpliceZeros)...)
		}
	}
	return b.Bytes(), want
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

// repetitive makes a text whose compressed form leans on offsets used before.
func repetitive(rng *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		if len(b) < 64 || rng.IntN(4) == 0 {
			b = fmt.Appendf(b, "%x line %d of it\n", rng.Uint32(), rng.IntN(100))
			continue
		}
		back := 1 + rng.IntN(min(len(b), 5000))
		from := b[len(b)-back:]
		b = append(b, from[:1+rng.IntN(min(len(from), 200))]...)
		b = append(b, byte(rng.IntN(256)))
	}
	return b[:n]
}

func TestSplice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tests := []struct {
		name  string
		sizes []int
	}{
		{"one", []int{1000}},
		{"two", []int{200_000, 300_000}},
		{"small ones", []int{1, 2, 3, 100, 5}},
		{"nothing at the end", []int{1000, 0}},
		{"many", []int{5000, 400_000, 70, 130_000, 131_072, 262_144, 20}},
		{"beyond the window", []int{9 << 20, 100_000}},
	}
	for _, e := range []Engine{None, Zstd} {
		for _, level := range []int{1, 3, 7, 19} {
			for _, tt := range tests {
				var sections [][]byte
				for _, n := range tt.sizes {
					sections = append(sections, repetitive(rng, n))
				}
				stream, want := splice(t, e, level, sections)
				r, err := NewReader(e, bytes.NewReader(stream), Limits{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v, level %d, %s: %d bytes, %v; want %d", e, level, tt.name, len(got), err, len(want))
				}
				if e == Zstd && len(stream) > len(want) && len(want) > 1000 {
					t.Errorf("%v, level %d, %s: %d bytes became %d", e, level, tt.name, len(want), len(stream))
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestSpliceEngines(t *testing.T) {
	for e := None; e < engines; e++ {
		_, err := NewSectionWriter(e, 0, true, io.Discard)
		if e.Splices() != (err == nil) {
			t.Errorf("%v: Splices() = %v, NewSectionWriter: %v", e, e.Splices(), err)
		}
	}
}

// FuzzBlocks: whatever is cut into blocks, there is no panic, and what a frame
// decodes to stays the same.
func FuzzBlocks(f *testing.F) {
	for _, n := range []int{0, 10, 200_000} {
		var b bytes.Buffer
		w, err := NewWriter(Zstd, 0, &b)
		if err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write(repetitive(rand.New(rand.NewPCG(3, 4)), n)); err != nil {
			f.Fatal(err)
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), 1)
		f.Add(b.Bytes(), 1000)
	}
	f.Fuzz(func(t *testing.T, frame []byte, step int) {
		if step < 1 {
			return
		}
		var out bytes.Buffer
		out.Write(Zstd.SpliceHead())
		b := &blockWriter{w: &out, last: true}
		for part := range chunks(frame, step) {
			if _, err := b.Write(part); err != nil {
				return
			}
		}
		if b.end() != nil {
			return
		}
		want, err := decodeAll(frame)
		if err != nil {
			return
		}
		// Other frames may have followed.
		if got, err := decodeAll(out.Bytes()); err != nil || !bytes.HasPrefix(want, got) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	})
}

func decodeAll(frame []byte) ([]byte, error) {
	r, err := NewReader(Zstd, bytes.NewReader(frame), Limits{MaxBytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
