package revlog

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// grower publishes a builder's log on disk revision by revision.
type grower struct {
	t   *testing.T
	dir string
	b   *builder // all of it
	n   int      // what is on disk
}

func newGrower(t *testing.T, inline, generalDelta bool, revs int) *grower {
	t.Helper()
	b := newBuilder(inline, generalDelta).history(rand.New(rand.NewPCG(9, 9)), revs)
	return &grower{t: t, dir: t.TempDir(), b: b}
}

// sizeAt returns the size of the log with n revisions.
func (g *grower) sizeAt(n int) Size { return g.b.sizes[n] }

// grow writes what is needed to have the size: data first, then the index.
func (g *grower) grow(size Size) {
	g.t.Helper()
	if !size.Inline {
		g.write("log.d", g.b.data[:size.DataBytes])
	}
	g.write("log.i", g.b.index[:size.IndexBytes])
	g.n = size.Revs
}

// write appends to the file what it lacks of b.
func (g *grower) write(name string, b []byte) {
	g.t.Helper()
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		g.t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := f.Write(b[min(info.Size(), int64(len(b))):]); err != nil {
		g.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		g.t.Fatal(err)
	}
}

func (g *grower) open(o Options) *Log {
	g.t.Helper()
	l, err := Open(vfs.NewOS(g.dir), "log", o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			g.t.Error(err)
		}
	})
	return l
}

func TestExtend(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			g := newGrower(t, shape.inline, shape.generalDelta, 120)
			// From nothing; a reservation of 4 KiB makes new mappings necessary.
			l := g.open(Options{Mapped: shape.mapped, ReserveBytes: 4096, Inline: shape.inline})
			var snaps []*Snapshot
			for _, n := range []int{0, 1, 2, 30, 60, 64, 119, 120} {
				size := g.sizeAt(n)
				g.grow(size)
				if err := l.Extend(size); n > 0 && err != nil {
					t.Fatalf("Extend(%+v): %v", size, err)
				}
				snaps = append(snaps, l.Snapshot())
			}
			for i, n := range []int{0, 1, 2, 30, 60, 64, 119, 120} {
				checkPrefix(t, snaps[i], g.b, n)
				snaps[i].Close()
				snaps[i].Close()
			}
			if err := l.Extend(g.sizeAt(60)); !errors.Is(err, errShrunk) {
				t.Errorf("Extend to less: %v, want errShrunk", err)
			}
		})
	}
}

// checkPrefix checks that s is the first n revisions of b and nothing else.
func checkPrefix(t *testing.T, s *Snapshot, b *builder, n int) {
	t.Helper()
	if s.Len() != n {
		t.Fatalf("Len() = %d, want %d", s.Len(), n)
	}
	for rev, node := range b.nodes {
		got, ok := s.Rev(node)
		if ok != (rev < n) || ok && got != hg.Rev(rev) {
			t.Errorf("of %d: Rev(node %d) = %d, %v", n, rev, got, ok)
		}
		text, err := s.Text(hg.Rev(rev))
		if rev < n && (err != nil || string(text) != string(b.texts[rev])) {
			t.Errorf("of %d: Text(%d): %v", n, rev, err)
		}
		if rev >= n && !errors.Is(err, ErrNoRev) {
			t.Errorf("of %d: Text(%d): %v, want ErrNoRev", n, rev, err)
		}
	}
}

// An inline log that was split is the same log; those who read it inline go on.
func TestExtendOverSplit(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		g := newGrower(t, true, true, 100)
		size := g.sizeAt(50)
		g.grow(size)
		l := g.open(Options{Mapped: mapped})
		old := l.Snapshot()
		old.Rev(g.b.nodes[0])
		split(t, g)
		size = g.sizeAt(100)
		g.write("log.d", g.b.data)
		g.write("log.i", g.b.index)
		if err := l.Extend(size); err != nil {
			t.Fatal(err)
		}
		s := l.Snapshot()
		checkPrefix(t, s, g.b, 100)
		checkPrefix(t, old, g.b, 50)
		if s.Size() != size || old.Size().Inline == s.Size().Inline {
			t.Errorf("sizes %+v and %+v, want %+v", old.Size(), s.Size(), size)
		}
		old.Close()
		s.Close()
	}
}

// split makes the builder's log and the files on disk a split log.
func split(t *testing.T, g *grower) {
	t.Helper()
	inline := g.b.open(t, Options{})
	b := newBuilder(false, true)
	for rev := range inline.n {
		e := inline.entry(rev)
		chunk, err := inline.Chunk(rev)
		if err != nil {
			t.Fatal(err)
		}
		b.addRaw(entryFields{0, e.flags(), 0, e.textLen(), e.base(), e.link(), e.p1(), e.p2(), *e.node()}, chunk)
	}
	b.texts, b.base = g.b.texts, g.b.base
	g.b = b
	if err := os.WriteFile(filepath.Join(g.dir, "log.d"), b.data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "new"), b.index[:50*entrySize], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(g.dir, "new"), filepath.Join(g.dir, "log.i")); err != nil {
		t.Fatal(err)
	}
}

// An Extend that does not find what it was told leaves the log as it was.
func TestExtendRefused(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			g := newGrower(t, shape.inline, shape.generalDelta, 40)
			g.grow(g.sizeAt(20))
			l := g.open(Options{Mapped: shape.mapped, ReserveBytes: 2048})
			tests := map[string]Size{
				"not on disk":      g.sizeAt(40),
				"torn":             func() Size { s := g.sizeAt(30); s.IndexBytes--; return s }(),
				"other data bytes": func() Size { s := g.sizeAt(21); s.DataBytes += 5; return s }(),
				"other revs":       func() Size { s := g.sizeAt(21); s.Revs++; return s }(),
				"other kind":       func() Size { s := g.sizeAt(21); s.Inline = !s.Inline; return s }(),
				"huge":             {Revs: 1 << 30, Inline: shape.inline, IndexBytes: 1 << 36},
			}
			for name, size := range tests {
				if err := l.Extend(size); err == nil {
					t.Errorf("%s: Extend(%+v) succeeded", name, size)
				}
			}
			s := l.Snapshot()
			defer s.Close()
			checkPrefix(t, s, g.b, 20)
			g.grow(g.sizeAt(40))
			if err := l.Extend(g.sizeAt(40)); err != nil {
				t.Fatalf("Extend after the refusals: %v", err)
			}
			after := l.Snapshot()
			defer after.Close()
			checkPrefix(t, after, g.b, 40)
		})
	}
}

func TestClosed(t *testing.T) {
	g := newGrower(t, false, true, 10)
	g.grow(g.sizeAt(10))
	l := g.open(Options{Mapped: true})
	s := l.Snapshot()
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	checkPrefix(t, s, g.b, 10)
	s.Close()
	if err := l.Extend(g.sizeAt(10)); !errors.Is(err, ErrClosed) {
		t.Errorf("Extend after Close: %v, want ErrClosed", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Snapshot after Close did not panic")
		}
	}()
	l.Snapshot()
}

// Readers come and go while the log grows by one revision at a time, through
// new mappings and a split; each sees a whole prefix.
func TestReadersDuringGrowth(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			const revs = 150
			g := newGrower(t, shape.inline, shape.generalDelta, revs)
			l := g.open(Options{Mapped: shape.mapped, ReserveBytes: 3000, Inline: shape.inline})
			var published atomic.Int64
			var wg sync.WaitGroup
			for seed := range uint64(4) {
				wg.Go(func() { readWhile(t, l, g.b, &published, revs, seed) })
			}
			for n := 1; n <= revs; n++ {
				g.grow(g.sizeAt(n))
				if err := l.Extend(g.sizeAt(n)); err != nil {
					t.Errorf("Extend to %d: %v", n, err)
					break
				}
				published.Store(int64(n))
			}
			published.Store(revs)
			wg.Wait()
		})
	}
}

func readWhile(t *testing.T, l *Log, b *builder, published *atomic.Int64, revs int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for done := false; !done && !t.Failed(); {
		least := int(published.Load())
		done = least == revs
		s := l.Snapshot()
		n := s.Len()
		if n < least {
			t.Errorf("snapshot of %d revisions after %d were published", n, least)
		}
		for range 20 {
			rev := rng.IntN(len(b.nodes))
			if got, ok := s.Rev(b.nodes[rev]); ok != (rev < n) || ok && int(got) != rev {
				t.Errorf("of %d: Rev(node %d) = %d, %v", n, rev, got, ok)
			}
			if rev >= n {
				continue
			}
			if text, err := s.Text(hg.Rev(rev)); err != nil || string(text) != string(b.texts[rev]) {
				t.Errorf("of %d: Text(%d): %v", n, rev, err)
			}
		}
		s.Close()
	}
}

// Somebody else appends, and may be in the middle of it.
func TestExtendToFile(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			g := newGrower(t, shape.inline, shape.generalDelta, 30)
			l := g.open(Options{Mapped: shape.mapped, Inline: shape.inline})
			for _, n := range []int{0, 1, 1, 2, 25, 30} {
				g.grow(g.sizeAt(n))
				if n < 30 && n > 0 {
					// A torn tail: part of the next entry, which has its data.
					next := g.sizeAt(n + 1)
					if !shape.inline {
						g.write("log.d", g.b.data[:next.DataBytes])
					}
					g.write("log.i", g.b.index[:g.sizeAt(n).IndexBytes+40])
				}
				if err := l.ExtendToFile(); err != nil {
					t.Fatalf("at %d: %v", n, err)
				}
				s := l.Snapshot()
				checkPrefix(t, s, g.b, n)
				s.Close()
			}
			if err := os.Truncate(filepath.Join(g.dir, "log.i"), g.sizeAt(10).IndexBytes); err != nil {
				t.Fatal(err)
			}
			if err := l.ExtendToFile(); !errors.Is(err, errShrunk) {
				t.Errorf("after a strip: %v, want errShrunk", err)
			}
		})
	}
}
