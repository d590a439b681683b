package hgtest

import (
	"strings"
	"testing"
)

// The archives hold what state.txt says, as hg sees it.
func TestReposAreAsDescribed(t *testing.T) {
	h := New(t)
	for _, name := range Repos(t) {
		t.Run(name, func(t *testing.T) {
			r := h.For(t).In(Repo(t, name))
			if strings.HasPrefix(name, "abandoned") {
				if out := r.Run("recover", "--no-verify"); !strings.Contains(out, "rolling back interrupted transaction") {
					t.Errorf("hg does not notice the abandoned transaction: %s", out)
				}
			}
			got := strings.Fields(r.With("extensions.lfs=").Run("log", "--hidden", "-r", "sort(all(), rev)", "-T", "{node}\n"))
			var want []string
			for _, line := range RepoState(t, name) {
				if f := strings.Fields(line); len(f) > 3 && len(f[1]) == 40 && len(f[0]) < 10 {
					want = append(want, f[1])
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("nodes = %v, want %v", got, want)
			}
		})
	}
}
