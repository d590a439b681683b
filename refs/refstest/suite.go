package refstest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/hg"
	"vcsd/refs"
)

// An Env makes clusters for the suite.
type Env struct {
	// Bubble runs each case with the fake clock of testing/synctest.
	Bubble bool
	// Cluster returns a function that adds a node to a new or shared cluster.
	Cluster func(t *testing.T) func(refs.Options) *refs.Client
}

// Run runs the suite.
func Run(t *testing.T, env Env) {
	for _, group := range [][]testCase{publishCases, leaseCases, sessionCases, faultCases, watchCases, crowdCases} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				if c.bubble && !env.Bubble {
					t.Skip("takes the fake clock")
				}
				run := func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					if !env.Bubble {
						ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
					}
					defer cancel()
					b := &bench{T: t, ctx: ctx, open: env.Cluster(t), repo: newRepo()}
					c.run(b)
				}
				if env.Bubble {
					synctest.Test(t, run)
				} else {
					run(t)
				}
			})
		}
	}
}

type testCase struct {
	name   string
	bubble bool // needs the fake clock
	run    func(*bench)
}

var repos struct {
	mu sync.Mutex
	n  int
}

// newRepo returns an ID that no other case has: cases may share an etcd.
func newRepo() refs.RepoID {
	repos.mu.Lock()
	defer repos.mu.Unlock()
	repos.n++
	return refs.RepoID(fmt.Sprintf("00000000-0000-4000-8000-%012x", repos.n))
}

// A bench is what a case works with: short ways to do what must succeed.
type bench struct {
	*testing.T
	ctx  context.Context
	open func(refs.Options) *refs.Client
	repo refs.RepoID
}

// node adds a node, which is closed when the case ends.
func (b *bench) node(o refs.Options) *refs.Client {
	b.Helper()
	c := b.open(o)
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Errorf("close: %v", err)
		}
	})
	return c
}

// must ends the case if err is not nil.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// lock acquires branches.
func (b *bench) lock(c *refs.Client, branches ...string) *refs.Lease {
	b.Helper()
	l, err := c.Acquire(b.ctx, b.repo, branches)
	b.must(err)
	return l
}

// unlock releases leases.
func (b *bench) unlock(leases ...*refs.Lease) {
	b.Helper()
	for _, l := range leases {
		b.must(l.Release(b.ctx))
	}
}

// An acquired is what an Acquire in the background came to.
type acquired struct {
	lease *refs.Lease
	err   error
}

// lockLater acquires in the background and returns once the call waits.
func (b *bench) lockLater(ctx context.Context, c *refs.Client, branches ...string) <-chan acquired {
	b.Helper()
	before, out := c.Waiting(), make(chan acquired, 1)
	go func() {
		l, err := c.Acquire(ctx, b.repo, branches)
		out <- acquired{l, err}
	}()
	b.until("another one waits", func() bool { return c.Waiting() > before })
	return out
}

// got receives the lease that a call of lockLater acquired.
func (b *bench) got(c <-chan acquired) *refs.Lease {
	b.Helper()
	select {
	case a := <-c:
		b.must(a.err)
		return a.lease
	case <-b.ctx.Done():
		b.Fatal("lease was not acquired in time")
		return nil
	}
}

// until waits for a condition.
func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.Fatalf("in vain: until %s", what)
		}
	}
}

// tip reads the tip.
func (b *bench) tip(c *refs.Client) refs.Tip {
	b.Helper()
	t, ok, err := c.Tip(b.ctx, b.repo)
	b.must(err)
	if ok != (t.Seq != 0) {
		b.Fatalf("Tip = %+v, %v", t, ok)
	}
	return t
}

// wantTip fails unless the tip is want.
func (b *bench) wantTip(c *refs.Client, want refs.Tip) {
	b.Helper()
	if got := b.tip(c); got != want {
		b.Errorf("tip = seq %d digest %x, want seq %d digest %x", got.Seq, got.Digest[:2], want.Seq, want.Digest[:2])
	}
}

// after returns a tip that follows t; salt makes it unlike others.
func after(t refs.Tip, salt byte) refs.Tip {
	return refs.Tip{
		Seq:          t.Seq + 1,
		Digest:       [32]byte{salt, byte(t.Seq + 1)},
		ChangelogLen: t.ChangelogLen + 3,
		Node:         hg.Node{byte(t.Seq + 1), salt},
	}
}

// push publishes the tip that follows old, with a head for each branch of the
// leases, and returns it.
func (b *bench) push(c *refs.Client, old refs.Tip, salt byte, leases ...*refs.Lease) (refs.Tip, error) {
	p := refs.Publication{Repo: b.repo, Old: old, New: after(old, salt), Leases: leases}
	for _, l := range leases {
		for _, branch := range l.Branches() {
			p.Heads = append(p.Heads, refs.HeadChange{Branch: branch, Value: headOf(p.New)})
		}
	}
	return p.New, c.Publish(b.ctx, p)
}

// headOf is the value of the head keys that push puts.
func headOf(t refs.Tip) []byte { return fmt.Appendf(nil, "head at %d by %d", t.Seq, t.Digest[0]) }

// mustPush is push that must succeed.
func (b *bench) mustPush(c *refs.Client, old refs.Tip, salt byte, leases ...*refs.Lease) refs.Tip {
	b.Helper()
	t, err := b.push(c, old, salt, leases...)
	b.must(err)
	return t
}
