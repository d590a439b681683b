package embedded_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A process that died while etcd made its first data left some that nobody can
// be elected with. The kills in e2e/killsweep find the moments.
func TestDataHalfMade(t *testing.T) {
	dir := tempDir(t)
	half := filepath.Join(dir, "etcd.new", "member", "wal")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "0000000000000000-0000000000000000.wal"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if m := join(t, dir); !m.Hosting() {
		t.Error("the only member does not host")
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd.new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was half made: err = %v, want it gone", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member", "snap", "db")); err != nil {
		t.Error(err)
	}
}
