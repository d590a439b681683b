package outgoing

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"vcsd/bench/history"
	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/store"
)

// woven opens a history as vcsd/bench makes them, stored by hg.
func woven(b *testing.B, changesets int) *store.Repo {
	b.Helper()
	h := hgtest.New(b)
	f, err := os.Create(filepath.Join(h.Dir, "bundle"))
	if err != nil {
		b.Fatal(err)
	}
	if err := (history.Woven{Seed: 1, Changesets: changesets, Files: 1_000, Lines: 4}).WriteBundle(f); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	h.Run("init", "r")
	h.In("r").Run("unbundle", "-q", f.Name())
	h.In("r").Run("phase", "-q", "--public", "-r", "all()")
	return openAt(b, filepath.Join(h.Dir, "r"))
}

// BenchmarkGetBundle makes bundles of the last changesets, not compressed.
func BenchmarkGetBundle(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		v := viewOf(b, woven(b, n))
		for _, last := range []int{0, 1, 10, 1_000} {
			b.Run(fmt.Sprintf("history=%d/changesets=%d", n, last), func(b *testing.B) {
				a := full()
				a.Phases, a.Bookmarks, a.Changegroup = true, true, last > 0
				a.Common = headsBefore(v, n-last)
				b.ReportAllocs()
				for b.Loop() {
					w := &counter{}
					if err := GetBundle(b.Context(), v, a, noKeys, w); err != nil {
						b.Fatal(err)
					}
					b.SetBytes(w.n)
				}
			})
		}
	}
}

// headsBefore returns the heads of the first n changesets.
func headsBefore(v *store.View, n int) (nodes []hg.Node) {
	log, inner := v.Changelog(), make(map[hg.Rev]bool)
	for r := hg.Rev(n - 1); r >= 0; r-- {
		p1, p2 := log.Parents(r)
		inner[p1], inner[p2] = true, true
		if !inner[r] {
			nodes = append(nodes, log.Node(r))
		}
	}
	return nodes
}

// A counter counts what is written.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
