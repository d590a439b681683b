package revlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// A file that a clone shares by hard links is replaced by a copy before it is
// appended to: the log has to follow the name.
func TestExtendOverReplacedFiles(t *testing.T) {
	for _, inline := range []bool{true, false} {
		for _, mapped := range []bool{true, false} {
			t.Run(fmt.Sprintf("inline=%v/mapped=%v", inline, mapped), func(t *testing.T) {
				g := newGrower(t, inline, true, 20)
				g.grow(g.sizeAt(10))
				log, err := Open(vfs.NewOS(g.dir), "log", Options{Mapped: mapped})
				if err != nil {
					t.Fatal(err)
				}
				defer log.Close()
				old := log.Snapshot()
				defer old.Close()
				if _, err := old.Text(9); err != nil {
					t.Fatal(err)
				}
				g.replace()
				g.grow(g.sizeAt(20))
				if err := log.ExtendToFile(); err != nil {
					t.Fatal(err)
				}
				s := log.Snapshot()
				defer s.Close()
				for r := hg.Rev(0); r < 20; r++ {
					if _, err := s.Text(r); err != nil {
						t.Errorf("rev %d: %v", r, err)
					}
				}
				if _, err := old.Text(9); err != nil {
					t.Errorf("rev 9 of the old snapshot: %v", err)
				}
			})
		}
	}
}

// replace puts a copy of each file in its place, as if the old one was shared.
func (g *grower) replace() {
	g.t.Helper()
	for _, name := range []string{"log.i", "log.d"} {
		b, err := os.ReadFile(filepath.Join(g.dir, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			g.t.Fatal(err)
		}
		// The old file lives on under another name, as in a clone.
		if err := os.Link(filepath.Join(g.dir, name), filepath.Join(g.dir, "clone-"+name)); err != nil {
			g.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(g.dir, "new"), b, 0o666); err != nil {
			g.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(g.dir, "new"), filepath.Join(g.dir, name)); err != nil {
			g.t.Fatal(err)
		}
	}
}
