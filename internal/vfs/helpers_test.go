package vfs_test

import (
	"io"
	"testing"

	"vcsd/internal/vfs"
)

type backend struct {
	name string
	vfs.FS
}

// backends returns one fresh FS of each kind.
func backends(t *testing.T) []backend {
	return []backend{
		{"os", vfs.NewOS(t.TempDir())},
		{"sub", vfs.Sub(vfs.NewOS(t.TempDir()), "")},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeAt(w io.WriterAt, s string, off int64) error {
	_, err := w.WriteAt([]byte(s), off)
	return err
}
