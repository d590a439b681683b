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
	s.Try("bookmark", "-q", "-r", "null", "nowhere")
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
		addMarkers(s, rng)
	}
}

// addMarkers prunes and replaces some changesets, and tells of some that are
// not there.
func addMarkers(s *hgtest.Session, rng *rand.Rand) {
	drafts := strings.Fields(s.Run("log", "-r", "draft()", "-T", "{node}\n"))
	all := strings.Fields(s.Run("log", "-r", "all()", "-T", "{node}\n"))
	unknown := func() string { return strings.Repeat(fmt.Sprintf("%02x", 16+rng.IntN(3)), hg.NodeLen) }
	node := func() string { return all[rng.IntN(len(all))] }
	for i := range 12 {
		args := [][]string{{unknown(), node()}, {node(), unknown()}, {unknown(), node(), node()}, {unknown()}, {unknown(), unknown()}}[rng.IntN(5)]
		if i < 5 && len(drafts) > 0 {
			args = [][]string{{drafts[rng.IntN(len(drafts))]}, {"--record-parents", drafts[rng.IntN(len(drafts))]}, {drafts[rng.IntN(len(drafts))], node()}}[rng.IntN(3)]
		}
		s.Try(append([]string{"debugobsolete", "-u", fmt.Sprint("user", i), "-d", fmt.Sprintf("%d.5 -3600", 1_600_000_000+i)}, args...)...)
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
	s.names = []string{"", " ", "tip", "null", ".", "default", "gone", "moved", "local tag", "nowhere", "on secret", "secret mark",
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
