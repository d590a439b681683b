package refs

import (
	"context"
	"fmt"
	"sync"
)

// tipReads lets readers of one tip share requests. A reader joins only a
// request that starts after it came: the answer is no older than its question.
type tipReads struct {
	mu      sync.Mutex
	running bool     // guarded by mu
	next    *tipRead // the request that starts next; guarded by mu
}

type tipRead struct {
	done chan struct{} // closed when the others are set
	tip  Tip
	ok   bool
	err  error
}

// Tip implements Store. Concurrent calls share requests.
func (c *Client) Tip(ctx context.Context, repo RepoID) (Tip, bool, error) {
	if err := checkRepo(repo); err != nil {
		return Tip{}, false, err
	}
	r, err := c.joinTipRead(repo)
	if err != nil {
		return Tip{}, false, err
	}
	select {
	case <-r.done:
		return r.tip, r.ok, r.err
	case <-ctx.Done():
		return Tip{}, false, context.Cause(ctx)
	}
}

func (c *Client) joinTipRead(repo RepoID) (*tipRead, error) {
	t := &c.repo(repo).tips
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = &tipRead{done: make(chan struct{})}
	}
	r := t.next
	if !t.running {
		if !c.spawn(func() { c.readTips(repo, t) }) {
			return nil, ErrClosed
		}
		t.running = true
	}
	return r, nil
}

// readTips reads until nobody has asked since the last read began.
func (c *Client) readTips(repo RepoID, t *tipReads) {
	for {
		t.mu.Lock()
		r := t.next
		t.next = nil
		t.running = r != nil
		t.mu.Unlock()
		if r == nil {
			return
		}
		r.tip, r.ok, r.err = c.readTip(c.ctx, repo)
		close(r.done)
	}
}

func (c *Client) readTip(ctx context.Context, repo RepoID) (Tip, bool, error) {
	it, err := c.get(ctx, "tip", c.keys.tip(repo))
	if err != nil {
		return Tip{}, false, fmt.Errorf("read tip of %q: %w", repo, err)
	}
	return itemTip(it)
}

// WatchTips sends the published tip as soon as there is one, then each later
// one. A receiver that is slow misses those between; a zero Tip means that the
// repository was deleted. The channel closes when ctx ends or the Client is
// closed.
func (c *Client) WatchTips(ctx context.Context, repo RepoID) <-chan Tip {
	out := make(chan Tip, 1)
	ctx, cancel := c.bound(ctx)
	ok := checkRepo(repo) == nil && c.spawn(func() {
		defer close(out)
		defer cancel()
		w := tipWatch{out: out}
		for n := 0; ctx.Err() == nil; n++ {
			c.followTip(ctx, repo, &w)
			sleep(ctx, backoff(n))
		}
	})
	if !ok {
		cancel()
		close(out)
	}
	return out
}

// followTip sends tips until ctx ends or the watch breaks.
func (c *Client) followTip(ctx context.Context, repo RepoID, w *tipWatch) {
	ctx, cancel := context.WithCancel(ctx)
	events := c.kv.watch(ctx, c.keys.tip(repo))
	defer func() {
		cancel()
		for range events {
		}
	}()
	for evs := range events {
		if len(evs) > 0 {
			w.send(evs[len(evs)-1].item)
			continue
		}
		// The watch stands: what was published before is read, what comes
		// after is told.
		it, err := c.get(ctx, "tip", c.keys.tip(repo))
		if err != nil {
			return
		}
		w.send(it)
	}
}

// tipWatch sends tips in order, and only the latest that was not received.
type tipWatch struct {
	out  chan Tip // has room for one
	sent item     // the latest sent
}

func (w *tipWatch) send(it item) {
	if it.modRev != 0 && it.modRev <= w.sent.modRev {
		return // older than what was sent
	}
	var t Tip
	if it.value == nil { // there is none, or no more
		if w.sent.value == nil {
			return
		}
	} else {
		var err error
		if t, err = parseTip(it.value); err != nil {
			return // Tip tells what is wrong with it
		}
	}
	w.sent = it
	select {
	case <-w.out:
	default:
	}
	w.out <- t
}
