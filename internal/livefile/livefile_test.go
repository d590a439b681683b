package livefile

import (
	"errors"
	"testing"

	"vcsd/internal/vfs"
)

func TestGet(t *testing.T) {
	fsys, parsed := vfs.NewOS(t.TempDir()), 0
	write := func(s string) {
		t.Helper()
		if err := vfs.WriteAtomic(fsys, "f", []byte(s), false); err != nil {
			t.Fatal(err)
		}
	}
	parse := func(b []byte) (string, error) {
		parsed++
		if string(b) == "bad" {
			return "", errors.New("bad")
		}
		return string(b), nil
	}
	if _, err := Open(fsys, "f", 10, parse); err == nil {
		t.Error("a missing file was opened")
	}
	write("one")
	f, err := Open(fsys, "f", 10, parse)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		do     func()
		want   string
		fails  bool
		parses int
	}{
		{"unchanged", func() {}, "one", false, 0},
		{"changed", func() { write("two") }, "two", false, 1},
		{"in place, as long as before", func() { overwrite(t, fsys, "f", "2nd") }, "2nd", false, 1},
		{"bad", func() { write("bad") }, "2nd", true, 1},
		{"still bad", func() {}, "2nd", true, 0},
		{"too long", func() { write("01234567890") }, "2nd", true, 0},
		{"gone", func() { remove(t, fsys, "f") }, "2nd", true, 0},
		{"back as it was", func() { write("bad") }, "2nd", true, 0},
		{"good again", func() { write("three") }, "three", false, 1},
		{"the same written again", func() { write("three") }, "three", false, 0},
	}
	for _, s := range steps {
		s.do()
		before := parsed
		got, err := f.Get()
		if got != s.want || (err != nil) != s.fails || parsed-before != s.parses {
			t.Errorf("%s: %q, %v, parsed %d times; want %q, error %v, %d times", s.name, got, err, parsed-before, s.want, s.fails, s.parses)
		}
	}
}

func overwrite(t *testing.T, fsys vfs.FS, name, s string) {
	t.Helper()
	f, err := fsys.OpenWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(s), 0)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
}
