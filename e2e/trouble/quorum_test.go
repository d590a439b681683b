package trouble

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"vcsd/internal/hgtest"
)

// readTime bounds a read while etcd is away; the machine may be busy.
const readTime = 5 * time.Second

// mustRead reads, which must not take long.
func (b *bed) mustRead(what string, c *hgtest.Client) {
	b.t.Helper()
	start := time.Now()
	c.Heads()
	if d := time.Since(start); d > readTime {
		b.t.Errorf("%s: a read took %v", what, d)
	}
}

// quorum kills two members of three. Reads go on, of a repository that was never
// opened too; a push waits, and gets a sentence; others wait until the members
// are back.
func quorum(t *testing.T, a *tally) {
	etcd := newCluster(t, 3)
	b := newBed(t, a, etcd)
	b.hg.Run("init", "other")
	b.mustPush("before")
	hasty := hgtest.Serve(t, hgtest.ServerOptions{
		Root: b.hg.Dir, Config: []string{"vcsd.publish-wait=1"}, Args: []string{"--etcd", b.proxy.url()},
	})
	b.hg.Run("clone", "-q", hasty.URL+"/r", "c")
	clone := b.hg.In("c")
	etcd.members[1].kill()
	etcd.members[2].kill()
	a.fault()

	b.mustRead("no quorum", b.client)
	b.mustRead("no quorum, first read of a repository", b.Client("other"))
	b.hg.Run("clone", "-q", b.URL+"/r", "d")
	clone.Commit("waits in vain", map[string]string{"x": "1"})
	for range 2 { // what is known of etcd then may differ
		if out := clone.Fail("push", "-f"); !strings.Contains(out, sentences[0]) && !strings.Contains(out, sentences[1]) {
			t.Errorf("hg push without a quorum says\n%s", out)
		}
	}
	p, done := b.start()
	late := hgtest.Serve(t, hgtest.ServerOptions{Root: b.hg.Dir, Args: []string{"--etcd", b.proxy.url()}})
	b.mustRead("a server started without a quorum", late.Client("r"))
	until(t, "the log tells of etcd", func() bool { return strings.Contains(late.Log(), "etcd does not answer") })
	select {
	case err := <-done:
		t.Errorf("a push without a quorum ended: %v, %q", err, p.told)
	default:
	}
	etcd.start(etcd.members[1])
	b.mustEnd("quorum is back", p, done)
	clone.Run("push", "-f")
	etcd.start(etcd.members[2])
	hasty.Stop()
	late.Stop()
	b.Stop()
	b.hg.In("r").Verify()
	b.tally.found(len(b.acked))
}

// restarted kills etcd again and again while pushes come one after the other.
func restarted(t *testing.T, a *tally) {
	etcd := newCluster(t, 1)
	b := newBed(t, a, etcd)
	for range 4 {
		b.mustPush("before etcd is killed")
		p, done := b.start()
		etcd.members[0].kill()
		a.fault()
		etcd.start(etcd.members[0])
		b.mustEnd("etcd was killed", p, done)
	}
	b.verify()
}

// slow delays all that etcd and the server say to each other.
func slow(t *testing.T, a *tally) {
	b := newBed(t, a, newCluster(t, 1), "vcsd.publish-wait=60")
	for _, d := range []time.Duration{50, 200, 500, 1000} {
		b.proxy.setDelay(d * time.Millisecond) // on each way
		a.fault()
		start := time.Now()
		b.mustPush("etcd is slow")
		t.Logf("%v on each way: a push takes %v", d*time.Millisecond, time.Since(start).Round(time.Millisecond))
		b.mustRead("etcd is slow", b.client)
		b.proxy.cut() // the next connection has to be made while etcd is slower still
		a.fault()
	}
	b.proxy.setDelay(0)
	b.verify()
}

// storm cuts connections and ends sessions at random moments of a time.
func storm(t *testing.T, a *tally, length time.Duration) {
	b := newBed(t, a, newCluster(t, 1))
	stop := make(chan bool)
	go func() {
		defer close(stop)
		for end := time.Now().Add(length); time.Now().Before(end); {
			time.Sleep(rand.N(150 * time.Millisecond)) // the moment is the point
			if rand.N(4) == 0 {
				b.etcd.expire()
			} else {
				b.proxy.cut()
			}
			a.fault()
		}
	}()
	for {
		b.mustPush("in a storm")
		select {
		case <-stop:
			b.mustPush("after the storm")
			b.verify()
			return
		default:
		}
	}
}

// elsewhere serves a repository with another etcd than before: it can be read,
// and takes pushes once its tip was made known to that.
func elsewhere(t *testing.T, a *tally) {
	h := hgtest.New(t)
	h.Run("init", "r")
	embedded := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir})
	b := &bed{Server: embedded, t: t, hg: h, client: embedded.Client("r"), tally: a}
	b.mustPush("with the embedded etcd")
	b.Stop()
	b.etcd = newCluster(t, 1)
	a.fault()
	serve := func() {
		b.Server = hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Args: []string{"--etcd", b.etcd.members[0].Client}})
		b.client.URL = b.URL + "/r"
	}
	serve()
	b.mustRead("another etcd", b.client)
	h.Run("clone", "-q", b.URL+"/r", "c")
	clone := h.In("c")
	clone.Commit("refused", map[string]string{"x": "1"})
	if out := clone.Fail("push", "-f"); !strings.Contains(out, "the server's log tells why") {
		t.Errorf("hg push says\n%s", out)
	}
	until(t, "the log says what to do", func() bool { return strings.Contains(b.Log(), "vcsd recover --rebuild-refs") })
	b.Stop()
	recover := exec.Command(hgtest.Vcsd(t), "recover", "--rebuild-refs", "-R", b.Repo("r"), "--etcd", b.etcd.members[0].Client)
	if out, err := recover.CombinedOutput(); err != nil {
		t.Fatalf("recover: %v\n%s", err, out)
	}
	serve()
	clone.Run("push", "-f", b.URL+"/r")
	b.Stop()
	h.In("r").Verify()
	if n := len(h.In("r").Nodes("all()")); n != 3 {
		t.Errorf("%d changesets, want 3", n)
	}
	a.found(1)
}
