package vfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/vfs"
)

func TestMapSeesBytesWrittenLater(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			f := must(fsys.Create("log.i"))
			mustDo(t, writeAt(f, "abc", 0))
			m := must(f.Map(1 << 20))
			defer m.Close()
			mustDo(t, writeAt(f, "def", 3))
			if got := string(m.Bytes()[:6]); got != "abcdef" {
				t.Errorf("mapping holds %q, want abcdef", got)
			}
			mustDo(t, f.Close())
			if got := string(m.Bytes()[:6]); got != "abcdef" {
				t.Errorf("after Close of the file: mapping holds %q, want abcdef", got)
			}
		})
	}
}

func TestGuardTurnsFaultIntoError(t *testing.T) {
	fsys := vfs.NewOS(t.TempDir())
	f := must(fsys.Create("f"))
	defer f.Close()
	m := must(f.Map(1 << 20))
	defer m.Close()
	var sum byte
	err := vfs.Guard(func() { sum += m.Bytes()[1<<19] })
	var fault *vfs.FaultError
	if !errors.As(err, &fault) {
		t.Fatalf("read beyond the end: err = %v, want a FaultError (%d)", err, sum)
	}
	if err := vfs.Guard(func() {}); err != nil {
		t.Errorf("nothing read: err = %v", err)
	}
}

func TestGuardPassesOtherPanics(t *testing.T) {
	defer func() {
		if r := recover(); r != "bug" {
			t.Errorf("recovered %v, want bug", r)
		}
	}()
	err := vfs.Guard(func() { panic("bug") })
	t.Errorf("Guard returned %v, want a panic", err)
}

func TestLockExcludes(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			l := must(fsys.Lock("lock"))
			if _, err := fsys.Lock("lock"); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("second lock: err = %v, want ErrLocked", err)
			}
			mustDo(t, l.Close())
			mustDo(t, must(fsys.Lock("lock")).Close())
		})
	}
}

func TestReserveKeepsLength(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			f := must(fsys.Create("f"))
			defer f.Close()
			mustDo(t, f.Reserve(1<<20))
			if got := must(f.Stat()).Size; got != 0 {
				t.Errorf("length after Reserve = %d, want 0", got)
			}
		})
	}
}

func TestErrorsUnwrap(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			mustDo(t, fsys.MkdirAll("d/e"))
			mustDo(t, must(fsys.Create("d/f")).Close())
			_, open := fsys.Open("missing/file")
			_, create := fsys.Create("d/f")
			_, stat := fsys.Stat("missing")
			_, list := fsys.ReadDir("missing")
			for _, tt := range []struct {
				name string
				err  error
				want error
			}{
				{"open", open, fs.ErrNotExist},
				{"create", create, fs.ErrExist},
				{"stat", stat, fs.ErrNotExist},
				{"list", list, fs.ErrNotExist},
				{"remove", fsys.Remove("missing"), fs.ErrNotExist},
				{"rename", fsys.Rename("missing", "other"), fs.ErrNotExist},
				{"link over", fsys.Link("d/f", "d/f"), fs.ErrExist},
				{"sync", fsys.SyncDir("missing"), fs.ErrNotExist},
				{"remove all", fsys.RemoveAll("missing"), nil},
			} {
				if !errors.Is(tt.err, tt.want) {
					t.Errorf("%s: err = %v, want %v", tt.name, tt.err, tt.want)
				}
			}
			if err := fsys.Remove("d"); err == nil {
				t.Error("removed a directory that isn't empty")
			}
		})
	}
}

func TestLinksShareAFile(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			mustDo(t, vfs.WriteAtomic(fsys, "a", []byte("one"), true))
			mustDo(t, fsys.Link("a", "b"))
			a, b := must(fsys.Stat("a")), must(fsys.Stat("b"))
			if a.Nlink != 2 || a.Ino != b.Ino || a.Ino == 0 {
				t.Errorf("links: %+v and %+v, want one file with two links", a, b)
			}
			mustDo(t, vfs.WriteAtomic(fsys, "a", []byte("two"), false))
			if got := must(vfs.ReadFile(fsys, "b", 10)); string(got) != "one" {
				t.Errorf("b = %q after a was replaced, want one", got)
			}
			if got := must(fsys.Stat("b")).Nlink; got != 1 {
				t.Errorf("b has %d links, want 1", got)
			}
		})
	}
}

func TestSymlinks(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			mustDo(t, fsys.MkdirAll("real/sub"))
			mustDo(t, fsys.Symlink("real", "alias"))
			mustDo(t, vfs.WriteAtomic(fsys, "alias/sub/f", []byte("x"), false))
			if got := must(vfs.ReadFile(fsys, "real/sub/f", 10)); string(got) != "x" {
				t.Errorf("through the link = %q, want x", got)
			}
			if got := must(fsys.Readlink("alias")); got != "real" {
				t.Errorf("Readlink = %q, want real", got)
			}
			if in := must(fsys.Lstat("alias")); in.Mode&fs.ModeSymlink == 0 {
				t.Errorf("Lstat mode = %v, want a symlink", in.Mode)
			}
			if in := must(fsys.Stat("alias")); !in.Mode.IsDir() {
				t.Errorf("Stat mode = %v, want a directory", in.Mode)
			}
		})
	}
}

func TestReadFileLimit(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			mustDo(t, vfs.WriteAtomic(fsys, "f", []byte("0123456789"), false))
			if _, err := vfs.ReadFile(fsys, "f", 9); !errors.Is(err, vfs.ErrTooLong) {
				t.Errorf("limit 9: err = %v, want ErrTooLong", err)
			}
			if got, err := vfs.ReadFile(fsys, "f", 10); err != nil || !bytes.Equal(got, []byte("0123456789")) {
				t.Errorf("limit 10: %q, %v", got, err)
			}
		})
	}
}

func TestWriteAtomicKeepsMode(t *testing.T) {
	for _, fsys := range backends(t) {
		t.Run(fsys.name, func(t *testing.T) {
			mustDo(t, vfs.WriteAtomic(fsys, "f", nil, false))
			mustDo(t, fsys.Chmod("f", 0o640))
			mustDo(t, vfs.WriteAtomic(fsys, "f", []byte("x"), true))
			if got := must(fsys.Stat("f")).Mode.Perm(); got != 0o640 {
				t.Errorf("mode = %v, want 0640", got)
			}
			if got := must(fsys.ReadDir("")); len(got) != 1 {
				t.Errorf("directory holds %v, want f alone", got)
			}
		})
	}
}

func TestOSFile(t *testing.T) {
	dir := t.TempDir()
	f := must(vfs.Sub(vfs.NewOS(dir), "").Create("f"))
	defer f.Close()
	if got := vfs.OSFile(f); got == nil || got.Name() != filepath.Join(dir, "f") {
		t.Errorf("OSFile = %v, want the file f", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Error(err)
	}
}
