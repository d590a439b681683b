package history

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// What is made without hg is what hg takes and verifies, and what grows on top
// of it too.
func TestHgTakesHistories(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(*bytes.Buffer) error
		want  int // changesets
	}{
		{"woven", func(b *bytes.Buffer) error {
			return Woven{Seed: 1, Changesets: 60, Files: 12, Lines: 3}.WriteBundle(b)
		}, 60},
		{"heads", func(b *bytes.Buffer) error { return Fan{Heads: 9}.WriteBundle(b) }, 10},
		{"branches", func(b *bytes.Buffer) error { return Fan{Heads: 5, Branches: true}.WriteBundle(b) }, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := hgtest.New(t)
			var first, again bytes.Buffer
			if err := tt.write(&first); err != nil {
				t.Fatal(err)
			}
			if err := tt.write(&again); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
				t.Errorf("made twice, the history differs (%v)", err)
			}
			file := filepath.Join(h.Dir, "bundle")
			if err := os.WriteFile(file, first.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			h.Run("init", "r")
			r := h.In("r")
			r.Run("unbundle", file)
			r.Verify()
			if got := strings.Count(r.Run("log", "-T", "x"), "x"); got != tt.want {
				t.Errorf("%d changesets, want %d", got, tt.want)
			}
			growOn(t, h, r)
		})
	}
}

func growOn(t *testing.T, h, r *hgtest.HG) {
	t.Helper()
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Stock: true})
	manifestNode, err := hg.ParseNode(r.Run("log", "-r", "tip", "-T", "{manifest % '{node}'}"))
	if err != nil {
		t.Fatal(err)
	}
	text := r.Run("debugdata", "-m", manifestNode.String())
	tip := NewTip(r.Node("tip"), manifestNode, []byte(text), "default", "pushed/file")
	other := tip.Fork("other", "pushed/again")
	for _, bundle := range [][]byte{Together([]*Tip{tip, other}, "one"), tip.Grow("two"), other.Grow("three")} {
		a, err := s.Client("r").Unbundle(t.Context(), hgtest.Force, bundle)
		if err != nil {
			t.Fatal(err)
		}
		if reply, err := hgtest.ParseReply(a); err != nil || reply.Return == 0 || reply.Error != "" {
			t.Fatalf("push: %+v, %v", reply, err)
		}
	}
	r.Verify()
	if got := r.Run("log", "-r", "tip", "-T", "{node} {branch} {files}"); got != other.Node.String()+" other pushed/again" {
		t.Errorf("tip = %s", got)
	}
}
