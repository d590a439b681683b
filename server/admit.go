package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"vcsd/hg"
)

// An admission is the bounded, fair queue before a push: nothing of a body is
// read until its sender has a slot.
type admission struct {
	slots    *semaphore.Weighted // first come, first served
	queued   atomic.Int64        // waiting for a slot
	maxQueue int64
	maxWait  time.Duration
	draining atomic.Bool // set once: nobody is admitted any more
}

func newAdmission(slots, queue int, wait time.Duration) *admission {
	return &admission{slots: semaphore.NewWeighted(int64(slots)), maxQueue: int64(queue), maxWait: wait}
}

// admit waits for a slot. The caller calls done when the push is over. Who
// gets none is told with hg.ErrUnavailable.
func (a *admission) admit(ctx context.Context) (done func(), err error) {
	if a.draining.Load() {
		return nil, fmt.Errorf("%w: the server is going down", hg.ErrUnavailable)
	}
	if !a.slots.TryAcquire(1) {
		if err := a.wait(ctx); err != nil {
			return nil, err
		}
		if a.draining.Load() {
			a.slots.Release(1)
			return nil, fmt.Errorf("%w: the server is going down", hg.ErrUnavailable)
		}
	}
	return func() { a.slots.Release(1) }, nil
}

func (a *admission) wait(ctx context.Context) error {
	defer a.queued.Add(-1)
	if a.queued.Add(1) > a.maxQueue {
		return fmt.Errorf("%w: too many pushes are waiting", hg.ErrUnavailable)
	}
	wait, cancel := context.WithTimeout(ctx, a.maxWait)
	defer cancel()
	if err := a.slots.Acquire(wait, 1); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: waited %v for other pushes", hg.ErrUnavailable, a.maxWait)
	}
	return nil
}

// drain admits nobody from now on.
func (a *admission) drain() { a.draining.Store(true) }
