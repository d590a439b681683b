package server

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/store"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// TestLineWalks: they end with their request, and after so many steps.
func TestLineWalks(t *testing.T) {
	dir := hgtest.Repo(t, "linear")
	r, err := store.Open(vfs.NewOS(filepath.Join(dir, ".hg")), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	sv, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Close()
	v := &view{View: sv}
	tip := sv.Changelog().Node(sv.Tip())
	pairs, nodes := make([][2]hg.Node, 1<<21), make([]hg.Node, 1<<21)
	for i := range pairs {
		pairs[i], nodes[i] = [2]hg.Node{tip, hg.NullNode}, tip
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		n    int
		want error
	}{
		{"a few", t.Context(), 10, nil},
		{"too many", t.Context(), len(pairs), hg.ErrTooLarge},
		{"nobody waits", ended, len(pairs), context.Canceled},
	} {
		if _, err := v.Between(tt.ctx, pairs[:tt.n]); !errors.Is(err, tt.want) {
			t.Errorf("between, %s: %v, want %v", tt.name, err, tt.want)
		}
		if _, err := v.Branches(tt.ctx, nodes[:tt.n]); !errors.Is(err, tt.want) {
			t.Errorf("branches, %s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, err := v.Between(t.Context(), [][2]hg.Node{{{1}, tip}}); err == nil {
		t.Error("between of an unknown node: no error")
	}
}
