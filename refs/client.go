package refs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"sync"
	"time"

	"vcsd/hg"
)

// A Client is one process's access to the refs of all repositories. Make it
// with Dial or Memory.Client, and Close it.
type Client struct {
	kv   kv      // constant
	o    Options // constant
	keys keys    // constant
	id   string  // constant; random, names this Client in keys

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // goroutines of this Client

	sessions *sessions
	buckets  *buckets

	mu     sync.Mutex // taken before session.mu, and after Lease.mu
	closed bool       // guarded by mu
	repos  map[RepoID]*repoState
	// slots holds the branches whose lock is in local hands: of a Lease, or of
	// an Acquire or a release at work. Guarded by mu, with all in it.
	slots map[slotKey]*slot
}

// repoState is what a Client remembers of a repository.
type repoState struct {
	publishing chan struct{} // has room for one; held during Publish
	witness    witnessState  // guarded by publishing
	tips       tipReads
	watch      lockWatch // guarded by Client.mu
}

func newClient(k kv, o Options) *Client {
	o = o.withDefaults()
	if o.Fault != nil {
		k = &faultyKV{kv: k, fault: o.Fault}
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	c := &Client{
		kv:    k,
		o:     o,
		keys:  keys(o.Prefix),
		id:    hex.EncodeToString(id[:]),
		repos: map[RepoID]*repoState{},
		slots: map[slotKey]*slot{},
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.sessions = newSessions(c)
	c.buckets = newBuckets(c)
	return c
}

// Close gives the session up, so that its locks are free at once, and ends
// what is in flight: Acquire and Publish return ErrClosed, or
// ErrUnknownOutcome. To end in order, release all leases first.
func (c *Client) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.cancel(ErrClosed)
	c.wg.Wait()
	return c.kv.close()
}

// closeTime bounds how long Close tries to give the session up.
const closeTime = 2 * time.Second

// spawn runs f in a goroutine that Close waits for, unless the Client is
// closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// bound returns ctx, ending also with the Client.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.ctx.Err() != nil {
		cancel(ErrClosed) // AfterFunc would take its time
	}
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// repo returns the state of a repository.
func (c *Client) repo(id RepoID) *repoState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.repoLocked(id)
}

func (c *Client) repoLocked(id RepoID) *repoState {
	st := c.repos[id]
	if st == nil {
		st = &repoState{publishing: make(chan struct{}, 1)}
		c.repos[id] = st
	}
	return st
}

// requestTime bounds one request: a connection that swallows requests must
// not take the whole of a caller's time.
const requestTime = 3 * time.Second

// retry calls f, which must be idempotent, until etcd answers or ctx ends.
func (c *Client) retry(ctx context.Context, f func(context.Context) error) error {
	return c.retryMany(ctx, 1, f)
}

// retryMany is retry for an f that makes several requests, one after the other.
func (c *Client) retryMany(ctx context.Context, requests int, f func(context.Context) error) error {
	for n := 0; ; n++ {
		rctx, cancel := context.WithTimeout(ctx, time.Duration(requests)*requestTime)
		err := f(rctx)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
		case settled(err):
			return err
		default:
			sleep(ctx, backoff(n))
		}
		if ctx.Err() != nil {
			return gaveUp(ctx, err)
		}
	}
}

// gaveUp says why a request that failed with last was not tried again.
func gaveUp(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w: %v", hg.ErrUnavailable, cause, last)
	}
	return cause
}

// retryBase and retryMax span the pauses between attempts to reach etcd.
const (
	retryBase = 10 * time.Millisecond
	retryMax  = 500 * time.Millisecond
)

// backoff returns the pause after attempt n failed: random up to a bound that
// doubles and is truncated.
func backoff(n int) time.Duration { return jitter(retryBase, retryMax, n) }

func jitter(base, most time.Duration, n int) time.Duration {
	bound := most
	if n < 16 {
		bound = min(base<<n, most)
	}
	return mrand.N(bound) + 1
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Ready reports whether pushes can be decided: that etcd answers and the
// session lives, or can be made.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	s, err := c.sessions.get(ctx)
	if err != nil {
		return err
	}
	c.sessions.unref(s)
	return nil
}

// Reach asks a member of etcd how it is. It returns nil if that knows a leader,
// and else what is wrong.
func (c *Client) Reach(ctx context.Context) error {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return c.kv.reach(ctx)
}

// Outcome implements Store.
func (c *Client) Outcome(ctx context.Context, repo RepoID, key [32]byte) ([]byte, bool, error) {
	if err := checkRepo(repo); err != nil {
		return nil, false, err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	it, err := c.get(ctx, "outcome", c.keys.outcome(repo, key))
	if err != nil {
		return nil, false, fmt.Errorf("read outcome %x of %q: %w", key[:6], repo, err)
	}
	return it.value, it.modRev != 0, nil
}

// get reads one key, linearizably.
func (c *Client) get(ctx context.Context, name, key string) (item, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ReadTime)
	defer cancel()
	var it item
	err := c.retry(ctx, func(ctx context.Context) error {
		res, err := c.kv.txn(ctx, txn{name: name, then: []op{{kind: opGet, key: key}}})
		if err == nil {
			it = res.items[0]
		}
		return err
	})
	return it, err
}

// Delete implements Store. Leases of the repository, also those of other
// nodes, are void: what they publish fails.
func (c *Client) Delete(ctx context.Context, repo RepoID) error {
	if err := checkRepo(repo); err != nil {
		return err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := c.kv.txn(ctx, txn{name: "delete", then: []op{{kind: opDelPrefix, key: c.keys.repo(repo)}}})
		return err
	})
	if err != nil {
		return fmt.Errorf("delete refs of %q: %w", repo, err)
	}
	return nil
}
