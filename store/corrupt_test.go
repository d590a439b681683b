package store

import (
	"errors"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// A file of our own that can't be right is no fault of a client, whatever the
// decoder that found it out says of what clients send.
func TestCorruptFiles(t *testing.T) {
	for _, tt := range []struct{ file, content string }{
		{"store/phaseroots", "1\n"},
		{"store/phaseroots", "7 " + hg.NullNode.String() + "\n"},
		{"store/obsstore", "\x09"},
		{"store/obsstore", "\x01\x00\x00\x00\x09short"},
		{"dirstate", "short"},
		{"store/fncache", "data/a.i\n\ndata/b.i\n"},
	} {
		m := vfs.NewMem()
		if err := Init(m); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteAtomic(m, tt.file, []byte(tt.content), true); err != nil {
			t.Fatal(err)
		}
		err := read(m, tt.file)
		var c *CorruptError
		if !errors.As(err, &c) || c.File != tt.file || errors.Is(err, hg.ErrMalformed) {
			t.Errorf("%s with %q: %v, want a *CorruptError that names it", tt.file, tt.content, err)
		}
	}
}

// read opens a repository and reads what Open doesn't need.
func read(fsys vfs.FS, file string) error {
	r, err := Open(fsys, Options{})
	if err != nil {
		return err
	}
	switch file {
	case "dirstate":
		_, err = WorkingParents(fsys)
	case "store/fncache":
		_, _, _, err = r.FNCacheAppend(nil)
	}
	return errors.Join(err, r.Close())
}
