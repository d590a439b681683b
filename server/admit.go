package server

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"vcsd/hg"
)

// shareFactor is how many times as much as is free one repository, or one
// sender, may have: so something is always left for the next one, and what
// nobody else wants isn't left unused. Of 64 slots one repository gets 48, a
// second one then 12, a third one 3.
const shareFactor = 3

// An admission is the bounded, fair queue before a push: nothing of a body is
// read until its sender has a slot, which it keeps until the push is staged.
// After that it may wait for its turn, and holds nothing that others need.
type admission struct {
	maxWait  time.Duration // for a slot
	draining chan struct{} // closed by drain: nobody is admitted any more
	drainMu  sync.Once

	mu      sync.Mutex
	slots   int               // that are free; guarded by mu
	room    int               // pushes that may be in flight beside those that are; guarded by mu
	repos   map[string]*share // of those with a push in flight; guarded by mu
	senders map[string]*share // of those with a push in flight; guarded by mu
	waiting list.List         // of *ticket, in order of arrival; guarded by mu
}

// A share is what one repository or sender has of an admission. It is guarded
// by the admission's mu.
type share struct {
	slots    int
	inFlight int
}

// A ticket is a push in flight.
type ticket struct {
	a            *admission
	repo, sender string
	granted      chan struct{} // closed when it gets a slot

	// Guarded by admission.mu.
	place *list.Element // in the queue; nil if it isn't there
	slot  bool          // it has one
	left  bool
}

// newAdmission returns one where slots pushes are received and staged at once,
// and queue more may wait for a slot or, after that, for their turn.
func newAdmission(slots, queue int, wait time.Duration) *admission {
	return &admission{
		maxWait: wait, draining: make(chan struct{}), slots: slots, room: slots + queue,
		repos: make(map[string]*share), senders: make(map[string]*share),
	}
}

// admit waits for a slot. Who gets none is told with hg.ErrUnavailable. The
// caller calls done when the push is over, and may call staged before.
func (a *admission) admit(ctx context.Context, repo, sender string) (*ticket, error) {
	t, err := a.enter(repo, sender)
	if err != nil {
		return nil, err
	}
	if err := t.wait(ctx); err != nil {
		t.done()
		return nil, err
	}
	return t, nil
}

// enter counts a push as one in flight, without a slot: for what has no body.
func (a *admission) enter(repo, sender string) (*ticket, error) {
	if a.isDraining() {
		return nil, errGoingDown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r, s := shareOf(a.repos, repo), shareOf(a.senders, sender)
	switch {
	case a.room == 0:
		return nil, fmt.Errorf("%w: too many pushes are waiting", hg.ErrUnavailable)
	case r.inFlight >= shareFactor*a.room:
		return nil, fmt.Errorf("%w: too many pushes to this repository are waiting", hg.ErrUnavailable)
	case s.inFlight >= shareFactor*a.room:
		return nil, fmt.Errorf("%w: too many pushes of yours are waiting", hg.ErrUnavailable)
	}
	a.repos[repo], a.senders[sender] = r, s
	a.room--
	r.inFlight++
	s.inFlight++
	return &ticket{a: a, repo: repo, sender: sender, granted: make(chan struct{})}, nil
}

func shareOf(m map[string]*share, key string) *share {
	if s := m[key]; s != nil {
		return s
	}
	return new(share)
}

var errGoingDown = fmt.Errorf("%w: the server is going down", hg.ErrUnavailable)

// wait returns when the push has a slot.
func (t *ticket) wait(ctx context.Context) error {
	t.enqueue()
	timer := time.NewTimer(t.a.maxWait)
	defer timer.Stop()
	select {
	case <-t.granted:
		return nil
	case <-t.a.draining:
		return errGoingDown
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%w: waited %v for other pushes", hg.ErrUnavailable, t.a.maxWait)
	}
}

func (t *ticket) enqueue() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.place = t.a.waiting.PushBack(t)
	t.a.grantLocked()
}

// staged gives the slot back while the push goes on.
func (t *ticket) staged() {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	t.releaseLocked()
}

func (t *ticket) releaseLocked() {
	if !t.slot {
		return
	}
	t.slot = false
	t.a.slots++
	t.a.repos[t.repo].slots--
	t.a.senders[t.sender].slots--
	t.a.grantLocked()
}

// done ends the push, wherever it is.
func (t *ticket) done() {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if t.place != nil {
		a.waiting.Remove(t.place)
		t.place = nil
	}
	t.releaseLocked()
	a.room++
	leave(a.repos, t.repo)
	leave(a.senders, t.sender)
}

func leave(m map[string]*share, key string) {
	s := m[key]
	if s.inFlight--; s.inFlight == 0 {
		delete(m, key)
	}
}

// grantLocked gives slots away while somebody may have one.
func (a *admission) grantLocked() {
	for a.slots > 0 {
		t := a.nextLocked()
		if t == nil {
			return
		}
		a.waiting.Remove(t.place)
		t.place, t.slot = nil, true
		a.slots--
		a.repos[t.repo].slots++
		a.senders[t.sender].slots++
		close(t.granted)
	}
}

// nextLocked returns who gets the next slot: of those whose repository has the
// fewest, the one whose sender has the fewest, and of those the first. Nil
// means that all who wait have their share.
func (a *admission) nextLocked() *ticket {
	var best *ticket
	var bestRepo, bestSender int
	for e := a.waiting.Front(); e != nil; e = e.Next() {
		t := e.Value.(*ticket)
		r, s := a.repos[t.repo].slots, a.senders[t.sender].slots
		if max(r, s) >= shareFactor*a.slots {
			continue
		}
		if best == nil || r < bestRepo || r == bestRepo && s < bestSender {
			best, bestRepo, bestSender = t, r, s
		}
		if bestRepo == 0 && bestSender == 0 {
			break
		}
	}
	return best
}

// queued returns how many pushes wait for a slot.
func (a *admission) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting.Len()
}

// drain admits nobody from now on, nor those who wait.
func (a *admission) drain() { a.drainMu.Do(func() { close(a.draining) }) }

func (a *admission) isDraining() bool {
	select {
	case <-a.draining:
		return true
	default:
		return false
	}
}
