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

func BenchmarkRev(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		l := openBench(b, benchIndex(b, n), Options{Mapped: true})
		s := l.Snapshot()
		gomap := make(map[hg.Node]hg.Rev)
		for rev := range hg.Rev(n) {
			gomap[s.Node(rev)] = rev
		}
		for _, kind := range []string{"hit", "miss"} {
			nodes := lookups(s, kind == "hit")
			b.Run(fmt.Sprintf("revs=%d/%s/impl=table", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				i, found := 0, 0
				for b.Loop() {
					if _, ok := s.Rev(nodes[i]); ok {
						found++
					}
					if i++; i == len(nodes) {
						i = 0
					}
				}
				b.ReportMetric(float64(16*len(l.nodes.table.Load().buckets))/float64(n), "B/entry")
			})
			b.Run(fmt.Sprintf("revs=%d/%s/impl=gomap", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				i, found := 0, 0
				for b.Loop() {
					if _, ok := gomap[nodes[i]]; ok {
						found++
					}
					if i++; i == len(nodes) {
						i = 0
					}
				}
			})
		}
		s.Close()
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	}
}

func BenchmarkText(b *testing.B) {
	for _, chain := range []int{1, 10, 100, 1000} {
		for _, inline := range []bool{true, false} {
			b.Run(fmt.Sprintf("chain=%d/inline=%v", chain, inline), func(b *testing.B) {
				log := newBuilder(inline, true)
				text := bytes.Repeat([]byte("path/of/a/file\x000123456789012345678901234567890123456789\n"), 2000)
				for rev := range hg.Rev(chain) {
					text = bytes.Clone(text)
					copy(text[int(rev)*57%len(text):], "changed")
					log.add(text, rev-1, -1, max(rev-1, 0))
				}
				s := log.open(b, Options{})
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Text(hg.Rev(chain - 1)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
