package trouble

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// TestZombies stops a server at each message that it exchanges with etcd for a
// push, in turn, until its session has expired, while another process pushes to
// the same branches. Woken up, it does nothing to what that published.
func TestZombies(t *testing.T) {
	b := newBed(t, new(tally), newCluster(t, 1), "vcsd.lease-ttl=1")
	other := hgtest.Serve(t, hgtest.ServerOptions{
		Root: b.hg.Dir, Config: []string{"vcsd.lease-ttl=1"}, Args: []string{"--etcd", b.etcd.members[0].Client},
	})
	b.mustPush("before")
	stops, won, behindLock := 0, 0, 0
	for n := 0; ; n += *stride {
		stopped := make(chan bool, 1)
		trap := &trap{left: n}
		b.proxy.setMeet(trap.meet(func(frame) verdict {
			if err := b.Signal(syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			stopped <- true
			return pass
		}))
		p, mine := b.newPush(), make(chan outcome, 1)
		go func() { mine <- post(t, b.Server, p.bundle) }()
		select {
		case <-stopped:
		case o := <-mine:
			if trap.close() == "" {
				b.mustBe("a push without a stop", o, p.tip.Node(), true)
				b.last = p.tip
				t.Logf("zombies: %d stops, %d of them after the push was published, %d with the store locked; lost: nothing", stops, won, behindLock)
				b.verifyWith(other)
				return
			}
			mine <- o // it was stopped after its answer
			<-stopped
		}
		stops++
		b.sleepOver()
		rival := hgtest.NewChangeset(b.last, "one", fmt.Sprint("rival ", n), map[string]string{"f": fmt.Sprint("rival ", n)})
		theirs := make(chan outcome, 1)
		go func() {
			theirs <- post(t, other, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(rival))...))
		}()
		o, locked := b.untilDoneOrLocked(theirs)
		if err := b.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if locked {
			behindLock++
			o = <-theirs
		}
		what := fmt.Sprintf("stopped at message %d (%s)", n, trap.close())
		b.proxy.setMeet(nil)
		b.mustBe(what+", the other one", o, rival.Node(), true)
		zombie := <-mine
		if zombie.ok {
			won++
		}
		b.mustBe(what, zombie, p.tip.Node(), zombie.ok)
		if !other.Client("r").Known(rival.Node())[0] {
			t.Fatalf("%s: what the other one published is lost", what)
		}
		b.last = rival
	}
}

// An outcome is how a push ended.
type outcome struct {
	ok  bool
	err string // of hg's kinds, or of transport
}

func post(t testing.TB, s *hgtest.Server, bundle []byte) outcome {
	a, err := s.Client("r").Unbundle(t.Context(), hgtest.Force, bundle)
	if err != nil {
		return outcome{false, err.Error()}
	}
	r, err := hgtest.ParseReply(a)
	if err != nil {
		return outcome{false, err.Error()}
	}
	return outcome{r.Error == "" && r.Return != 0, r.Error}
}

// mustBe fails unless a push was taken, or lost the race if it may, and is there
// accordingly.
func (b *bed) mustBe(what string, o outcome, node hg.Node, taken bool) {
	b.t.Helper()
	if o.ok != taken || !o.ok && o.err != "pushraced" {
		b.t.Fatalf("%s: %+v", what, o)
	}
	if known := b.client.Known(node)[0]; known != o.ok {
		b.t.Fatalf("%s: acknowledged %v, there %v", what, o.ok, known)
	}
	if o.ok {
		b.acked = append(b.acked, node)
	}
}

// sleepOver waits until etcd has ended the session of the stopped server.
func (b *bed) sleepOver() {
	b.t.Helper()
	pid := fmt.Sprint(":", b.PID())
	until(b.t, "the session has expired", func() bool {
		for _, kv := range b.etcd.get("vcsd/1/s/").Kvs {
			if strings.HasSuffix(string(kv.Value), pid) {
				return false
			}
		}
		return true
	})
}

// untilDoneOrLocked waits for a push, but not while the stopped server has the
// store's lock, which nobody may take from a process that lives.
func (b *bed) untilDoneOrLocked(done <-chan outcome) (o outcome, locked bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			return o, false
		case <-tick.C:
			holder, err := os.Readlink(filepath.Join(b.Repo("r"), ".hg", "store", "lock"))
			if err == nil && strings.HasSuffix(holder, fmt.Sprint(":", b.PID())) {
				return outcome{}, true
			}
		}
	}
}

// verifyWith ends both servers and looks at all that was acknowledged.
func (b *bed) verifyWith(other *hgtest.Server) {
	b.t.Helper()
	for i, known := range b.client.Known(b.acked...) {
		if !known {
			b.t.Errorf("acknowledged push %d is lost", i)
		}
	}
	b.Stop()
	other.Stop()
	b.hg.In("r").Verify()
}
