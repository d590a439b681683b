package e2e

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"golang.org/x/sync/errgroup"
)

var (
	pushers = flag.Int("pushers", 64, "pushes at once in the storm tests")
	rounds  = flag.Int("rounds", 1, "pushes one after the other by each of them")
)

// crowd is a history of which each pusher pushes a line of its own: bundles
// made by hg, and the nodes they bring.
type crowd struct {
	base    []byte // changegroup of what all build upon
	bundles [][][]byte
	nodes   [][]hg.Node
}

// newCrowd makes one base changeset for all, then for each pusher one
// changeset on its branch, which belongs to the base push too, and rounds
// further ones. branch gives the branch of a pusher.
func newCrowd(t *testing.T, branch func(pusher int) string) *crowd {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init")
	h.Commit("root", map[string]string{"root": "root\n"})
	s := h.Session()
	c := &crowd{bundles: make([][][]byte, *pushers), nodes: make([][]hg.Node, *pushers)}
	for p := range *pushers {
		s.Run("update", "-q", "0")
		s.Run("branch", "-q", "-f", branch(p))
		for k := range *rounds + 1 {
			h.Write(fmt.Sprintf("dir%d/file%d", p%7, p), fmt.Sprintf("pusher %d, text %d\n", p, k))
			s.Run("commit", "-q", "-A", "-m", fmt.Sprintf("pusher %d, changeset %d", p, k))
		}
	}
	nodes := h.Nodes("sort(all(), rev)")
	for p := range *pushers {
		first := 1 + p*(*rounds+1)
		for k := range *rounds + 1 {
			rev := strconv.Itoa(first + k)
			c.nodes[p] = append(c.nodes[p], nodes[first+k])
			if k == 0 {
				continue
			}
			push := hgtest.PushParts([]hg.Node{c.nodes[p][k-1]}, s.Changegroup(rev, strconv.Itoa(first+k-1)))
			c.bundles[p] = append(c.bundles[p], hgtest.Bundle2(push...))
		}
	}
	firsts := "0"
	for p := range *pushers {
		firsts += "+" + strconv.Itoa(1+p*(*rounds+1))
	}
	c.base = s.Changegroup(firsts)
	return c
}

// TestStormOnBranches: pushers who each move a branch of their own don't
// disturb one another, and their commits are grouped.
func TestStormOnBranches(t *testing.T) {
	c := newCrowd(t, func(p int) string { return fmt.Sprintf("branch%d", p) })
	s := newSite(t)
	s.mustPush(t, hgtest.PushParts(nil, c.base)...)
	before := s.records(t)
	s.storm(t, c)
	pushes := *pushers * *rounds
	if n := s.records(t) - before; !s.Stock && pushes >= 16 && n >= pushes {
		t.Errorf("%d commit records for %d pushes: none were grouped", n, pushes)
	} else {
		t.Logf("%d commit records for %d pushes", n, pushes)
	}
	s.finish(t, c)
}

// TestStormOfHeads: pushers who each add to a head of one branch. Each
// updates another head, so there is no race, and no head is lost.
func TestStormOfHeads(t *testing.T) {
	c := newCrowd(t, func(int) string { return "default" })
	s := newSite(t)
	s.mustPush(t, hgtest.PushParts(nil, c.base)...)
	s.storm(t, c)
	s.finish(t, c)
}

// storm lets all pushers push at once; each push must be answered as taken.
func (s *site) storm(t *testing.T, c *crowd) {
	t.Helper()
	start := time.Now()
	var g errgroup.Group
	for p := range c.bundles {
		g.Go(func() error {
			for k, b := range c.bundles[p] {
				if r, err := s.post(t.Context(), b); err != nil || r.Return != 1 || r.Error != "" {
					return fmt.Errorf("pusher %d, push %d: reply %+v, error %w", p, k, r, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	n, d := *pushers**rounds, time.Since(start)
	t.Logf("%d pushes in %v: %.1f a second", n, d.Round(time.Millisecond), float64(n)/d.Seconds())
}

// finish checks that everybody's last changeset is a head, on the wire and in
// the store.
func (s *site) finish(t *testing.T, c *crowd) {
	t.Helper()
	var want []hg.Node
	for _, line := range c.nodes {
		want = append(want, line[len(line)-1])
	}
	if got := s.client.Heads(); fmt.Sprint(hgtest.SortedNodes(got)) != fmt.Sprint(hgtest.SortedNodes(want)) {
		t.Errorf("server shows %d heads, want %d", len(got), len(want))
	}
	s.Stop()
	s.checkStore(t, want)
}

// TestStormOnOneHead: all update the same head, as clients do that have pulled
// at the same time. One wins; all others are told of the race in hg's words.
// The next round builds upon the winner.
func TestStormOnOneHead(t *testing.T) {
	s := newSite(t)
	head := hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})
	s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(head))...)
	for round := range min(*rounds+1, 8) {
		head = s.contest(t, head, round)
	}
	s.Stop()
	s.checkStore(t, []hg.Node{head.Node()})
}

// contest lets all pushers replace one head and returns the winner's.
func (s *site) contest(t *testing.T, head *hgtest.Changeset, round int) *hgtest.Changeset {
	t.Helper()
	const raced = "remote repository changed while pushing - please try again"
	mine := make([]*hgtest.Changeset, *pushers)
	replies := make([]hgtest.Reply, *pushers)
	var g errgroup.Group
	for p := range mine {
		mine[p] = hgtest.NewChangeset(head, "", fmt.Sprintf("round %d, pusher %d", round, p), map[string]string{"f": fmt.Sprintf("%d %d\n", round, p)})
		g.Go(func() (err error) {
			replies[p], err = s.push(t.Context(), hgtest.PushParts([]hg.Node{head.Node()}, hgtest.ChangegroupOf(mine[p]))...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var winner *hgtest.Changeset
	for p, r := range replies {
		switch {
		case r.Error == "" && r.Return == 1 && winner == nil:
			winner = mine[p]
		case r.Error == "pushraced" && r.Reason == raced:
		default:
			t.Errorf("round %d, pusher %d: reply %+v", round, p, r)
		}
	}
	if winner == nil {
		t.Fatalf("round %d: nobody won", round)
	}
	if got := s.client.Heads(); len(got) != 1 || got[0] != winner.Node() {
		t.Errorf("round %d: heads %v, want %v", round, got, winner.Node())
	}
	return winner
}
