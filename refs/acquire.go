package refs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// yieldTime is what a process waits after its turn with a lock before it
	// wants it again, so that others may have it; more than they need.
	yieldTime = 6 * time.Millisecond

	// raceBase and raceMax span the pause between seeing a lock go and asking
	// for it, when others were faster before.
	raceBase = time.Millisecond
	raceMax  = 4 * time.Millisecond

	// outlastTime is much for a request, and little for one who has given up.
	outlastTime = 200 * time.Millisecond

	// pollBase and pollMax span the time after which a waiter looks at a lock
	// although the watch didn't tell it to.
	pollBase = 100 * time.Millisecond
	pollMax  = 2 * time.Second
)

// Acquire implements Store. Branches are taken in the order of their names,
// by everybody, so nobody waits in a circle. While etcd is out of reach it
// goes on trying until ctx ends; then the error wraps hg.ErrUnavailable.
func (c *Client) Acquire(ctx context.Context, repo RepoID, branches []string) (*Lease, error) {
	if err := checkRepo(repo); err != nil {
		return nil, err
	}
	for _, b := range branches {
		if err := checkBranch(b); err != nil {
			return nil, err
		}
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a := acquisition{c: c, repo: repo, rest: slices.Compact(slices.Sorted(slices.Values(branches)))}
	for len(a.rest) > 0 {
		branch := a.rest[0]
		err := a.step(ctx)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx) // its end crossed the answer
		}
		if err != nil {
			c.later(func(ctx context.Context) { c.giveBack(ctx, repo, a.held) })
			return nil, fmt.Errorf("acquire branch %q of %q: %w", branch, repo, err)
		}
	}
	return newLease(c, repo, a.held), nil
}

// An acquisition takes locks in order. Invariant: whenever it waits, it has no
// slot and no lock but those of branches before the one it waits for.
type acquisition struct {
	c    *Client
	repo RepoID
	rest []string // sorted
	held []*hold
}

// step takes the next lock, or several.
func (a *acquisition) step(ctx context.Context) error {
	branch := a.rest[0]
	g, err := a.c.takeSlot(ctx, slotKey{a.repo, branch})
	if err != nil {
		return err
	}
	if g.hold != nil {
		a.took(g.hold)
		return nil
	}
	if g.yield {
		sleep(ctx, yieldTime)
	} else if done, err := a.tryMany(ctx); done || err != nil {
		return err
	}
	h, err := a.c.lockAlone(ctx, a.repo, branch)
	if err != nil {
		a.c.passSlot(slotKey{a.repo, branch}, false)
		return err
	}
	a.took(h)
	return nil
}

func (a *acquisition) took(holds ...*hold) {
	a.held = append(a.held, holds...)
	a.rest = a.rest[len(holds):]
}

// tryMany takes the first branch, whose slot we have, with those after it that
// nobody here has, in one request. If any lock is taken it takes none, gives
// the slots after the first back, and returns false.
func (a *acquisition) tryMany(ctx context.Context) (bool, error) {
	// A lock takes one comparison and two operations.
	n := 1 + a.c.takeFree(a.repo, a.rest[1:], a.c.o.MaxTxnOps/2-1)
	if n == 1 {
		return false, nil
	}
	names := a.rest[:n]
	holds, _, err := a.c.lockOnce(ctx, a.repo, names, 0)
	if holds != nil {
		a.took(holds...)
		return true, nil
	}
	if err != nil && ctx.Err() != nil {
		names = append(names[1:n:n], names[0]) // the first one, too
	} else {
		names, err = names[1:], nil // lockAlone asks again
	}
	for _, b := range names {
		a.c.passSlot(slotKey{a.repo, b}, false)
	}
	return false, err
}

// lockAlone takes the lock of a branch whose slot the caller has, and waits
// while another process has it.
func (c *Client) lockAlone(ctx context.Context, repo RepoID, branch string) (*hold, error) {
	var wake chan struct{}
	ours := int64(0)
	for lost, failed := 0, 0; ; {
		holds, foreign, err := c.lockOnce(ctx, repo, []string{branch}, ours)
		ours = 0
		switch {
		case holds != nil:
			return holds[0], nil
		case err != nil && ctx.Err() != nil:
			return nil, gaveUp(ctx, err)
		case err != nil && settled(err) && !errors.Is(err, errNoSession):
			return nil, err
		case err != nil:
			if sleep(ctx, backoff(failed)); ctx.Err() != nil {
				return nil, gaveUp(ctx, err)
			}
			failed++
			continue
		case c.isOurs(foreign):
			// Nobody in this process has it, for we have the slot: it is left
			// of a request whose answer was lost, or of a session that was.
			ours = foreign.modRev
			continue
		case foreign.modRev == 0:
			continue // it went meanwhile
		}
		failed = 0
		if wake == nil {
			wake = c.waitLock(repo, branch)
			defer c.leaveLock(repo, branch)
		}
		if err := awaitTurn(ctx, wake, lost); err != nil {
			return nil, err
		}
		lost++
	}
}

// isOurs reports whether a lock was put by this Client.
func (c *Client) isOurs(lock item) bool {
	return strings.HasPrefix(string(lock.value), c.id+".")
}

// awaitTurn waits until a lock may have become free.
func awaitTurn(ctx context.Context, wake <-chan struct{}, lost int) error {
	poll := time.NewTimer(jitter(pollBase, pollMax, lost))
	defer poll.Stop()
	select {
	case <-wake:
		if lost > 1 {
			sleep(ctx, jitter(raceBase, raceMax, lost-2))
		}
	case <-poll.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lockOnce takes the locks of branches whose slots the caller has, all or
// none. If a lock is taken it returns no holds but the first such lock. A
// single lock that is ours already, at revision adopt, is put anew, so that
// its earlier life can't be used or released any more.
func (c *Client) lockOnce(ctx context.Context, repo RepoID, branches []string, adopt int64) ([]*hold, item, error) {
	sess, err := c.sessions.get(ctx)
	if err != nil {
		return nil, item{}, err
	}
	defer c.sessions.unref(sess)
	t := txn{name: "acquire"}
	for _, b := range branches {
		lock := c.keys.lock(repo, b)
		t.conds = append(t.conds, cond{key: lock, modRev: adopt})
		t.then = append(t.then,
			op{kind: opPut, key: lock, value: []byte(sess.token), lease: sess.id},
			op{kind: opGet, key: c.keys.head(repo, b)})
		t.els = append(t.els, op{kind: opGet, key: lock})
	}
	rctx, cancel := outlast(ctx)
	defer cancel()
	res, err := c.kv.txn(rctx, t)
	switch {
	case errors.Is(err, errNoSession):
		c.sessions.drop(sess, err)
		return nil, item{}, err
	case err != nil:
		if !settled(err) {
			c.sessions.retire(sess) // the request may yet arrive
		}
		return nil, item{}, err
	case res.ok:
		return newHolds(sess, branches, res), item{}, nil
	}
	for _, it := range res.items {
		if it.modRev != 0 {
			return nil, it, nil
		}
	}
	return nil, item{}, nil // the one to adopt went meanwhile
}

// outlast bounds a request that takes locks. It goes on for a moment after ctx
// ends, for its answer: without it the session would have to be retired.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(outlastTime, cancel) })
	return rctx, func() { stop(); cancel() }
}

func newHolds(sess *session, branches []string, res txnResult) []*hold {
	holds := make([]*hold, len(branches))
	for i, b := range branches {
		sess.hold()
		holds[i] = &hold{branch: b, sess: sess, rev: res.rev, head: res.items[2*i+1], since: time.Now()}
	}
	return holds
}
