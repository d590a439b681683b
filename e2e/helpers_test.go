package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// site is a served repository "r" and what a test needs around it.
type site struct {
	*hgtest.Server
	hg     *hgtest.HG // in the root
	client *hgtest.Client
}

// newSite serves an empty repository "r".
func newSite(t *testing.T, config ...string) *site {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init", "r")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: config})
	return &site{s, h, s.Client("r")}
}

// restart starts the server after a kill and follows it to its new port.
func (s *site) restart() {
	s.Start()
	s.client.URL = s.URL + "/r"
}

// push posts a bundle2 push and decodes the answer.
func (s *site) push(ctx context.Context, parts ...hgtest.Part) (hgtest.Reply, error) {
	return s.post(ctx, hgtest.Bundle2(parts...))
}

func (s *site) post(ctx context.Context, bundle []byte) (hgtest.Reply, error) {
	a, err := s.client.Unbundle(ctx, hgtest.Force, bundle)
	if err != nil {
		return hgtest.Reply{}, err
	}
	if a.Status != 200 {
		return hgtest.Reply{}, fmt.Errorf("status %d: %.200q", a.Status, a.Body)
	}
	return hgtest.ParseReply(a)
}

// mustPush pushes what has to be taken.
func (s *site) mustPush(t *testing.T, parts ...hgtest.Part) {
	t.Helper()
	r, err := s.push(t.Context(), parts...)
	if err != nil || r.Return == 0 || r.Error != "" {
		t.Fatalf("push: reply %+v, error %v", r, err)
	}
}

// checkStore verifies the store, after the server was stopped, and that the
// heads there are those of want.
func (s *site) checkStore(t *testing.T, want []hg.Node) {
	t.Helper()
	r := s.hg.In("r")
	r.Verify()
	got := r.Nodes("heads(all())")
	if fmt.Sprint(hgtest.SortedNodes(got)) != fmt.Sprint(hgtest.SortedNodes(want)) {
		t.Errorf("%d heads in the store, want %d:\n got %v\nwant %v", len(got), len(want), got, want)
	}
}

// records counts the commit records of vcsd's journal.
func (s *site) records(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Repo("r"), ".hg", "vcsd", "journal", "*.rec"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// quarantined lists the files that stand in the quarantine, but for locks.
func (s *site) quarantined(t *testing.T) []string {
	t.Helper()
	// A client that went away doesn't wait for what its push leaves to be
	// removed.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		if names := s.inQuarantine(t); len(names) == 0 || time.Now().After(end) {
			return names
		}
	}
}

func (s *site) inQuarantine(t *testing.T) []string {
	t.Helper()
	var names []string
	top := filepath.Join(s.Repo("r"), ".hg", "vcsd", "quarantine")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case !d.IsDir() && !strings.HasSuffix(path, "lock"):
			names = append(names, strings.TrimPrefix(path, top))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
