package refs

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// buckets makes the etcd leases under which outcomes expire: one for all that
// are put in a span of time, since a lease for each would cost a request each.
type buckets struct {
	c      *Client
	span   time.Duration
	making chan struct{} // has room for one

	mu    sync.Mutex
	id    leaseID   // guarded by mu
	until time.Time // no use of id after that; guarded by mu
}

func newBuckets(c *Client) *buckets {
	return &buckets{c: c, span: c.o.Retention / 24, making: make(chan struct{}, 1)}
}

func (b *buckets) current() leaseID {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.until) {
		return b.id
	}
	return 0
}

// forget makes the next get grant another lease, because etcd lost this one.
func (b *buckets) forget(id leaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id == id {
		b.until = time.Time{}
	}
}

// get returns a lease that lives for Options.Retention at least.
func (b *buckets) get(ctx context.Context) (leaseID, error) {
	if id := b.current(); id != 0 {
		return id, nil
	}
	select {
	case b.making <- struct{}{}:
		defer func() { <-b.making }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if id := b.current(); id != 0 {
		return id, nil
	}
	var id leaseID
	start := time.Now()
	err := b.c.retry(ctx, func(ctx context.Context) (err error) {
		// One span for the time it is used, one for requests on their way.
		id, _, err = b.c.kv.grant(ctx, b.c.o.Retention+2*b.span)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("make a lease for outcomes: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.id, b.until = id, start.Add(b.span)
	return id, nil
}
