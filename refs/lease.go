package refs

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Lease is the right to publish to some branches of a repository, as long
// as the session of its Client lives. Holding it proves nothing: Publish
// does.
type Lease struct {
	c        *Client
	repo     RepoID
	branches []string      // sorted; constant
	done     chan struct{} // closed once err is set
	busy     chan struct{} // has room for one; held by Publish and Release

	mu    sync.Mutex
	err   error         // ErrLeaseLost or ErrReleased, wrapped; guarded by mu
	given bool          // holds are somebody else's; guarded by mu
	holds []*hold       // one for each branch; guarded by busy, heads by mu too
	stops []func() bool // end the watch over the sessions
}

func newLease(c *Client, repo RepoID, holds []*hold) *Lease {
	l := &Lease{c: c, repo: repo, holds: holds, done: make(chan struct{}), busy: make(chan struct{}, 1)}
	seen := map[*session]bool{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range holds {
		l.branches = append(l.branches, h.branch)
		if s := h.sess; !seen[s] {
			seen[s] = true
			l.stops = append(l.stops, context.AfterFunc(s.live, func() { l.fail(context.Cause(s.live)) }))
		}
	}
	return l
}

// Branches returns the branches that l is for, sorted by name.
func (l *Lease) Branches() []string { return l.branches }

// Heads returns the value of a branch's head key, nil if there is none: as
// read when the lock was taken, or when a Publish last failed. It is an index,
// which may lag behind the tip; see Publication. The slice is read-only.
func (l *Lease) Heads(branch string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given {
		return nil
	}
	for _, h := range l.holds {
		if h.branch == branch {
			return h.head.value
		}
	}
	return nil
}

// Done returns a channel that closes when l is lost or released.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil as long as l is held. After its loss the error wraps
// ErrLeaseLost, after its release it is ErrReleased. It follows the clock: a
// process that slept past the session's time to live is told so at once.
func (l *Lease) Err() error {
	l.mu.Lock()
	err, given := l.err, l.given
	l.mu.Unlock()
	if err != nil || given {
		return err
	}
	for _, h := range l.holds {
		if err := context.Cause(h.sess.live); err != nil {
			l.fail(err)
		} else if h.sess.expired() {
			l.fail(fmt.Errorf("%w: no heartbeat was answered for %v", ErrLeaseLost, h.sess.ttl))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// fail makes err the end of l, unless it has one.
func (l *Lease) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		close(l.done)
	}
}

// surrender takes the holds from l for passing them on; nil if somebody did
// already. The caller has busy.
func (l *Lease) surrender() []*hold {
	l.fail(ErrReleased)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stop := range l.stops {
		stop()
	}
	if l.given {
		return nil
	}
	l.given = true
	return l.holds
}

// Release gives the branches up. It may be called at any time and more than
// once, also after Publish or a loss. It returns early when ctx ends: the
// release goes on in the background.
func (l *Lease) Release(ctx context.Context) error {
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		// A Publish is at work and must not be disturbed; it is bounded.
		l.c.later(func(ctx context.Context) { _ = l.Release(ctx) })
		return context.Cause(ctx)
	}
	holds := l.surrender()
	<-l.busy
	if len(holds) == 0 {
		return nil
	}
	released := make(chan struct{})
	l.c.later(func(ctx context.Context) {
		defer close(released)
		l.c.giveBack(ctx, l.repo, holds)
	})
	select {
	case <-released:
		return nil
	case <-l.c.ctx.Done():
		return nil // the session is given up, with all its locks
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lostOf returns those of leases that are lost, joined, or nil.
func lostOf(leases []*Lease) error {
	var errs []error
	for _, l := range leases {
		if err := l.Err(); err != nil {
			errs = append(errs, fmt.Errorf("branches %q: %w", l.branches, err))
		}
	}
	return errors.Join(errs...)
}
