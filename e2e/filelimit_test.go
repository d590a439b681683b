package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// TestFileLimit pushes to a server that may not write files larger than some
// size (ulimit -f): what doesn't fit is refused in words, leaves nothing, and
// everything else goes on.
func TestFileLimit(t *testing.T) {
	if hgtest.UseStock() {
		return // it dies of the signal, or answers 500
	}
	h := hgtest.New(t)
	h.Run("init", "srv/r")
	// Another process of the user, without the limit, was there before.
	state := "XDG_STATE_HOME=" + t.TempDir()
	hgtest.Serve(t, hgtest.ServerOptions{Root: filepath.Join(h.Dir, "srv"), Env: []string{state}}).Stop()
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: filepath.Join(h.Dir, "srv"), Env: []string{state}, MaxFileBytes: 600 << 10})
	url := s.URL + "/r"
	c := h.In("client")
	h.Run("init", "client")
	rng := rand.New(rand.NewPCG(29, 0))
	refused := func(what string) {
		t.Helper()
		msg := c.Fail("push", "-r", ".", url)
		if !strings.Contains(msg, "a file would get larger than the server may write") || strings.Contains(msg, "HTTP Error") {
			t.Errorf("%s: the client is told %q", what, msg)
		}
		c.Run("update", "-q", "-r", ".^")
		c.Run("phase", "-fs", "tip") // stays here
	}

	c.Commit("small", map[string]string{"f": "one\n"})
	c.Run("push", url)
	c.Commit("a large file", map[string]string{"large": incompressible(rng, 2_000_000)})
	refused("a large file")

	// No push is large, but the log that they go to.
	for n := 0; ; n++ {
		if n == 20 {
			t.Fatalf("%d pushes of 100,000 bytes to one file were taken", n)
		}
		c.Commit(fmt.Sprint("more ", n), map[string]string{"grows": incompressible(rng, 100_000)})
		if r := c.Try("push", "-r", ".", url); r.Code != 0 {
			break
		}
	}
	refused("a log that grew")

	c.Commit("small again", map[string]string{"f": "two\n"})
	c.Run("push", "-r", ".", url)
	for _, kind := range []string{"--pull", "--stream"} {
		h.Run("clone", "-q", "-U", kind, url, "clone"+kind)
		clone := h.In("clone" + kind)
		clone.Verify()
		if got, want := clone.Node("tip"), c.Node("."); got != want {
			t.Errorf("clone %s: tip %s, want %s", kind, got, want)
		}
	}
	s.Stop()
	s.Start() // the records since the checkpoint, if any
	c.Commit("after a restart", map[string]string{"f": "three\n"})
	c.Run("push", "-r", ".", s.URL+"/r")
	h.In("srv/r").Verify()
}
