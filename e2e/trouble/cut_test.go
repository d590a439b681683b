package trouble

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var stride = flag.Int("stride", 5, "which messages of a push the connection is cut at: each, or each second, and so on")

// id returns the repository's name in etcd.
func (b *bed) id() string {
	b.t.Helper()
	line, err := os.ReadFile(filepath.Join(b.Repo("r"), ".hg", "vcsd", "id"))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Fields(string(line))[0]
}

// A trap acts once, at the n-th message.
type trap struct {
	mu     sync.Mutex
	left   int    // messages before; guarded by mu
	closed bool   // guarded by mu
	fired  string // what the message was; guarded by mu
}

// meet counts messages; at the one to act at it calls act.
func (t *trap) meet(act func(frame) verdict) func(frame) verdict {
	return func(f frame) verdict {
		t.mu.Lock()
		t.left--
		fires := t.left == -1 && !t.closed
		if fires {
			t.fired = "answer"
			if f.toEtcd {
				t.fired = "request"
			}
			if f.isPublish() {
				t.fired = "publication"
			}
		}
		t.mu.Unlock()
		if fires {
			return act(f)
		}
		return pass
	}
}

// close makes the trap act no more, and tells whether it did.
func (t *trap) close() (fired string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.fired
}

// A cutMode is how a connection breaks.
type cutMode struct {
	name  string
	first bool // each push is the first one of a process
	act   func(b *bed, f frame) verdict
	taken bool // every push must be acknowledged at once
}

var cutModes = []cutMode{
	{"cut", false, func(*bed, frame) verdict { return cut }, true},
	{"cut in the first push of a process", true, func(*bed, frame) verdict { return cut }, true},
	{"cut and the request comes late", false, func(_ *bed, f frame) verdict {
		if f.toEtcd {
			return late
		}
		return cut
	}, true},
	{"cut for longer than a push waits", false, func(b *bed, f frame) verdict {
		b.proxy.setRefuse(true)
		b.proxy.cut()
		return cut
	}, false},
	{"answers vanish", false, func(b *bed, f frame) verdict {
		if f.toEtcd {
			return cut
		}
		return drop
	}, true},
}

// cuts breaks the connection at each message of a push in turn.
func cuts(t *testing.T, a *tally, mode cutMode) {
	config := []string{"vcsd.publish-wait=2m"}
	if !mode.taken {
		config = []string{"vcsd.publish-wait=0.3"}
	}
	b := newBed(t, a, newCluster(t, 1), config...)
	if !mode.first {
		b.mustPush("before")
	}
	step, n := *stride, 0
	if mode.name == "answers vanish" {
		step *= 4 // each takes the time after which a request is given up
	}
	for ; ; n += step {
		if mode.first {
			b.restart()
		}
		trap := &trap{left: n}
		b.proxy.setMeet(trap.meet(func(f frame) verdict { return mode.act(b, f) }))
		p := b.newPush()
		err := b.send(p)
		fired := trap.close()
		b.proxy.setMeet(nil)
		b.proxy.setRefuse(false)
		b.proxy.deliver()
		what := fmt.Sprintf("%s at message %d (%s)", mode.name, n, fired)
		if err != nil || mode.taken && !p.ok {
			t.Fatalf("%s: %v, %q", what, err, p.told)
		}
		b.finish(what, p)
		if fired == "" {
			break
		}
		a.fault()
	}
	t.Logf("%s: messages 0 to %d by %d", mode.name, n, step)
	b.verify()
}
