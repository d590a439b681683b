package refstest

import (
	"errors"
	"sync/atomic"
	"time"

	"vcsd/refs"
)

// An outage makes requests fail while it is on.
type outage struct {
	on   atomic.Bool
	mode refs.Fault
	only map[string]bool // names of requests; nil means all
}

func (o *outage) fault(r refs.Request) refs.Fault {
	if o.on.Load() && (o.only == nil || o.only[r.Name]) {
		return o.mode
	}
	return refs.FaultNone
}

var sessionCases = []testCase{
	{name: "a node cut off loses its leases in time", run: func(b *bench) { cutOff(b, refs.FaultLoseRequest) }},
	{name: "a node whose requests hang loses its leases in time", run: func(b *bench) { cutOff(b, refs.FaultHang) }},
	{name: "the session lives as long as it is kept alive", bubble: true, run: func(b *bench) {
		x := b.node(refs.Options{})
		l := b.lock(x, "default")
		time.Sleep(10 * time.Minute)
		b.must(l.Err())
		b.mustPush(x, refs.Tip{}, 1, l)
		if s := x.Session(); !s.Live || s.Made != 1 || s.Lost != 0 {
			b.Errorf("session = %+v", s)
		}
	}},
	{name: "some lost heartbeats don't matter", bubble: true, run: func(b *bench) {
		n := 0
		x := b.node(refs.Options{Fault: func(r refs.Request) refs.Fault {
			if r.Name == "keepalive" {
				if n++; n%3 != 0 {
					return refs.FaultHang
				}
			}
			return refs.FaultNone
		}})
		l := b.lock(x, "default")
		time.Sleep(10 * time.Minute)
		b.must(l.Err())
	}},
	{name: "a lease ends at its time and not before", bubble: true, run: func(b *bench) {
		out := outage{mode: refs.FaultLoseRequest}
		x := b.node(refs.Options{TTL: 3 * time.Second, Fault: out.fault})
		l := b.lock(x, "default")
		out.on.Store(true)
		time.Sleep(3*time.Second - 1)
		b.must(l.Err())
		time.Sleep(time.Nanosecond)
		if err := l.Err(); !errors.Is(err, refs.ErrLeaseLost) {
			b.Errorf("lease after its TTL: %v, want ErrLeaseLost", err)
		}
		<-l.Done()
	}},
	{name: "close gives the locks up", run: func(b *bench) {
		x, y := b.open(refs.Options{TTL: time.Hour}), b.node(refs.Options{})
		l := b.lock(x, "default")
		waiting := b.lockLater(b.ctx, x, "default")
		next := b.lockLater(b.ctx, y, "default")
		b.must(x.Close())
		b.must(x.Close())
		if a := <-waiting; !errors.Is(a.err, refs.ErrClosed) {
			b.Errorf("Acquire during Close: %v, want ErrClosed", a.err)
		}
		b.unlock(b.got(next))
		<-l.Done()
		if err := l.Err(); !errors.Is(err, refs.ErrLeaseLost) {
			b.Errorf("lease after Close: %v, want ErrLeaseLost", err)
		}
		for name, err := range map[string]error{
			"Acquire": second(x.Acquire(b.ctx, b.repo, []string{"a"})),
			"Publish": second(b.push(x, refs.Tip{}, 1)),
			"Ready":   x.Ready(b.ctx),
			"Release": l.Release(b.ctx),
		} {
			if name != "Release" && !errors.Is(err, refs.ErrClosed) || name == "Release" && err != nil {
				b.Errorf("%s after Close: %v", name, err)
			}
		}
		if _, _, err := x.Tip(b.ctx, b.repo); !errors.Is(err, refs.ErrClosed) {
			b.Errorf("Tip after Close: %v", err)
		}
	}},
}

func second[T any](_ T, err error) error { return err }

// cutOff cuts a node off until its session is lost, and back in.
func cutOff(b *bench, mode refs.Fault) {
	out := outage{mode: mode}
	x, y := b.node(refs.Options{TTL: time.Second, Fault: out.fault}), b.node(refs.Options{})
	b.must(x.Ready(b.ctx))
	l, other := b.lock(x, "default"), b.lock(x, "other")
	next := b.lockLater(b.ctx, y, "default")
	start := time.Now()
	out.on.Store(true)
	<-l.Done()
	if d := time.Since(start); d > 4*time.Second {
		b.Errorf("loss was told after %v", d)
	}
	foreign := b.got(next)
	if err := l.Err(); !errors.Is(err, refs.ErrLeaseLost) {
		b.Errorf("lease after the loss: %v, want ErrLeaseLost", err)
	}
	if s := x.Session(); s.Live {
		b.Errorf("session after the loss = %+v", s)
	}
	out.on.Store(false)
	if _, err := b.push(x, refs.Tip{}, 1, l); !errors.Is(err, refs.ErrLeaseLost) {
		b.Errorf("publish after the loss: %v, want ErrLeaseLost", err)
	}
	b.unlock(l)
	t1 := b.mustPush(y, refs.Tip{}, 2, foreign)
	// A new session is made; what the old one held is free for it.
	b.unlock(other)
	b.mustPush(x, t1, 3, b.lock(x, "default", "other"))
	if s := x.Session(); !s.Live || s.Lost != 1 {
		b.Errorf("session in the end = %+v", s)
	}
}
