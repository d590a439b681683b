package revlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// manifestPush makes revs texts of lines manifest lines, each with a few other
// nodes than the one before, and their deltas. Without chained, the deltas are
// full texts.
func manifestPush(lines, revs int, chained bool) []bundleRev {
	rng := rand.New(rand.NewPCG(1, 9))
	line := func(i int) []byte {
		return fmt.Appendf(nil, "some/dir%d/file%d.go\x00%016x%016x%08x\n", i/50, i, rng.Uint64(), rng.Uint64(), rng.Uint32())
	}
	text := make([][]byte, lines)
	for i := range text {
		text[i] = line(i)
	}
	var out []bundleRev
	var p1 hg.Node
	var old []byte
	for range revs {
		for range 3 {
			i := rng.IntN(lines)
			text[i] = line(i)
		}
		next := bytes.Join(text, nil)
		in, d := incoming(p1, hg.NullNode, p1, old, next)
		if !chained {
			in.Base, d = hg.NullNode, delta.Full(next)
		}
		out = append(out, bundleRev{in, d})
		p1, old = in.Node, next
	}
	return out
}

func BenchmarkStage(b *testing.B) {
	for _, kind := range []string{"chained", "full"} {
		for _, engine := range []chunk.Engine{chunk.Zstd, chunk.Zlib} {
			for _, lines := range []int{20, 2000} {
				const revs = 200
				in := manifestPush(lines, revs, kind == "chained")
				b.Run(fmt.Sprintf("deltas=%s/engine=%v/lines=%d", kind, engine, lines), func(b *testing.B) {
					s := newBuilder(true, true).open(b, Options{Inline: true, GeneralDelta: true})
					b.ReportAllocs()
					var stored int
					for b.Loop() {
						seg := &memSegment{}
						st := NewStager(s, seg, StageOptions{Kind: Manifest, Sparse: true, Engine: engine})
						for _, r := range in {
							if _, _, err := st.Add(r.Incoming, r.delta); err != nil {
								b.Fatal(err)
							}
						}
						stored = len(seg.b)
					}
					b.ReportMetric(float64(stored)/revs, "stored-bytes/rev")
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/revs, "ns/rev")
				})
			}
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, revs := range []int{1, 1000} {
		for _, inline := range []bool{true, false} {
			b.Run(fmt.Sprintf("inline=%v/revs=%d", inline, revs), func(b *testing.B) {
				s := newBuilder(inline, true).open(b, Options{Inline: inline, GeneralDelta: true})
				seg := &memSegment{b: make([]byte, 100*revs)}
				b.ReportAllocs()
				for b.Loop() {
					p := NewPlanner(s, PlanOptions{Chunk: seg.chunk})
					for i := range revs {
						node := hg.Node{1, byte(i), byte(i >> 8)}
						g := Staged{Node: node, Base: node, Offset: int64(100 * i), Length: 100, TextLen: 300}
						if _, _, err := p.Add(0, g, hg.Rev(i)); err != nil {
							b.Fatal(err)
						}
					}
					if _, err := p.Plan(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
