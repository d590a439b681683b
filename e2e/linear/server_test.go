package linear

import (
	"context"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"vcsd/internal/hgtest"
)

// A server is a process that is killed, stopped and continued while clients
// ask it.
type server struct {
	t       testing.TB
	process *hgtest.Server
	http    *hgtest.Client
	url     atomic.Pointer[string]
}

// startServers starts what serves the repositories below root: two processes,
// and one that only hosts etcd.
func startServers(t testing.TB, root string) (servers []*server, host *server) {
	state := t.TempDir()
	host = startServer(t, t.TempDir(), state)
	return []*server{startServer(t, root, state), startServer(t, root, state)}, host
}

func startServer(t testing.TB, root, state string) *server {
	s := &server{t: t, process: hgtest.Serve(t, hgtest.ServerOptions{
		Root: root, Args: []string{"--state", state, "--accesslog", os.DevNull},
		Config: []string{"vcsd.lease-ttl=1"},
		Env:    []string{"GORACE=atexit_sleep_ms=0"},
	})}
	s.http = s.process.Client("")
	s.follow()
	return s
}

func (s *server) follow() {
	url := s.process.URL
	s.url.Store(&url)
}

// client returns a client for a repository, which is valid until the next
// kill.
func (s *server) client(repo string) *hgtest.Client {
	c := s.http.For(s.t)
	c.URL, c.Proto = *s.url.Load()+"/"+repo, ""
	return c
}

// A nemesis disturbs servers, one at a time.
type nemesis struct {
	servers []*server
	host    *server
	rng     *rand.Rand

	kills, stops, long int // long stops outlast the leases
}

// run goes on until ctx ends; then all servers run.
func (n *nemesis) run(ctx context.Context) {
	for {
		sleep(ctx, time.Duration(n.rng.Int64N(int64(time.Second))))
		if ctx.Err() != nil {
			return
		}
		s := n.servers[n.rng.IntN(len(n.servers))]
		if n.rng.IntN(6) == 0 {
			s = n.host
		}
		if n.rng.IntN(3) == 0 {
			s.process.Kill()
			s.process.Start()
			s.follow()
			n.kills++
			continue
		}
		d := time.Duration(n.rng.Int64N(int64(200 * time.Millisecond)))
		if n.rng.IntN(4) == 0 {
			d = 1500*time.Millisecond + d
			n.long++
		}
		n.signal(s, syscall.SIGSTOP)
		time.Sleep(d) // what matters is that others go on
		n.signal(s, syscall.SIGCONT)
		n.stops++
	}
}

func (n *nemesis) signal(s *server, sig syscall.Signal) {
	if err := s.process.Signal(sig); err != nil {
		s.t.Errorf("%v: %v", sig, err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
