package vfs_test

import (
	"errors"
	"io"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
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
		{"mem", vfs.NewMem()},
		{"errfs", errfs.FailNth(vfs.NewMem(), 1<<30, errors.New("never"))},
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
