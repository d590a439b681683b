package quarantine

import (
	"context"
	"fmt"
	"runtime/debug"

	"vcsd/hg"
)

// flight is a function that Do runs for its callers.
type flight struct {
	done   chan struct{} // closed when the results stand
	cancel context.CancelFunc
	key    Digest

	// waiters is how many callers wait. When the last one leaves, the flight is
	// cancelled, and nobody joins it any more. Guarded by Area.mu.
	waiters   int
	cancelled bool // guarded by Area.mu

	value any // these are read after done
	err   error
	panic *PanicError
}

// A PanicError is what Do panics with when the function did.
type PanicError struct {
	Value any
	Stack []byte // where it happened
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v\n\n%s", e.Value, e.Stack) }

// Do runs f, or if it runs already for the same digest, waits for that one and
// shares its result. The context of f has the values of the first caller's, but
// ends only when every caller has gone: the cancellation of one is its own
// matter. The directory of the digest, if there is one, stays while f runs. All
// callers for one digest must use the same T.
//
// Equal payloads of different senders share a result too: whoever may not send
// must be turned away before.
func Do[T any](ctx context.Context, a *Area, d Digest, f func(context.Context) (T, error)) (T, error) {
	return do(ctx, a, flightOf{key: d}, f)
}

// DoWith is Do for callers who share a result only with those of the same key,
// which is not the payload's digest alone. The directory stays while f runs.
// The caller holds d until DoWith returns. joined is called, unless it is nil, if
// the result will be that of another caller's f.
func DoWith[T any](ctx context.Context, d *Dir, key Digest, joined func(), f func(context.Context) (T, error)) (T, error) {
	return do(ctx, d.e.a, flightOf{key: key, dir: d.e, joined: joined}, f)
}

// flightOf tells which flight is wanted, and which directory it needs; nil
// means that of the key, if there is one.
type flightOf struct {
	key    Digest
	dir    *entry
	joined func()
}

func do[T any](ctx context.Context, a *Area, want flightOf, f func(context.Context) (T, error)) (T, error) {
	var none T
	fl, joined, err := a.join(ctx, want, func(ctx context.Context) (any, error) { return f(ctx) })
	if err != nil {
		return none, err
	}
	if joined && want.joined != nil {
		want.joined()
	}
	select {
	case <-fl.done:
	case <-ctx.Done():
		a.leave(fl)
		return none, ctx.Err()
	}
	if fl.panic != nil {
		panic(fl.panic)
	}
	if v, ok := fl.value.(T); ok {
		return v, fl.err
	}
	return none, fl.err
}

// join returns the flight wanted with the caller as one of its waiters, and
// starts it if there is none; joined tells which. A flight that is being
// cancelled is waited for: two never run for one key.
func (a *Area) join(ctx context.Context, want flightOf, f func(context.Context) (any, error)) (fl *flight, joined bool, err error) {
	for {
		fl, joined, dying, err := a.tryJoin(ctx, want, f)
		if fl != nil || err != nil {
			return fl, joined, err
		}
		select {
		case <-dying:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

func (a *Area) tryJoin(ctx context.Context, want flightOf, f func(context.Context) (any, error)) (fl *flight, joined bool, dying <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false, nil, hg.ErrUnavailable
	}
	if fl := a.flights[want.key]; fl != nil {
		if fl.cancelled {
			return nil, false, fl.done, nil
		}
		fl.waiters++
		return fl, true, nil, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fl = &flight{done: make(chan struct{}), cancel: cancel, key: want.key, waiters: 1}
	a.flights[want.key] = fl
	e := want.dir
	if e == nil {
		e = a.entries[want.key]
	}
	if e != nil {
		e.refs++
	}
	a.running.Add(1)
	go a.run(ctx, fl, e, f)
	return fl, false, nil, nil
}

func (a *Area) run(ctx context.Context, fl *flight, e *entry, f func(context.Context) (any, error)) {
	defer a.running.Done()
	defer close(fl.done)
	defer fl.cancel()
	defer func() {
		a.mu.Lock()
		delete(a.flights, fl.key)
		a.mu.Unlock()
		if e != nil {
			// Its result stands whether or not the garbage goes now.
			_ = a.release(e)
		}
	}()
	defer func() {
		if r := recover(); r != nil {
			fl.panic = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	fl.value, fl.err = f(ctx)
}

func (a *Area) leave(fl *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fl.waiters--
	if fl.waiters == 0 {
		fl.cancelled = true
		fl.cancel()
	}
}
