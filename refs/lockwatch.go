package refs

import (
	"context"
	"strings"
	"time"
)

// A lockWatch wakes those who wait for locks that other processes hold: one
// watch for all branches of a repository, as long as somebody waits and a
// while longer. (A watch for each wait would start in the past, which etcd
// serves with a delay of up to 100 ms.) All fields are guarded by Client.mu.
type lockWatch struct {
	// waiting holds a channel with room for one for each branch: only the
	// owner of a slot waits for its lock.
	waiting map[string]chan struct{}
	cancel  context.CancelFunc // nil: not running
	stands  bool               // changes are being reported
	idle    *time.Timer        // runs while nobody waits
}

// lingerTime is how long a watch stays when nobody waits.
const lingerTime = 10 * time.Second

// waitLock makes wake receive whenever the lock of branch may have become
// free, first when the watch stands: look at the lock then. The caller must
// end it with leaveLock.
func (c *Client) waitLock(repo RepoID, branch string) (wake chan struct{}) {
	wake = make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.repoLocked(repo).watch
	if w.waiting == nil {
		w.waiting = map[string]chan struct{}{}
	}
	w.waiting[branch] = wake
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
	switch {
	case w.stands:
		wake <- struct{}{}
	case w.cancel == nil && !c.closed:
		ctx, cancel := context.WithCancel(c.ctx)
		w.cancel = cancel
		c.wg.Go(func() { c.watchLocks(ctx, repo, w) })
	}
	return wake
}

func (c *Client) leaveLock(repo RepoID, branch string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := &c.repoLocked(repo).watch
	delete(w.waiting, branch)
	if len(w.waiting) == 0 && w.cancel != nil && !c.closed {
		w.idle = time.AfterFunc(lingerTime, func() { c.endIdleWatch(w) })
	}
}

// endIdleWatch ends w if still nobody waits.
func (c *Client) endIdleWatch(w *lockWatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.waiting) == 0 && w.cancel != nil {
		w.cancel()
		w.cancel = nil
		w.stands = false
	}
}

// watchLocks keeps the watch up until ctx ends.
func (c *Client) watchLocks(ctx context.Context, repo RepoID, w *lockWatch) {
	prefix := c.keys.locks(repo)
	for n := 0; ctx.Err() == nil; n++ {
		for evs := range c.kv.watch(ctx, prefix) {
			n = 0
			c.wakeWaiters(ctx, w, prefix, evs)
		}
		c.mu.Lock()
		if ctx.Err() == nil { // else w may be another goroutine's by now
			w.stands = false
		}
		c.mu.Unlock()
		sleep(ctx, backoff(n))
	}
}

// wakeWaiters tells waiters of the locks that went; no events means that the
// watch stands, and wakes all.
func (c *Client) wakeWaiters(ctx context.Context, w *lockWatch, prefix string, evs []event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if len(evs) == 0 {
		w.stands = true
		for _, wake := range w.waiting {
			poke(wake)
		}
	}
	for _, e := range evs {
		if wake := w.waiting[strings.TrimPrefix(e.key, prefix)]; wake != nil && e.deleted {
			poke(wake)
		}
	}
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
