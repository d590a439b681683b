package store

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
)

// abandoned are repositories in whose transaction hg was killed.
var abandoned = []string{"abandoned", "abandoned-pull"}

// TestRollBack compares with what hg recover makes of the same repository.
func TestRollBack(t *testing.T) {
	for _, name := range abandoned {
		t.Run(name, func(t *testing.T) {
			ours, theirs := hgtest.Repo(t, name), hgtest.Repo(t, name)
			fsys := vfs.NewOS(filepath.Join(ours, ".hg"))
			if done, err := RollBack(fsys); !done || err != nil {
				t.Fatalf("RollBack = %v, %v, want true", done, err)
			}
			if done, err := RollBack(fsys); done || err != nil {
				t.Errorf("once more: %v, %v, want false", done, err)
			}
			hgtest.New(t).In(theirs).Run("recover", "-q", "--no-verify")
			got, want := contents(t, ours), contents(t, theirs)
			for _, file := range slices.Sorted(maps.Keys(want)) {
				if got[file] != want[file] {
					t.Errorf("%s: %d bytes, want %d", file, len(got[file]), len(want[file]))
				}
			}
			for file := range got {
				if _, ok := want[file]; !ok {
					t.Errorf("%s was left", file)
				}
			}
			hgtest.New(t).In(ours).Verify()
		})
	}
}

// contents returns the files of a repository's .hg, but for caches.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(root, ".hg"), func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(name, "cache/") {
			return err
		}
		b, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, root+"/.hg/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// load copies the .hg of a repository into a file system in memory, all of it
// durable.
func load(t *testing.T, root string) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for name, text := range contents(t, root) {
		if err := vfs.MkdirAllSync(m, vfs.Dir(name)); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteAtomic(m, name, []byte(text), true); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestRollBackCrashes cuts the power at each operation in turn: what is rolled
// back after it is what would have been without.
func TestRollBackCrashes(t *testing.T) {
	for _, name := range abandoned {
		base := load(t, hgtest.Repo(t, name))
		want := base.Crash(nil)
		if _, err := RollBack(want); err != nil {
			t.Fatal(err)
		}
		for k := 0; ; k++ {
			mem := base.Crash(nil)
			cut := errfs.CutNth(mem, k, errfs.Changes...)
			_, err := RollBack(cut)
			if !cut.Fired() {
				break
			}
			if err == nil {
				t.Errorf("%s: %s: no error", name, cut.Where())
			}
			after := mem.Crash(nil)
			if _, err := RollBack(after); err != nil {
				t.Fatalf("%s: %s: %v", name, cut.Where(), err)
			}
			for _, file := range []string{"store/00changelog.i", "store/00manifest.i", "store/fncache", "store/data/wide.i"} {
				if got, want := textOf(t, after, file), textOf(t, want, file); got != want {
					t.Errorf("%s: %s: %s has %d bytes, want %d", name, cut.Where(), file, len(got), len(want))
				}
			}
			if there, err := HasAbandoned(after); there || err != nil {
				t.Errorf("%s: %s: the journal is there: %v, %v", name, cut.Where(), there, err)
			}
		}
	}
}

// textOf returns what a file holds; nothing if there is none.
func textOf(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<30)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// TestRollBackRefuses wants a journal that can't be followed to be left alone.
func TestRollBackRefuses(t *testing.T) {
	for _, tt := range []struct{ name, journal, backups string }{
		{"a file is too short", "requires\x001000\n", ""},
		{"a file is missing", "gone\x001\n", ""},
		{"no length", "requires\n", ""},
		{"negative length", "requires\x00-1\n", ""},
		{"a name that leads out", "../hgrc\x000\n", ""},
		{"absolute name", "/etc/passwd\x000\n", ""},
		{"a copy is missing", "", "2\n\x00requires\x00journal.backup.requires\x000\n"},
		{"a copy outside", "", "2\nplain\x00requires\x00../../copy\x000\n"},
		{"unknown location", "", "2\nelsewhere\x00requires\x00\x000\n"},
		{"unknown version", "", "3\n"},
		{"nothing named", "", "2\n\x00\x00\x000\n"},
	} {
		m := vfs.NewMem()
		if err := Init(m); err != nil {
			t.Fatal(err)
		}
		want := textOf(t, m, "store/requires")
		for name, text := range map[string]string{abandonedName: tt.journal, backupsName: tt.backups} {
			if err := vfs.WriteAtomic(m, name, []byte(text), true); err != nil {
				t.Fatal(err)
			}
		}
		if done, err := RollBack(m); done || err == nil {
			t.Errorf("%s: RollBack = %v, %v, want an error", tt.name, done, err)
		}
		if there, err := HasAbandoned(m); !there || err != nil {
			t.Errorf("%s: the journal is there: %v, %v", tt.name, there, err)
		}
		if got := textOf(t, m, "store/requires"); got != want {
			t.Errorf("%s: the store was changed", tt.name)
		}
	}
}

// FuzzRollBack wants no journal to reach beyond the repository, or to panic.
func FuzzRollBack(f *testing.F) {
	f.Add("requires\x001\nrequires\x000\n", "2\nplain\x00\x00dirstate.pending\x000\n")
	f.Add("data/a.i\x0012", "2\n\x00requires\x00copy\x001\n")
	f.Fuzz(func(t *testing.T, journal, backups string) {
		m := vfs.NewMem()
		if err := Init(m); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{abandonedName: journal, backupsName: backups} {
			if err := vfs.WriteAtomic(m, name, []byte(text), true); err != nil {
				t.Fatal(err)
			}
		}
		done, err := RollBack(m)
		there, terr := HasAbandoned(m)
		if done == there || done != (err == nil) || terr != nil {
			t.Errorf("RollBack = %v, %v, and the journal is there: %v, %v", done, err, there, terr)
		}
	})
}
