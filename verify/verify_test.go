package verify_test

import (
	"slices"
	"testing"

	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/verify"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// run verifies the repository in dir and returns what was found.
func run(t *testing.T, dir string, o verify.Options) (verify.Counts, []verify.Finding) {
	t.Helper()
	var found []verify.Finding
	o.Report = func(f verify.Finding) { found = append(found, f) }
	c, err := verify.Run(t.Context(), vfs.NewOS(dir+"/.hg"), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Findings != len(found) {
		t.Errorf("%d findings counted, %d reported", c.Findings, len(found))
	}
	return c, found
}

// unserved are the repositories of testdata that vcsd refuses to open.
var unserved = []string{"treemanifest", "lfs", "nostore"}

// What hg made is sound, looked at whole, by sample, and with the least memory.
func TestSoundRepositories(t *testing.T) {
	for _, name := range hgtest.Repos(t, append(unserved, "abandoned", "abandoned-pull")...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hgtest.Repo(t, name)
			whole, found := run(t, dir, verify.Options{})
			for _, f := range found {
				t.Error(f)
			}
			for _, o := range []verify.Options{{Sample: 1}, {Sample: 3, Seed: 7}, {MaxNames: 40}} {
				c, found := run(t, dir, o)
				for _, f := range found {
					t.Errorf("%+v: %s", o, f)
				}
				if o.Sample == 0 {
					c.Took = whole.Took
					if !slices.Equal(c.Notes, whole.Notes) || c.Files != whole.Files || c.FileRevisions != whole.FileRevisions || c.Manifests != whole.Manifests {
						t.Errorf("MaxNames 40: %+v, want %+v", c, whole)
					}
				}
			}
		})
	}
}

func TestAbandonedTransaction(t *testing.T) {
	for _, name := range []string{"abandoned", "abandoned-pull"} {
		_, found := run(t, hgtest.Repo(t, name), verify.Options{})
		for _, f := range found {
			t.Log(f)
		}
		if !slices.ContainsFunc(found, func(f verify.Finding) bool { return f.Remedy == "hg recover" }) {
			t.Errorf("%s: no finding has the remedy hg recover: %v", name, found)
		}
	}
}
