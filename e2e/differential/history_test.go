package differential

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A subject is a served repository and what there is to ask about.
type subject struct {
	repo  string // its name
	model *model
	shown []hg.Node // visible changesets
	all   []hg.Node // and hidden ones
	names []string  // everything that lookup may be asked for
}

// makeHistory makes a random repository with all that a history has: besides
// what hgtest makes, secret changesets, tags moved and removed, local tags, odd
// names, a working directory, and hidden changesets if evolution is on.
func makeHistory(t *testing.T, dir string, seed uint64, evolution bool) {
	t.Helper()
	h := hgtest.New(t).In(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	hgtest.History{Seed: seed, Steps: 45, Evolution: evolution}.Make(t, h)
	rng := rand.New(rand.NewPCG(seed, 2))
	s := h.Session()
	revs := strings.Fields(s.Run("log", "-r", "all()", "-T", "{rev}\n"))
	rev := func() string { return revs[rng.IntN(len(revs))] }
	s.Try("update", "-q", "-C", rev())
	for range 3 {
		s.Try("tag", "-q", "-f", "-r", rev(), "moved")
	}
	s.Try("tag", "-q", "-r", rev(), "gone")
	s.Try("tag", "-q", "--remove", "gone")
	s.Try("tag", "-q", "-l", "-r", rev(), "local tag")
	for name := range strings.Lines(s.Run("bookmarks", "-T", "{ifeq(node, '0000000000000000000000000000000000000000', '{bookmark}\n')}")) {
		// vcsd takes a bookmark on nothing for none at all.
		s.Run("bookmark", "-q", "-d", strings.TrimSuffix(name, "\n"))
	}
	s.Try("bookmark", "-q", "-r", rev(), "feature@remote")
	s.Try("bookmark", "-q", "-r", rev(), "ünï ✓ %41&b=c+d")
	s.Try("bookmark", "-q", "-r", rev(), "moved")
	s.Try("bookmark", "-q", "-r", rev(), "abc")
	s.Try("branch", "-q", "-f", "sub/b ä;,=:")
	s.Try("commit", "-q", "-m", "odd branch")
	s.Try("update", "-q", "-C", rev())
	secret := "last(draft())"
	if rng.IntN(2) == 0 {
		secret = fmt.Sprintf("first(sort(draft() and not merge(), -rev), %d) - first(sort(draft(), -rev))", 2+rng.IntN(6))
	}
	s.Try("phase", "-q", "-f", "-s", "-r", secret)
	s.Try("tag", "-q", "-l", "-r", "last(secret())", "on secret")
	s.Try("bookmark", "-q", "-r", "last(secret())", "secret mark")
	s.Try("update", "-q", "-C", []string{"null", rev(), "last(secret())"}[rng.IntN(3)])
	if evolution {
		s.Try("debugobsolete", h.Node("last(draft())").String())
	}
}

// newSubject reads what there is to ask about from hg itself.
func (p *pair) newSubject(t *testing.T, repo string) *subject {
	t.Helper()
	h := hgtest.New(t).In(filepath.Join(p.root, repo))
	s := &subject{repo: repo, model: p.readModel(t, repo)}
	s.shown = s.model.nodes()
	for _, line := range strings.Fields(h.Run("log", "--hidden", "-T", "{node}\n")) {
		n, err := hg.ParseNode(line)
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, n)
	}
	s.names = []string{"", " ", "tip", "null", ".", "default", "gone", "moved", "local tag", "on secret", "secret mark",
		"feature@remote", "ünï ✓ %41&b=c+d", "sub/b ä;,=:", "\xff\xfe", "a\x00b", "rev(0)", "0::", "tip^", "-0", "+1", "007", "1 ", "1_0",
		"99999999999999999999", "2147483647", "-2147483648", "nosuch", "Default", "%s", "nul", strings.Repeat("f", 40), strings.Repeat("F", 40),
		strings.Repeat("0", 40), strings.Repeat("0", 39), "ffff", "f", "abc", "x0", "wdir()", "é", strings.Repeat("long", 300)}
	for _, args := range [][]string{{"tags", "-T", "{tag}\n"}, {"bookmarks", "-T", "{bookmark}\n"}, {"branches", "-c", "-T", "{branch}\n"}} {
		for line := range strings.Lines(h.Run(args...)) {
			s.names = append(s.names, strings.TrimSuffix(line, "\n"))
		}
	}
	return s
}
