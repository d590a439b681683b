package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"golang.org/x/sync/errgroup"
)

var (
	clones     = flag.Int("clones", 200, "identical clones at once")
	streamTime = flag.Duration("streamtime", 6*time.Second, "how long to push while a stream clone starts every second")
)

// freeAddress returns an address of this machine that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// pulls reads how answers to getbundle came about, by source.
func pulls(t *testing.T, admin string) map[string]int {
	t.Helper()
	resp, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^vcsd_pulls_total\{source="(\w+)"\} (\d+)$`).FindAllStringSubmatch(string(b), -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}

// longHistory makes a public repository "r" with n changesets.
func longHistory(t *testing.T, n int) *hgtest.HG {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init", "r")
	r := h.In("r")
	r.Run("debugbuilddag", "-m", "-n", fmt.Sprintf("+%d", n))
	r.Run("phase", "--public", "-r", "all()")
	return h
}

// cloneArgs are what hg sends to clone.
func cloneArgs(heads []hg.Node) hgtest.Args {
	caps := "HG20%0Abookmarks%0Achangegroup%3D01%2C02%0Ahgtagsfnodes%0Alistkeys%0Aphases%3Dheads"
	return hgtest.Args{"bundlecaps": "HG20,bundle2=" + caps, "cg": "1", "common": hg.NullNode.String(), "heads": hgtest.JoinNodes(heads),
		"phases": "1", "bookmarks": "1", "listkeys": "bookmarks"}
}

// TestClonesAtOnce: identical clones that come together are computed once.
func TestClonesAtOnce(t *testing.T) {
	h := longHistory(t, 400)
	admin := freeAddress(t)
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: []string{"vcsd.pull-bundles=0", "vcsd.admin-address=" + admin}})
	if s.Stock {
		t.Skip("stock hg computes each one")
	}
	c := s.Client("r")
	c.Proto = hgtest.ProtoV2
	args := cloneArgs(c.Heads())
	answers := make([][]byte, *clones)
	var g errgroup.Group
	for i := range answers {
		g.Go(func() error {
			a, err := c.Send(t.Context(), "getbundle", args, nil)
			if err != nil {
				return err
			}
			answers[i], err = a.Payload()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if !bytes.Equal(a, answers[0]) || len(a) == 0 {
			t.Fatalf("answer %d of %d bytes differs from the first of %d", i, len(a), len(answers[0]))
		}
	}
	if got := pulls(t, admin); got["computed"] != 1 || got["joined"] != *clones-1 {
		t.Errorf("%d clones: %v, want one computation", *clones, got)
	}
	h.Run("clone", s.URL+"/r", "clone")
	h.In("clone").Verify()
	if got, want := h.In("clone").Describe(), h.In("r").Describe(); got != want {
		t.Errorf("clone:\n%s\nwant:\n%s", got, want)
	}
}

// TestBundlesMadeAhead clones from bundles that the server made by itself, with
// the real hg, in all ways that it reads bundles.
func TestBundlesMadeAhead(t *testing.T) {
	h := longHistory(t, 600)
	r := h.In("r")
	r.Run("update", "-q")
	admin := freeAddress(t)
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: []string{"vcsd.pull-bundles=100", "vcsd.admin-address=" + admin}})
	if s.Stock {
		t.Skip("stock hg makes none")
	}
	url := s.URL + "/r"
	s.Client("r").Heads() // opens the repository
	waitForBundles(t, r.Dir, 1)
	check := func(name string, prepared int, args ...string) *hgtest.HG {
		t.Helper()
		before := pulls(t, admin)["prepared"]
		h.Run(append([]string{"clone", "-U", url, name}, args...)...)
		if n := pulls(t, admin)["prepared"] - before; n != prepared {
			t.Errorf("%s: %d answers from bundles made ahead, want %d", name, n, prepared)
		}
		c := h.In(name)
		c.Verify()
		return c
	}
	same := func(c *hgtest.HG) {
		t.Helper()
		if got, want := c.Describe(), r.Describe(); got != want {
			t.Errorf("clone:\n%s\nwant:\n%s", got, want)
		}
	}
	same(check("whole", 1))

	// With a rest, and bookmarks in it.
	for i := range 3 {
		r.Commit(fmt.Sprint("more ", i), map[string]string{"more": fmt.Sprint(i)})
		r.Run("bookmark", "-f", fmt.Sprint("mark", i))
	}
	r.Run("phase", "--public", "-r", "all()")
	same(check("tail", 1))
	h.Run("init", "empty")
	if n := strings.Count(h.In("empty").Run("incoming", "-q", url), "\n"); n != 603 {
		t.Errorf("hg incoming lists %d changesets, want 603", n)
	}
	old := check("old", 0, "-r", "5")
	old.Run("pull", "-q", url)
	same(old)
	old.Verify()

	// What became secret is not served, nor is the bundle that has it.
	r.Run("phase", "--secret", "--force", "-r", "590")
	c := check("wary", 0)
	if n := len(c.Nodes("all()")); n != 590 {
		t.Errorf("%d changesets, want 590", n)
	}
	s.Stop()
}

// waitForBundles waits until the server has made n bundles.
func waitForBundles(t *testing.T, repo string, n int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); ; <-tick.C {
		b, err := os.ReadFile(filepath.Join(repo, ".hg", "vcsd", "cache", "bundles", "index"))
		if err == nil && bytes.Count(b, []byte(`"Name"`)) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("there are not %d bundles: %.200q, %v", n, b, err)
		}
	}
}

// TestStreamsWhilePushing stream-clones again and again while others push. Each
// clone has to be a whole repository.
func TestStreamsWhilePushing(t *testing.T) {
	const pushes = 40 // by each pusher
	s := newSite(t, "phases.publish=no")
	root := hgtest.NewChangeset(nil, "", "root", map[string]string{"root": "root\n"})
	s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(root))...)
	ctx, cancel := context.WithTimeout(t.Context(), *streamTime)
	defer cancel()
	var g errgroup.Group
	crowd := min(*pushers, 32)
	for p := range crowd {
		g.Go(func() error { return s.pushLine(ctx, t, root, p, *streamTime/pushes) })
	}
	var cloners errgroup.Group
	var names []string
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		name := fmt.Sprint("stream", len(names))
		clone := s.cloneStream
		if len(names)%4 == 3 {
			clone = s.cloneV1
		}
		cloners.Go(func() error { return clone(t.Context(), name) })
		names = append(names, name)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if err := errors.Join(g.Wait(), cloners.Wait()); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, name := range names {
		c := s.hg.In(name)
		c.Verify()
		sizes = append(sizes, len(c.Nodes("all()")))
	}
	t.Logf("%d stream clones with %v changesets, %d pushers", len(names), sizes, crowd)
	if sizes[len(sizes)-1] <= sizes[0] {
		t.Errorf("nothing was pushed meanwhile: %v", sizes)
	}
}

// cloneStream has hg make a stream clone.
func (s *site) cloneStream(_ context.Context, name string) error {
	return s.hg.Try("clone", "-q", "-U", "--stream", s.URL+"/r", name).Err()
}

// cloneV1 makes a repository of a stream of version 1, by way of a file. hg
// 6.3.2 under Python 3.11 reads such streams wrongly from a connection, whoever
// serves them: it loses the beginning of a line at the end of its buffer.
func (s *site) cloneV1(ctx context.Context, name string) error {
	caps, err := s.client.Send(ctx, "capabilities", nil, nil)
	if err != nil {
		return err
	}
	stream, err := s.client.Send(ctx, "stream_out", nil, nil)
	if err != nil {
		return err
	}
	reqs := regexp.MustCompile(`\bstreamreqs=(\S+)`).FindSubmatch(caps.Body)
	var code, count, size uint64
	head, _, _ := bytes.Cut(stream.Body, []byte{0})
	if _, err := fmt.Sscanf(string(head), "%d\n%d %d\n", &code, &count, &size); reqs == nil || err != nil || code != 0 {
		return fmt.Errorf("stream_out: code %d, %w; capabilities %s", code, err, caps.Body)
	}
	b := []byte("HGS1UN")
	b = binary.BigEndian.AppendUint64(b, count)
	b = binary.BigEndian.AppendUint64(b, size)
	b = binary.BigEndian.AppendUint16(b, uint16(len(reqs[1])+1))
	b = append(append(b, reqs[1]...), 0)
	files := bytes.SplitN(stream.Body, []byte("\n"), 3)[2]
	s.hg.Write(name+".hgs1", string(append(b, files...)))
	if err := s.hg.Try("init", name).Err(); err != nil {
		return err
	}
	return s.hg.In(name).Try("debugapplystreamclonebundle", "../"+name+".hgs1").Err()
}

// pushLine pushes one changeset after the other until ctx ends.
func (s *site) pushLine(ctx context.Context, t *testing.T, root *hgtest.Changeset, p int, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	head := root
	for k := 0; ctx.Err() == nil; k++ {
		text := strings.Repeat(fmt.Sprintf("pusher %d, text %d\n", p, k), 1+k*97%400)
		next := hgtest.NewChangeset(head, fmt.Sprint("branch", p), fmt.Sprintf("pusher %d, changeset %d", p, k),
			map[string]string{fmt.Sprintf("dir%d/file%d-%d", p%7, p, k%5): text})
		var updates []hg.Node
		if k > 0 {
			updates = []hg.Node{head.Node()}
		}
		r, err := s.push(t.Context(), hgtest.PushParts(updates, hgtest.ChangegroupOf(next))...)
		if err != nil || r.Error != "" {
			return fmt.Errorf("pusher %d, push %d: reply %+v, error %w", p, k, r, err)
		}
		head = next
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}
