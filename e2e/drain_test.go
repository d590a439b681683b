package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"vcsd/internal/hgtest"
	"vcsd/refs/embedded"
)

const drainPushers = 16

// TestDrain ends a server in a push storm. It says so before it stops to listen;
// who was admitted is answered, who was not is told; it gives up its leases and
// exits with status 0 well in time.
func TestDrain(t *testing.T) {
	needVcsd(t)
	etcd, err := embedded.Join(t.Context(), t.TempDir(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	}()
	admin := freeAddress(t)
	states := listenForStates(t)
	h := hgtest.New(t)
	h.Run("init", "r")
	s := &site{Server: hgtest.Serve(t, hgtest.ServerOptions{
		Root: h.Dir, Env: []string{"NOTIFY_SOCKET=" + states.name},
		Config: []string{"vcsd.admin-address=" + admin, "vcsd.drain-delay=500ms", "vcsd.etcd=" + etcd.Endpoint()},
	}), hg: h}
	s.client = s.Client("r")
	states.want(t, "READY=1")
	if code := get(t, "http://"+admin+"/readyz"); code != http.StatusOK {
		t.Fatalf("/readyz: status %d before the end", code)
	}

	pushers := newDrainers(s)
	var g errgroup.Group
	begun := make(chan struct{}, drainPushers)
	for _, d := range pushers {
		g.Go(func() error { return d.pushUntilRefused(t.Context(), begun) })
	}
	for range drainPushers {
		<-begun
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	states.want(t, "STOPPING=1")
	if code := get(t, "http://"+admin+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: status %d while draining", code)
	}
	if code := get(t, s.URL+"/r?cmd=capabilities"); code != http.StatusOK {
		t.Errorf("capabilities: status %d while draining", code)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	t.Logf("drained in %v", time.Since(start).Round(time.Millisecond))
	checkNoLeases(t, etcd.Endpoint())

	s.restart()
	n := 0
	for _, d := range pushers {
		s.checkAcked(t, []*line{&d.line}, 0)
		n += len(d.acked)
	}
	t.Logf("%d pushes acknowledged", n)
	s.Stop()
}

// TestSecondSignal: a server that is told twice ends at once, however long it would
// take to drain.
func TestSecondSignal(t *testing.T) {
	needVcsd(t)
	admin := freeAddress(t)
	s := newSite(t, "vcsd.drain-delay=10m", "vcsd.admin-address="+admin)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for get(t, "http://"+admin+"/readyz") != http.StatusServiceUnavailable {
		<-tick.C
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !ended(s.PID()); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the server still runs")
		}
	}
}

// ended tells whether a process has ended, whoever still has to wait for it.
func ended(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z")
}

// TestUpgradeOnOneSocket exchanges a server by a new one at the same port, which a
// supervisor holds open: nobody is refused a connection.
func TestUpgradeOnOneSocket(t *testing.T) {
	needVcsd(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(socket.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	}()
	h := hgtest.New(t)
	h.Run("init", "r")
	state := filepath.Join(t.TempDir(), "state")
	serve := func() *site {
		s := hgtest.Serve(t, hgtest.ServerOptions{
			Root: h.Dir, Args: []string{"--state", state}, Files: []*os.File{socket}, Env: []string{"LISTEN_FDS=1"},
			Wrap: []string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`},
		})
		return &site{s, h, s.Client("r")}
	}
	old := serve()
	if want := "http://" + l.Addr().String(); old.URL != want {
		t.Fatalf("listens at %s, want %s", old.URL, want)
	}
	pushers := newDrainers(old)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	begun := make(chan struct{}, drainPushers)
	for _, d := range pushers {
		d.insists = true
		g.Go(func() error { return d.pushUntilRefused(ctx, begun) })
	}
	for range drainPushers {
		<-begun
	}
	s := serve()
	old.Stop()
	before := 0
	for _, d := range pushers {
		before += d.count()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := before; n < before+2*drainPushers; <-tick.C {
		n = 0
		for _, d := range pushers {
			n += d.count()
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for _, d := range pushers {
		s.checkAcked(t, []*line{&d.line}, 0)
	}
	s.Stop()
}

// A drainer pushes on a line of its own, each time on a new connection: when a
// server ends it may close one that waits for the next request.
type drainer struct {
	line
	site    *site
	insists bool // pushes again what was refused as the server ends

	mu    sync.Mutex
	taken int // guarded by mu
}

func newDrainers(s *site) []*drainer {
	all := make([]*drainer, drainPushers)
	for i := range all {
		c := *s
		c.client = s.client.OneShot()
		all[i] = &drainer{line: line{branch: fmt.Sprint("branch", i)}, site: &c}
	}
	return all
}

func (d *drainer) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken
}

// pushUntilRefused pushes until the server admits nothing more, or is gone, or ctx
// ends. Anything else is an error.
func (d *drainer) pushUntilRefused(ctx context.Context, begun chan<- struct{}) error {
	for first := true; ctx.Err() == nil; {
		r, err := d.pushNext(context.WithoutCancel(ctx))
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) && !d.insists:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", d.branch, err)
		case strings.Contains(r.Reason, "going down") && !d.insists:
			return nil
		case strings.Contains(r.Reason, "going down"):
			continue
		case r.Error != "" || r.Return == 0:
			return fmt.Errorf("%s: reply %+v", d.branch, r)
		}
		d.last, d.pending = d.pending, nil
		d.acked = append(d.acked, d.last.Node())
		d.mu.Lock()
		d.taken++
		d.mu.Unlock()
		if first {
			first = false
			begun <- struct{}{}
		}
	}
	return nil
}

func (d *drainer) pushNext(ctx context.Context) (hgtest.Reply, error) {
	// So little that it is sent at once: who is refused while he sends may see the
	// connection end before he sees the answer.
	return d.site.push(ctx, d.next(func() map[string]string {
		return map[string]string{d.branch + "/f": fmt.Sprint(len(d.acked))}
	})...)
}

// states is a supervisor that is told states.
type states struct {
	name string
	conn *net.UnixConn
}

func listenForStates(t *testing.T) *states {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &states{name, conn}
}

// want waits for the next state, which must be this one.
func (s *states) want(t *testing.T, state string) {
	t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := s.conn.Read(b)
	if err != nil || string(b[:n]) != state {
		t.Errorf("told %q, %v, want %q", b[:n], err, state)
	}
}

// get returns the status of an answer.
func get(t *testing.T, url string) int {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// checkNoLeases wants neither locks in etcd nor the session of a process.
func checkNoLeases(t *testing.T, endpoint string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	keys, err := c.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		if k := string(kv.Key); strings.Contains(k, "/l/") || strings.Contains(k, "/s/") {
			t.Errorf("%q is left", k)
		}
	}
	leases, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Those of what pushes were answered, which is kept for some time, have keys.
	for _, l := range leases.Leases {
		if r, err := c.TimeToLive(t.Context(), l.ID, clientv3.WithAttachedKeys()); err != nil || len(r.Keys) == 0 {
			t.Errorf("the lease %x is left: %v", l.ID, err)
		}
	}
	if len(keys.Kvs) == 0 {
		t.Error("nothing is there at all")
	}
}
