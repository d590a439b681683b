package revlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog/chunk"
)

// syntheticIndex returns the index of n revisions in a line with random nodes.
func syntheticIndex(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	b := make([]byte, 0, n*entrySize)
	for rev := range hg.Rev(n) {
		f := entryFields{TextLen: 100, Base: rev, Link: rev, P1: rev - 1, P2: -1}
		for i := 0; i < hg.NodeLen; i += 4 {
			binary.LittleEndian.PutUint32(f.Node[i:], rng.Uint32())
		}
		b = f.append(b)
	}
	putHeader(b, makeHeader(false, true))
	return b
}

// benchIndex writes a synthetic index where b can map it.
func benchIndex(b *testing.B, n int) vfs.FS {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.i"), syntheticIndex(n), 0o666); err != nil {
		b.Fatal(err)
	}
	return vfs.NewOS(dir)
}

func openBench(b *testing.B, fsys vfs.FS, o Options) *Log {
	b.Helper()
	l, err := Open(fsys, "log", o)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		for _, mapped := range []bool{true, false} {
			b.Run(fmt.Sprintf("revs=%d/mapped=%v", n, mapped), func(b *testing.B) {
				fsys := benchIndex(b, n)
				b.ReportAllocs()
				for b.Loop() {
					if err := openBench(b, fsys, Options{Mapped: mapped}).Close(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkOpenFilelog is what a clone does for each file.
func BenchmarkOpenFilelog(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("revs=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			log := newBuilder(true, true).history(rand.New(rand.NewPCG(1, 1)), n)
			if err := os.WriteFile(filepath.Join(dir, "log.i"), log.index, 0o666); err != nil {
				b.Fatal(err)
			}
			fsys := vfs.NewOS(dir)
			b.ReportAllocs()
			for b.Loop() {
				l := openBench(b, fsys, Options{})
				s := l.Snapshot()
				s.Rev(log.nodes[0])
				s.Close()
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// lookups returns nodes to look for, in random order: those of s, or others.
func lookups(s *Snapshot, hit bool) []hg.Node {
	rng := rand.New(rand.NewPCG(7, 7))
	nodes := make([]hg.Node, s.Len())
	for i, r := range rng.Perm(s.Len()) {
		nodes[i] = s.Node(hg.Rev(r))
		if !hit {
			binary.LittleEndian.PutUint64(nodes[i][:], rng.Uint64())
		}
	}
	return nodes
}

// BenchmarkRev looks nodes up in random order: one by one, many at once, and in
// a Go map in the same run. With next=known the node to look for does not
// depend on the answer before, so that lookups can overlap.
func BenchmarkRev(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		l := openBench(b, benchIndex(b, n), Options{Mapped: true})
		s := l.Snapshot()
		twin := make(map[hg.Node]hg.Rev)
		for rev := range hg.Rev(n) {
			twin[s.Node(rev)] = rev
		}
		for _, kind := range []string{"hit", "miss"} {
			nodes := lookups(s, kind == "hit")
			name := fmt.Sprintf("revs=%d/kind=%s", n, kind)
			for next, step := range map[string]hg.Rev{"known": 0, "depends": 1} {
				b.Run(name+"/next="+next+"/impl=table", func(b *testing.B) {
					benchTable(b, nodes, s, step)
					b.ReportMetric(float64(16*len(l.nodes.table.Load().buckets))/float64(n), "B/entry")
				})
				b.Run(name+"/next="+next+"/impl=map", func(b *testing.B) { benchMap(b, nodes, twin, step) })
			}
			b.Run(name+"/next=known/impl=batch", func(b *testing.B) { benchRevs(b, nodes, s) })
		}
		s.Close()
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}
}

// benchTable looks up one node after the other. If step is 1 the last answer
// decides which one is next. The call is not hidden behind a function value,
// which would cost both sides the same copies.
func benchTable(b *testing.B, nodes []hg.Node, s *Snapshot, step hg.Rev) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		rev, _ := s.Rev(nodes[i])
		if i += 1 + int(rev&step); i >= len(nodes) {
			i = 0
		}
	}
}

func benchMap(b *testing.B, nodes []hg.Node, twin map[hg.Node]hg.Rev, step hg.Rev) {
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		rev, ok := twin[nodes[i]]
		if !ok {
			rev = hg.NullRev
		}
		if i += 1 + int(rev&step); i >= len(nodes) {
			i = 0
		}
	}
}

func benchRevs(b *testing.B, nodes []hg.Node, s *Snapshot) {
	b.ReportAllocs()
	revs := make([]hg.Rev, 0, 1000)
	i, left := 0, 0
	for b.Loop() {
		if left--; left < 0 {
			revs = s.Revs(revs[:0], nodes[i:i+1000])
			i, left = (i+1000)%len(nodes), 999
		}
	}
}

func BenchmarkText(b *testing.B) {
	engines := map[string]chunk.Engine{"none": chunk.None, "zlib": chunk.Zlib, "zstd": chunk.Zstd}
	for _, chain := range []int{0, 10, 100, 1000} {
		for _, name := range []string{"none", "zlib", "zstd"} {
			b.Run(fmt.Sprintf("chain=%d/engine=%s", chain, name), func(b *testing.B) {
				log := newBuilder(false, true)
				log.engine = engines[name]
				text := manifestText(2000)
				for rev := range hg.Rev(chain + 1) {
					text = bytes.Clone(text)
					copy(text[int(rev)*7919%2000*manifestLine+16:], fmt.Sprintf("%040x", rev*7919))
					log.add(text, rev-1, -1, max(rev-1, 0))
				}
				s := log.open(b, Options{})
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Text(hg.Rev(chain)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

const manifestLine = 57

// manifestText returns a manifest of n files, manifestLine bytes each.
func manifestText(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 3))
	var b []byte
	for i := range n {
		b = fmt.Appendf(b, "dir/file%07d\x00%016x%016x%08x\n", i, rng.Uint64(), rng.Uint64(), rng.Uint32())
	}
	return b
}

// BenchmarkWalk reads all texts of a log in order, as verify and the building
// of caches do.
func BenchmarkWalk(b *testing.B) {
	for _, how := range []string{"snapshot", "reader"} {
		b.Run("how="+how, func(b *testing.B) {
			dir := b.TempDir()
			log := newBuilder(false, true).history(rand.New(rand.NewPCG(1, 1)), 1000)
			for name, data := range log.files() {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
					b.Fatal(err)
				}
			}
			l := openBench(b, vfs.NewOS(dir), Options{Mapped: true})
			defer l.Close()
			s := l.Snapshot()
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				text := s.Text
				if how == "reader" {
					text = s.Reader(0).Text
				}
				for rev := range s.n {
					if _, err := text(rev); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.n), "ns/text")
		})
	}
}
