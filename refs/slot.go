package refs

import (
	"context"
	"slices"
	"time"
)

// A slotKey names a branch of a repository.
type slotKey struct {
	repo   RepoID
	branch string
}

// A slot is a branch in local hands, and those who wait for it in this
// process, first come first served.
type slot struct {
	waiters []chan grant // each has room for one
}

// A grant puts a slot into the receiver's hands.
type grant struct {
	hold *hold // the lock, if it comes with the slot
	// yield asks the receiver to give other processes a chance first.
	yield bool
}

// A hold is a lock in etcd that this process holds. It belongs to whoever has
// its slot.
type hold struct {
	branch string
	sess   *session // holds a reference
	rev    int64    // mod revision of the lock key: what proves that it's ours
	head   item     // the branch's head key
	since  time.Time
	passed int  // how often it was handed on
	yield  bool // it was not handed on because it is the turn of others
}

// Waiting returns how many calls of Acquire wait for a branch that somebody
// has, in this process or in another one.
func (c *Client) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.slots {
		n += len(s.waiters)
	}
	for _, st := range c.repos {
		n += len(st.watch.waiting)
	}
	return n
}

// takeSlot waits for a branch's slot.
func (c *Client) takeSlot(ctx context.Context, k slotKey) (grant, error) {
	c.mu.Lock()
	s := c.slots[k]
	if s == nil {
		c.slots[k] = &slot{}
		c.mu.Unlock()
		return grant{}, nil
	}
	w := make(chan grant, 1)
	s.waiters = append(s.waiters, w)
	c.mu.Unlock()
	select {
	case g := <-w:
		return g, nil
	case <-ctx.Done():
	}
	c.leaveQueue(k, w)
	return grant{}, context.Cause(ctx)
}

// leaveQueue ends the wait of w, which may have been served meanwhile.
func (c *Client) leaveQueue(k slotKey, w chan grant) {
	c.mu.Lock()
	if s := c.slots[k]; s != nil {
		s.waiters = slices.DeleteFunc(s.waiters, func(o chan grant) bool { return o == w })
	}
	c.mu.Unlock()
	select {
	case g := <-w:
		if g.hold == nil {
			c.passSlot(k, g.yield)
		} else if !c.hand(k, g.hold) {
			c.later(func(ctx context.Context) { c.unlock(ctx, k.repo, []*hold{g.hold}) })
		}
	default:
	}
}

// takeFree takes the slots of the branches at the start of the list that
// nobody has, at most n, and returns how many those are.
func (c *Client) takeFree(repo RepoID, branches []string, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range branches[:min(n, len(branches))] {
		k := slotKey{repo, b}
		if c.slots[k] != nil {
			return i
		}
		c.slots[k] = &slot{}
	}
	return min(n, len(branches))
}

// passSlot gives a slot, without its lock, to the next waiter or up.
func (c *Client) passSlot(k slotKey, yield bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slots[k]
	if len(s.waiters) == 0 {
		delete(c.slots, k)
		return
	}
	w := s.waiters[0]
	s.waiters = s.waiters[1:]
	w <- grant{yield: yield}
}

// mayHand reports whether h would be handed on in this process.
func (c *Client) mayHand(k slotKey, h *hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mayHandLocked(k, h)
}

// Cohort hand-over: a lock goes round in one process without a request, but
// not for ever.
func (c *Client) mayHandLocked(k slotKey, h *hold) bool {
	wanted := len(c.slots[k].waiters) > 0 && h.sess.usable()
	more := h.passed < c.o.HandOvers && time.Since(h.since) < c.o.HoldTime
	h.yield = wanted && !more
	return wanted && more
}

// hand gives a slot with its lock to the next waiter, if there is one and it
// is not the turn of another process.
func (c *Client) hand(k slotKey, h *hold) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mayHandLocked(k, h) {
		return false
	}
	s := c.slots[k]
	w := s.waiters[0]
	s.waiters = s.waiters[1:]
	h.passed++
	w <- grant{hold: h}
	return true
}

// later runs f in the background, for a bounded time.
func (c *Client) later(f func(context.Context)) {
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, releaseTime)
		defer cancel()
		f(ctx)
	})
}

// releaseTime bounds how long the release of a lock is tried. After it the
// session is given up, and the lock with it.
const releaseTime = 5 * time.Second

// giveBack releases holds: hands them on in this process, or removes the locks
// and passes the slots on.
func (c *Client) giveBack(ctx context.Context, repo RepoID, holds []*hold) {
	var rest []*hold
	for _, h := range holds {
		if !c.hand(slotKey{repo, h.branch}, h) {
			rest = append(rest, h)
		}
	}
	c.unlock(ctx, repo, rest)
}

// unlock removes the locks of holds and passes their slots on.
func (c *Client) unlock(ctx context.Context, repo RepoID, holds []*hold) {
	for some := range slices.Chunk(holds, c.o.MaxTxnOps) {
		if !c.removeLocks(ctx, repo, some) && len(some) > 1 {
			for _, h := range some {
				c.removeLocks(ctx, repo, []*hold{h})
			}
		}
		for _, h := range some {
			c.passHold(repo, h)
		}
	}
}

// passHold passes on the slot of a hold whose lock is gone, or is to go with
// its session.
func (c *Client) passHold(repo RepoID, h *hold) {
	c.sessions.unref(h.sess)
	c.passSlot(slotKey{repo, h.branch}, h.yield)
}

// removeLocks removes locks if all of them are still ours; else false.
func (c *Client) removeLocks(ctx context.Context, repo RepoID, holds []*hold) bool {
	t := txn{name: "release"}
	for _, h := range holds {
		if h.sess.expired() {
			continue // they go with the session's lease
		}
		key := c.keys.lock(repo, h.branch)
		t.conds = append(t.conds, cond{key: key, modRev: h.rev})
		t.then = append(t.then, op{kind: opDel, key: key})
	}
	if len(t.conds) == 0 {
		return true
	}
	var res txnResult
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		res, err = c.kv.txn(ctx, t)
		return err
	})
	if err != nil {
		for _, h := range holds {
			c.sessions.retire(h.sess)
		}
		return true
	}
	return res.ok
}
