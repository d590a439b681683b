package powerdisk_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/powerdisk"
)

// TestCut wants files that were synced to survive each cut, and of the others
// some not to.
func TestCut(t *testing.T) {
	d := powerdisk.Mount(t, powerdisk.Format(t))
	rng := rand.New(rand.NewPCG(1, 2))
	const files = 20
	for i := range files {
		write(t, d, fmt.Sprint("synced", i), true)
		write(t, d, fmt.Sprint("not", i), false)
	}
	var cuts []powerdisk.Content
	for range 3 {
		cuts = append(cuts, d.Cut(rng))
	}
	if err := d.Unmount(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for i, c := range cuts {
		left := powerdisk.Mount(t, c)
		for k := range files {
			if b, err := os.ReadFile(filepath.Join(left.Dir, fmt.Sprint("synced", k))); err != nil || string(b) != "text\n" {
				t.Errorf("cut %d: file %d that was synced: %q, %v", i, k, b, err)
			}
			if b, err := os.ReadFile(filepath.Join(left.Dir, fmt.Sprint("not", k))); err != nil || string(b) != "text\n" {
				lost++
			}
		}
		if err := left.Unmount(); err != nil {
			t.Fatal(err)
		}
	}
	if lost == 0 {
		t.Error("no cut lost anything")
	}
}

func write(t *testing.T, d *powerdisk.Disk, name string, sync bool) {
	t.Helper()
	f, err := os.Create(filepath.Join(d.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("text\n"); err != nil {
		t.Fatal(err)
	}
	if !sync {
		return
	}
	parent, err := os.Open(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Sync(); err != nil {
		t.Fatal(err)
	}
}
