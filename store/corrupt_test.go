package store

import (
	"errors"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/wire/obsmarker"
)

// A file of our own that can't be right is no fault of a client, whatever the
// decoder that found it out says of what clients send.
func TestCorruptFiles(t *testing.T) {
	for _, tt := range []struct{ file, content string }{
		{"store/phaseroots", "1\n"},
		{"store/phaseroots", "7 " + hg.NullNode.String() + "\n"},
		{"store/obsstore", "\x09"},
		{"store/obsstore", "\x01\x00\x00\x00\x09short"},
		{"store/obsstore", "\x01\x00\x00\x00\x99torn"},
		{"store/obsstore", "\x01\x00\x00\x00\x00none at all"},
		{"store/obsstore", "\x00torn"},
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

// A marker that somebody is writing is not there yet, and is when it is whole.
func TestObsStoreIsBeingWritten(t *testing.T) {
	for _, version := range []byte{obsmarker.Version0, obsmarker.Version1} {
		m := vfs.NewMem()
		if err := Init(m); err != nil {
			t.Fatal(err)
		}
		var whole []byte
		for i := range 3 {
			var err error
			marker := obsmarker.Marker{Prec: hg.Node{byte(i + 1)}, Meta: []obsmarker.Meta{{Key: "user", Value: "bob"}}}
			if whole, err = obsmarker.Append(whole, version, &marker); err != nil {
				t.Fatal(err)
			}
		}
		one := len(whole) / 3
		if err := vfs.WriteAtomic(m, ObsStorePath, append([]byte{version}, whole[:one]...), true); err != nil {
			t.Fatal(err)
		}
		r, err := Open(m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := Lock(t.Context(), m, LockName)
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.OpenWrite(ObsStorePath)
		if err != nil {
			t.Fatal(err)
		}
		for n := one; n < len(whole); n++ {
			if _, err := f.WriteAt(whole[n:n+1], int64(1+n)); err != nil {
				t.Fatal(err)
			}
			v, err := r.View(t.Context())
			if err != nil {
				t.Fatalf("version %d, %d bytes: %v", version, 1+n, err)
			}
			want := (n + 1) / one
			if got := v.ObsStore().Len(); got != want {
				t.Errorf("version %d, %d bytes: %d markers, want %d", version, 1+n, got, want)
			}
			_, off, err := v.ObsStore().AppendForm(nil)
			if torn := (n+1)%one != 0; (err != nil) != torn || err == nil && off != int64(2+n) {
				t.Errorf("version %d, %d bytes: append at %d, %v", version, 1+n, off, err)
			}
			v.Close()
		}
		if err := errors.Join(f.Close(), unlock(), r.Close()); err != nil {
			t.Fatal(err)
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
