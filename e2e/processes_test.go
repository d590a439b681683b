package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// machine is several processes that serve the same repositories.
type machine struct {
	hg    *hgtest.HG
	state string
	lines []*line
}

// serve starts one more process, with a configuration of its own.
func (m *machine) serve(t *testing.T, config ...string) *site {
	t.Helper()
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: m.hg.Dir, Config: config, Args: []string{"--state", m.state}})
	return &site{s, m.hg, s.Client("r")}
}

// storm pushes on all lines, each time to any of sites, while something
// happens. A process that gives no answer, or is about to end, is not asked again.
func (m *machine) storm(t *testing.T, sites []*site, happens func()) {
	t.Helper()
	var g errgroup.Group
	begun := make(chan struct{}, len(m.lines))
	for _, l := range m.lines {
		g.Go(func() error {
			sites := append([]*site(nil), sites...)
			for n := 0; n < 6; {
				i := l.rng.IntN(len(sites))
				switch ok, err := l.pushOne(context.WithoutCancel(t.Context()), sites[i]); {
				case err != nil && (len(sites) == 1 || !strings.Contains(err.Error(), "going down")):
					return err
				case ok:
					n++
					begun <- struct{}{}
				case len(sites) == 1:
					return fmt.Errorf("%s: nobody answers", l.branch)
				default:
					sites = append(sites[:i], sites[i+1:]...)
				}
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- g.Wait() }()
	for acks := 0; ; acks++ {
		if acks == len(m.lines) {
			happens()
		}
		select {
		case <-begun:
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// TestProcesses serves one repository by three processes of a machine, kills
// the one that hosts etcd, and exchanges another one by a new one that starts
// before the old one drains. Every push is taken, and seen by all.
func TestProcesses(t *testing.T) {
	needVcsd(t)
	m := &machine{hg: hgtest.New(t), state: t.TempDir()}
	m.hg.Run("init", "r")
	for i := range 6 {
		m.lines = append(m.lines, &line{branch: fmt.Sprintf("branch%d", i), rng: rand.New(rand.NewPCG(uint64(i), 1))})
	}
	first, second := m.serve(t), m.serve(t)
	reader := m.serve(t, "web.allow-push=")
	a, err := reader.client.Unbundle(t.Context(), hgtest.Force, []byte("HG20"))
	if err != nil || a.Status != http.StatusUnauthorized {
		t.Fatalf("push to the process that lets nobody push: %+v, %v", a, err)
	}
	m.storm(t, []*site{first, second}, func() {})
	for _, s := range []*site{first, second, reader} {
		s.checkAcked(t, m.lines, 0)
	}

	m.storm(t, []*site{first, second}, first.Kill)
	for _, s := range []*site{second, reader} {
		s.checkAcked(t, m.lines, 1)
	}

	third := m.serve(t)
	m.storm(t, []*site{second, third}, second.Stop)
	for _, s := range []*site{third, reader} {
		s.checkAcked(t, m.lines, 1)
	}

	reader.Kill()
	m.storm(t, []*site{third}, func() {})
	third.checkAcked(t, m.lines, 2)
	third.Stop()
	var heads []hg.Node
	for _, l := range m.lines {
		heads = append(heads, l.last.Node())
	}
	third.checkStore(t, heads)
}
