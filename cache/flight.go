package cache

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sync/singleflight"
)

// flightKey names equal loads. The values of a growing cache are the same at
// every seq, so there seq is 0.
type flightKey[K comparable] struct {
	key K
	seq uint64
}

// name is the flight's key in the singleflight group.
func (k flightKey[K]) name() string { return fmt.Sprintf("%#v@%d", k.key, k.seq) }

// A flight is what the cache knows of a load beside its result, which the
// singleflight group hands to those who wait for it.
type flight[V any] struct {
	value  V // set by the load
	cancel context.CancelFunc

	// Guarded by Cache.mu.
	waiters int
	refresh bool   // runs to its end even if nobody waits
	keep    bool   // the result goes into the cache
	seq     uint64 // of the entry
}

// panicError carries a load's panic to the goroutine that asked for it.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("load panicked: %v\n%s", e.value, e.stack) }

// joinLocked waits on result for the load of key at seq that is under way, or
// starts it. Loads that a touch abandoned are found no more.
func (c *Cache[K, V]) joinLocked(ctx context.Context, key K, seq uint64, load func(context.Context) (V, int64, error)) (f *flight[V], result <-chan singleflight.Result, started bool) {
	k := flightKey[K]{key, seq}
	if c.o.Grows {
		k.seq = 0
	}
	if f, ok := c.flights[k]; ok {
		return f, c.group.DoChan(k.name(), nil), false
	}
	last := c.touches.last(key)
	f = &flight[V]{keep: seq >= last, seq: seq}
	if c.o.Grows {
		// The load sees all that was told of until now.
		f.keep, f.seq = true, max(seq, last)
	}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.flights[k] = f
	c.stats.Loads++
	c.loads.Add(1)
	result = c.group.DoChan(k.name(), func() (any, error) { return nil, c.fly(ctx, k, f, load) })
	return f, result, true
}

// fly runs a load and keeps its result.
func (c *Cache[K, V]) fly(ctx context.Context, k flightKey[K], f *flight[V], load func(context.Context) (V, int64, error)) error {
	defer c.loads.Done()
	defer f.cancel()
	start := time.Now()
	cost, err := f.run(ctx, load)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flights[k] == f {
		// With mu held, so that nobody joins a load that is over.
		c.forgetLocked(k)
	}
	if now, ok := c.entries.Peek(k.key); err == nil && f.keep && (!ok || now.seq <= f.seq) {
		c.storeLocked(k.key, &entry[V]{f.value, cost, f.seq, time.Now(), time.Since(start)})
	}
	return err
}

// forgetLocked lets nobody join a flight any more.
func (c *Cache[K, V]) forgetLocked(k flightKey[K]) {
	delete(c.flights, k)
	c.group.Forget(k.name())
}

// run calls load and sets value. A panic becomes an error: here it would end
// the process, with the goroutine that asked it ends one request.
func (f *flight[V]) run(ctx context.Context, load func(context.Context) (V, int64, error)) (cost int64, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	f.value, cost, err = load(ctx)
	return cost, err
}

// wait waits for a flight that it was counted into. retry is set if the load
// of somebody else failed: the error may concern nobody but them.
func (c *Cache[K, V]) wait(ctx context.Context, f *flight[V], result <-chan singleflight.Result, own bool) (v V, err error, retry bool) {
	select {
	case r := <-result:
		err = r.Err
	case <-ctx.Done():
		c.leave(f)
		return v, ctx.Err(), false
	}
	if err == nil {
		return f.value, nil, false
	}
	if !own {
		return v, nil, true
	}
	if p, ok := err.(*panicError); ok {
		panic(p)
	}
	return v, err, false
}

// leave takes a waiter out of a flight; the last one ends it.
func (c *Cache[K, V]) leave(f *flight[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiters--; f.waiters > 0 || f.refresh {
		return
	}
	f.cancel()
	for k, g := range c.flights {
		if g == f {
			// Whoever comes now must not get the cancellation.
			c.abandonLocked(k, f)
		}
	}
}

// abandonLocked leaves a flight to those who wait for it.
func (c *Cache[K, V]) abandonLocked(k flightKey[K], f *flight[V]) {
	f.keep = false
	c.forgetLocked(k)
}
