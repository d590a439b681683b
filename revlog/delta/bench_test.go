package delta

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// manifest returns n lines as a manifest has them, of which every edit-th has
// another node than with a different seed.
func manifest(n, edit int, seed uint64) []byte {
	same := rand.New(rand.NewPCG(1, 1))
	other := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for i := range n {
		node := [3]uint64{same.Uint64(), same.Uint64(), same.Uint64()}
		if edit > 0 && i%edit == 0 {
			node[0] = other.Uint64()
		}
		fmt.Fprintf(&b, "dir%d/sub%d/file%d\x00%016x%016x%08x\n", i/100, i/10, i, node[0], node[1], uint32(node[2]))
	}
	return b.Bytes()
}

// symbols returns n lines, each one of k.
func symbols(n, k int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	var b bytes.Buffer
	for range n {
		fmt.Fprintf(&b, "%d\n", rng.IntN(k))
	}
	return b.Bytes()
}

func reversed(text []byte) []byte {
	var out []byte
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		out = append(out, lines[i]...)
	}
	return out
}

func BenchmarkDiff(b *testing.B) {
	big := manifest(10000, 0, 0)
	for _, bb := range []struct {
		name string
		a, b []byte
	}{
		{"kind=manifest/lines=10000/edits=1", big, manifest(10000, 10000, 9)},
		{"kind=manifest/lines=10000/edits=100", big, manifest(10000, 100, 9)},
		{"kind=manifest/lines=10000/edits=5000", big, manifest(10000, 2, 9)},
		{"kind=reversed/lines=10000", big, reversed(big)},
		{"kind=reversed/lines=200000", manifest(200000, 0, 0), reversed(manifest(200000, 0, 0))},
		{"kind=symbols2/lines=100000", symbols(100000, 2, 1), symbols(100000, 2, 2)},
		{"kind=symbols2/lines=1000000", symbols(1000000, 2, 1), symbols(1000000, 2, 2)},
		{"kind=symbols50/lines=100000", symbols(100000, 50, 1), symbols(100000, 50, 2)},
		{"kind=symbols1000/lines=1000000", symbols(1000000, 1000, 1), symbols(1000000, 1000, 2)},
		{"kind=newlines/lines=2000000", bytes.Repeat([]byte("\n"), 2000000), append([]byte("x"), bytes.Repeat([]byte("\n"), 1000000)...)},
		{"kind=binary/bytes=1048576", random(1<<20, 1), random(1<<20, 2)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.a) + len(bb.b)))
			b.ReportAllocs()
			var d []byte
			for b.Loop() {
				d = Diff(bb.a, bb.b)
			}
			b.ReportMetric(float64(len(d)), "delta-bytes")
		})
	}
}

func random(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		base := manifest(10000, 0, 0)
		text := base
		var deltas [][]byte
		for i := range n {
			next := bytes.Clone(text)
			at := bytes.IndexByte(next[(i*7919*61)%(len(next)-200):], '\n') + (i*7919*61)%(len(next)-200) + 5
			next[at]++
			deltas = append(deltas, Diff(text, next))
			text = next
		}
		b.Run(fmt.Sprintf("chain=%d/bytes=%d", n, len(base)), func(b *testing.B) {
			b.SetBytes(int64(len(base)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = ApplyChain(dst[:0], base, deltas, noLimit); err != nil {
					b.Fatal(err)
				}
			}
			if !bytes.Equal(dst, text) {
				b.Error("ApplyChain made another text")
			}
		})
	}
}
