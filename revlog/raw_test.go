package revlog

import (
	"bytes"
	"fmt"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// A log can be written as it was at an earlier length, even if it was split
// since.
func TestWriteAsItWas(t *testing.T) {
	for _, inline := range []bool{true, false} {
		t.Run(fmt.Sprintf("inline=%v", inline), func(t *testing.T) {
			g := newGrower(t, inline, true, 12)
			g.grow(g.sizeAt(12))
			fsys := vfs.NewOS(g.dir)
			log, err := Open(fsys, "log", Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			s := log.Snapshot()
			defer s.Close()
			for n := 0; n <= 12; n++ {
				size := s.sizeAt(hg.Rev(n))
				if want := g.sizeAt(n); size != want && n > 0 {
					t.Fatalf("size at %d = %+v, want %+v", n, size, want)
				}
				var index, data bytes.Buffer
				if err := s.WriteIndex(&index, size); err != nil {
					t.Fatal(err)
				}
				if err := s.WriteData(&data, size); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(index.Bytes(), g.b.index[:size.IndexBytes]) || !bytes.Equal(data.Bytes(), g.b.data[:size.DataBytes]) {
					t.Errorf("%d revisions are not written as they were", n)
				}
			}
			if !inline {
				return
			}
			want := bytes.Clone(g.b.index)
			split := splitLog(t, g.b.index)
			defer split.Close()
			var index bytes.Buffer
			if err := split.WriteIndex(&index, s.Size()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(index.Bytes(), want) {
				t.Error("a split log is not written as the inline one that it was")
			}
		})
	}
}

// splitLog returns the log of an inline index after its split.
func splitLog(t *testing.T, inline []byte) *Snapshot {
	t.Helper()
	index, data, err := SplitInline(inline)
	if err != nil {
		t.Fatal(err)
	}
	fsys := vfs.NewMem()
	for name, b := range map[string][]byte{"log.i": index, "log.d": data} {
		if err := vfs.WriteAtomic(fsys, name, b, false); err != nil {
			t.Fatal(err)
		}
	}
	log, err := Open(fsys, "log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log.Snapshot()
}

func TestBefore(t *testing.T) {
	g := newGrower(t, false, true, 12)
	g.grow(g.sizeAt(12))
	log, err := Open(vfs.NewOS(g.dir), "log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := log.Snapshot()
	defer s.Close()
	for limit := hg.Rev(0); limit < 20; limit++ {
		n := 12
		for n > 0 && s.LinkRev(hg.Rev(n-1)) >= limit {
			n--
		}
		if got := s.Before(limit); got.Revs != n {
			t.Errorf("Before(%d) has %d revisions, want %d", limit, got.Revs, n)
		}
	}
}
