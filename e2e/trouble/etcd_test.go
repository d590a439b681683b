package trouble

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"vcsd/internal/hgtest"
)

// memberEnv makes the test binary a member of etcd: it holds a member as JSON.
const memberEnv = "VCSD_TEST_ETCD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(memberEnv); spec != "" {
		if err := beMember(spec); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	hgtest.Main(m)
}

// A member is one process of etcd.
type member struct {
	Name, Dir, Client, Peer, Initial string

	cmd *exec.Cmd
	in  io.Closer // its end ends the process
}

// beMember runs etcd until the end of standard input.
func beMember(spec string) error {
	var m member
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		return err
	}
	client, err := url.Parse(m.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(m.Peer)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster = m.Name, m.Dir, m.Initial
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Println("started")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A cluster is an etcd of one or several members.
type cluster struct {
	t       testing.TB
	members []*member
	client  *clientv3.Client // straight to all members
}

func newCluster(t testing.TB, size int) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var initial, endpoints []string
	for i := range size {
		m := &member{Name: fmt.Sprint("m", i), Dir: t.TempDir(), Client: freeURL(t), Peer: freeURL(t)}
		initial = append(initial, m.Name+"="+m.Peer)
		endpoints = append(endpoints, m.Client)
		c.members = append(c.members, m)
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.kill()
		}
	})
	for _, m := range c.members {
		m.Initial = strings.Join(initial, ",")
		c.start(m)
	}
	var err error
	if c.client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.client.Close() })
	c.await()
	return c
}

// given are the URLs that freeURL returned.
var given sync.Map

// freeURL returns the URL of a port that nobody listens on, and no other call
// returned.
func freeURL(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		url := "http://" + l.Addr().String()
		if _, twice := given.LoadOrStore(url, true); !twice {
			return url
		}
	}
}

// start starts a member and returns when it listens.
func (c *cluster) start(m *member) {
	c.t.Helper()
	spec, err := json.Marshal(m)
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), memberEnv+"="+string(spec))
	m.cmd.Stderr = os.Stderr
	in, err := m.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	m.in = in
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started\n" {
		c.t.Fatalf("etcd says %q, %v", line, err)
	}
}

// kill ends a member as kill -9 does.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	_ = m.cmd.Wait()
	m.in.Close()
	m.cmd = nil
}

// await returns when the cluster answers.
func (c *cluster) await() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for {
		rctx, done := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.client.Get(rctx, "x")
		done()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			c.t.Fatalf("etcd does not answer: %v", err)
		}
	}
}

// get returns the keys below a prefix.
func (c *cluster) get(prefix string) *clientv3.GetResponse {
	c.t.Helper()
	r, err := c.client.Get(c.t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// expire ends all sessions, as etcd does when their time is over. It returns how
// many there were.
func (c *cluster) expire() int {
	c.t.Helper()
	kvs := c.get("vcsd/1/s/").Kvs
	for _, kv := range kvs {
		if _, err := c.client.Revoke(c.t.Context(), clientv3.LeaseID(kv.Lease)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			c.t.Fatal(err)
		}
	}
	return len(kvs)
}
