package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// refused are the repositories of testdata/repos that vcsd doesn't serve, and
// the requirement that it names.
var refused = map[string]string{
	"treemanifest": "treemanifest",
	"lfs":          "lfs",
	"nostore":      "store",
}

// readable lets every client open every repository, and keeps phases as they are.
var readable = []string{"phases.publish=no", "extensions.lfs=", "storage.revlog.persistent-nodemap.slow-path=allow", "experimental.evolution=all"}

// serveRepos serves all of testdata/repos, each under its name.
func serveRepos(t *testing.T) (*hgtest.Server, *hgtest.HG) {
	t.Helper()
	h := hgtest.New(t)
	for _, name := range hgtest.Repos(t) {
		if err := hgtest.CopyTree(hgtest.Repo(t, name), filepath.Join(h.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: readable})
	return s, h.With(readable...)
}

// TestCloneEveryRepo clones what stock hg made, in all its forms, by changegroup
// and by stream, and compares with what the server's store holds.
func TestCloneEveryRepo(t *testing.T) {
	s, h := serveRepos(t)
	out := t.TempDir()
	for _, name := range hgtest.Repos(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, url := h.For(t), s.URL+"/"+name
			if word, ok := refused[name]; ok && !s.Stock {
				if msg := h.Fail("clone", "-U", url, filepath.Join(out, "refused")); !strings.Contains(msg, word) {
					t.Errorf("clone does not name the requirement %q: %s", word, msg)
				}
				return
			}
			if strings.HasPrefix(name, "abandoned") && s.Stock {
				return // stock hg serves what is there; nobody rolled it back
			}
			want := served(h.In(name))
			for _, kind := range []string{"--pull", "--stream"} {
				clone := h.In(filepath.Join(out, name+kind))
				h.Run("clone", "-q", "-U", kind, url, clone.Dir)
				if name != "censored" { // which hg verify calls damaged
					clone.Verify()
				}
				if got := clone.Describe(); got != want {
					t.Errorf("clone %s has\n%s\nwant\n%s", kind, got, want)
				}
			}
		})
	}
}

// served describes what of a repository others may see: nothing secret, and no
// divergent bookmarks.
func served(r *hgtest.HG) string {
	var lines []string
	for _, line := range strings.SplitAfter(r.Describe(), "\n") {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "secret" || len(f) == 3 && f[0] == "bookmark" && strings.Index(f[1], "@") > 0 {
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

// TestPushEveryRepo pushes every repository whole into an empty one and
// compares both, and the size of the store with the one that hg makes of the
// same push.
func TestPushEveryRepo(t *testing.T) {
	h := hgtest.New(t).With(readable...)
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: readable})
	ref := hgtest.New(t).With(readable...)
	stock := hgtest.Serve(t, hgtest.ServerOptions{Root: ref.Dir, Config: readable, Stock: true})
	for _, name := range hgtest.Repos(t, "treemanifest", "lfs", "empty", "censored", "abandoned", "abandoned-pull") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, ref := h.For(t), ref.For(t)
			from := h.In(hgtest.Repo(t, name))
			sizes := map[string]int64{}
			for _, to := range []struct {
				hg *hgtest.HG
				s  *hgtest.Server
			}{{h, s}, {ref, stock}} {
				to.hg.Run("init", name)
				from.Run("push", "-q", "-f", "--new-branch", to.s.URL+"/"+name)
				sizes[to.s.URL] = revlogBytes(t, to.s.Repo(name))
			}
			h.In(name).Verify()
			got, want := h.In(name).Describe(), ref.In(name).Describe()
			if got != want {
				t.Errorf("vcsd has\n%s\nstock hg has\n%s", got, want)
			}
			mine, theirs := sizes[s.URL], sizes[stock.URL]
			if float64(mine) > 1.05*float64(theirs)+1024 {
				t.Errorf("store of %d bytes, hg makes %d", mine, theirs)
			}
			t.Logf("store of %d bytes, %.3f of hg's", mine, float64(mine)/float64(theirs))
		})
	}
}

// revlogBytes adds up the revlogs of a store.
func revlogBytes(t *testing.T, repo string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(repo, ".hg", "store"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".i") && !strings.HasSuffix(path, ".d") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRandomHistories pushes random histories in random pieces and compares
// with what stock hg makes of the same pushes.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			from := hgtest.New(t)
			hgtest.History{Seed: seed, Steps: 60}.Make(t, from)
			h, ref := hgtest.New(t), hgtest.New(t)
			h.Run("init", "r")
			ref.Run("init", "r")
			s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir})
			stock := hgtest.Serve(t, hgtest.ServerOptions{Root: ref.Dir, Stock: true})
			n := len(from.Nodes("all()"))
			for to := 0; to < n; to += 1 + n/4 {
				for _, url := range []string{s.URL, stock.URL} {
					from.Run("push", "-q", "-f", "--new-branch", "-r", fmt.Sprint(to), url+"/r")
				}
			}
			for _, url := range []string{s.URL, stock.URL} {
				from.Run("push", "-q", "-f", "--new-branch", url+"/r")
			}
			s.Stop()
			h.In("r").Verify()
			if got, want := h.In("r").Describe(), ref.In("r").Describe(); got != want {
				t.Errorf("vcsd has\n%s\nstock hg has\n%s", got, want)
			}
		})
	}
}
