package trouble

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A tally counts what was tried.
type tally struct {
	mu sync.Mutex
	// Guarded by mu:
	faults int // injected, or members killed, or sessions ended
	acked  int // pushes
	told   int // pushes that got a sentence instead, and were sent again
	known  int // of acked, those that were looked for in the end and found
}

func (a *tally) fault() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults++
}

func (a *tally) found(pushes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known += pushes
}

func (a *tally) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%d faults; %d pushes acknowledged, %d told to try again or that it isn't known, %d lost",
		a.faults, a.acked, a.told, a.acked-a.known)
}

// A bed is a repository "r" that a vcsd serves whose etcd is behind a proxy.
type bed struct {
	*hgtest.Server
	t      testing.TB
	hg     *hgtest.HG // in the root
	client *hgtest.Client
	etcd   *cluster
	proxy  *proxy
	tally  *tally

	n     int               // pushes made
	last  *hgtest.Changeset // of the pushes that were taken
	acked []hg.Node
}

func newBed(t testing.TB, a *tally, etcd *cluster, config ...string) *bed {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init", "r")
	p := newProxy(t, etcd.members[0].Client)
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: config, Args: []string{"--etcd", p.url()}})
	return &bed{Server: s, t: t, hg: h, client: s.Client("r"), etcd: etcd, proxy: p, tally: a}
}

// restart kills the server and starts another one.
func (b *bed) restart() {
	b.Kill()
	b.Start()
	b.client.URL = b.URL + "/r"
}

// A push is two changesets on two branches, and what it came to.
type push struct {
	bundle []byte
	tip    *hgtest.Changeset
	ok     bool
	told   string // the sentence, if not ok
}

func (b *bed) newPush() *push {
	b.n++
	one := hgtest.NewChangeset(b.last, "one", fmt.Sprint("one ", b.n), map[string]string{"f": fmt.Sprint(b.n)})
	two := hgtest.NewChangeset(one, "two", fmt.Sprint("two ", b.n), map[string]string{fmt.Sprint("g", b.n%10): fmt.Sprint(b.n)})
	var updates []hg.Node
	if b.last != nil {
		updates = []hg.Node{b.last.Node()}
	}
	return &push{bundle: hgtest.Bundle2(hgtest.PushParts(updates, hgtest.ChangegroupOf(one, two))...), tip: two}
}

// sentences are those that a push may get that did not find etcd.
var sentences = []string{"pushes are not possible at the moment, try again later", "it is not known yet whether the push was published"}

// send sends a push, which must be taken, or answered by one of sentences.
func (b *bed) send(p *push) error {
	a, err := b.client.Unbundle(b.t.Context(), hgtest.Force, p.bundle)
	if err != nil {
		return err
	}
	r, err := hgtest.ParseReply(a)
	if a.Status != http.StatusOK || err != nil {
		return fmt.Errorf("status %d, reply %+v, %w", a.Status, r, err)
	}
	p.ok, p.told = r.Error == "" && r.Return != 0, r.Reason
	if p.ok {
		b.tally.mu.Lock()
		b.tally.acked++
		b.tally.mu.Unlock()
		b.last = p.tip
		b.acked = append(b.acked, p.tip.Node())
		return nil
	}
	for _, s := range sentences {
		if strings.Contains(p.told, s) {
			return nil
		}
	}
	return fmt.Errorf("reply %+v", r)
}

// finish looks at what a push has come to, now that nothing is wrong any more: it
// is there as a whole or not at all, there if it was acknowledged, and it is when
// it was sent again.
func (b *bed) finish(what string, p *push) {
	b.t.Helper()
	known := b.client.Known(p.tip.Changelog.P1, p.tip.Node())
	switch {
	case known[0] != known[1]:
		b.t.Fatalf("%s: half of a push is there: %v", what, known)
	case p.ok && !known[1]:
		b.t.Fatalf("%s: an acknowledged push is lost", what)
	case p.ok:
		return
	}
	b.tally.mu.Lock()
	b.tally.told++
	b.tally.mu.Unlock()
	// It is told to try again where the machine is too busy for its short time.
	until(b.t, what+": a push sent again is taken", func() bool {
		if err := b.send(p); err != nil {
			b.t.Fatalf("%s: sent again: %v", what, err)
		}
		return p.ok
	})
}

// mustPush pushes what has to be taken.
func (b *bed) mustPush(what string) {
	b.t.Helper()
	p := b.newPush()
	if err := b.send(p); err != nil || !p.ok {
		b.t.Fatalf("%s: push: %v, %q", what, err, p.told)
	}
}

// start sends a push; the result comes with its error.
func (b *bed) start() (*push, <-chan error) {
	p := b.newPush()
	done := make(chan error, 1)
	go func() { done <- b.send(p) }()
	return p, done
}

// verify ends the server and looks at all that was acknowledged: each push was
// published once, and hg finds nothing wrong.
func (b *bed) verify() {
	b.t.Helper()
	for i, known := range b.client.Known(b.acked...) {
		if known {
			b.tally.found(1)
		} else {
			b.t.Errorf("acknowledged push %d is lost", i)
		}
	}
	b.Stop()
	r := b.hg.In("r")
	r.Verify()
	if got, want := len(r.Nodes("all()")), 2*len(b.acked); got != want {
		b.t.Errorf("%d changesets, want %d", got, want)
	}
	tip := b.etcd.get("vcsd/1/r/" + string(b.id()) + "/tip")
	if len(tip.Kvs) != 1 {
		b.t.Fatalf("%d tips", len(tip.Kvs))
	}
	kv := tip.Kvs[0]
	if seq := binary.BigEndian.Uint64(kv.Value[1:]); int64(seq) != kv.Version || int(seq) != len(b.acked) {
		b.t.Errorf("tip at seq %d, put %d times, for %d pushes", seq, kv.Version, len(b.acked))
	}
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("in vain: until %s", what)
		}
	}
}
