package differential

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/hgtest"
)

// TestPulls lets the real client pull random parts of a history, round by
// round, from both servers: two clones that took the same steps are equal.
func TestPulls(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	makeHistory(t, filepath.Join(root, "r"), *seed+5, false)
	appendHgrc(t, filepath.Join(root, "r"), "[phases]\npublish = no\n")
	p := servePair(t, root)
	s := p.newSubject(t, "r")
	rng := rand.New(rand.NewPCG(*seed, 4))
	h := hgtest.New(t)
	stock, vcsd := h.In("stock"), h.In("vcsd")
	h.Run("init", "stock")
	h.Run("init", "vcsd")
	for round := range 3 {
		args := []string{"pull", "-q", "-f"}
		for range 1 + rng.IntN(3) {
			args = append(args, "-r", s.shown[rng.IntN(len(s.shown))].String())
		}
		if round == 2 {
			args = args[:3] // all the rest
		}
		config := []string{"devel.legacy.exchange=", "devel.legacy.exchange=phases", "devel.legacy.exchange=bookmarks", "devel.legacy.exchange=bundle1"}[rng.IntN(4)]
		stock.With(config).Run(append(args, p.stock.URL+"/r")...)
		vcsd.With(config).Run(append(args, p.vcsd.URL+"/r")...)
		if want, got := stock.Describe(), vcsd.Describe(); want != got {
			t.Fatalf("round %d, %s, %q\n got %s\nwant %s", round, config, args, got, want)
		}
	}
	stock.Verify()
	vcsd.Verify()
}

// TestUnbundle gives vcsd's bundles to hg unbundle, in both forms.
func TestUnbundle(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	makeHistory(t, filepath.Join(root, "r"), *seed+6, false)
	p := servePair(t, root)
	tests := []struct {
		name, magic string
		args        hgtest.Args
	}{
		{"bundle1", "HG10UN", hgtest.Args{}},
		{"bundle2 with changegroup 01", "", hgtest.Args{"bundlecaps": bundleCaps("01", "phases=heads"), "phases": "1"}},
		{"bundle2 with changegroup 02", "", hgtest.Args{"bundlecaps": bundleCaps("01,02", "phases=heads"), "phases": "1"}},
	}
	var want string
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, data, err := decodeStream(p.do(p.vcsd.URL, request{repo: "r", command: "getbundle", args: tt.args}))
			if err != nil {
				t.Fatal(err)
			}
			h := hgtest.New(t)
			file := filepath.Join(h.Dir, "bundle")
			if err := os.WriteFile(file, append([]byte(tt.magic), data...), 0o644); err != nil {
				t.Fatal(err)
			}
			h.Run("init", "into")
			into := h.In("into")
			into.Run("unbundle", "-q", file)
			into.Run("phase", "-q", "-p", "all()") // bundle1 tells none
			into.Verify()
			if got := into.Describe(); want == "" {
				want = got
			} else if got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}
