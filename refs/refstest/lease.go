package refstest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"vcsd/refs"
)

var leaseCases = []testCase{
	{name: "waiters of one process come first come first served", run: func(b *bench) {
		x := b.node(refs.Options{})
		l := b.lock(x, "default")
		var waiting []<-chan acquired
		for range 8 {
			waiting = append(waiting, b.lockLater(b.ctx, x, "default"))
		}
		for i, w := range waiting {
			b.unlock(l)
			l = b.got(w)
			for j, later := range waiting[i+1:] {
				if len(later) > 0 {
					b.Fatalf("waiter %d was served before %d", i+1+j, i)
				}
			}
		}
		b.unlock(l)
	}},
	{name: "a lock is handed on without a request", run: func(b *bench) {
		var asked atomic.Int32
		x := b.node(refs.Options{HoldTime: time.Hour, Fault: func(r refs.Request) refs.Fault {
			if r.Name == "acquire" || r.Name == "release" {
				asked.Add(1)
			}
			return refs.FaultNone
		}})
		l, tip := b.lock(x, "default"), refs.Tip{}
		for i := range byte(10) {
			next := b.lockLater(b.ctx, x, "default")
			tip = b.mustPush(x, tip, i, l)
			l = b.got(next)
			if h := l.Heads("default"); string(h) != string(headOf(tip)) {
				b.Fatalf("head handed on = %q, want %q", h, headOf(tip))
			}
		}
		b.unlock(l)
		if n := asked.Load(); n != 2 {
			b.Errorf("%d requests for the lock, want 2: one to take it, one to release it", n)
		}
	}},
	{name: "processes exclude each other", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(x, "default")
		b.unlock(b.lock(y, "stable")) // another branch is free
		for range 3 {
			next := b.lockLater(b.ctx, y, "default")
			if len(next) > 0 {
				b.Fatal("two have the lock")
			}
			b.unlock(l)
			l = b.got(next)
			x, y = y, x
		}
		b.unlock(l)
	}},
	{name: "one process doesn't keep a lock for ever", run: func(b *bench) {
		x, y := b.node(refs.Options{HandOvers: 4}), b.node(refs.Options{})
		ctx, stop := context.WithCancel(b.ctx)
		ended := make(chan int)
		for range 4 {
			go func() {
				n := 0
				for ; ctx.Err() == nil; n++ {
					if l, err := x.Acquire(ctx, b.repo, []string{"default"}); err == nil {
						_ = l.Release(ctx)
					}
				}
				ended <- n
			}()
		}
		b.until("x is busy", func() bool { return x.Waiting() > 0 })
		for range 3 {
			b.unlock(b.lock(y, "default"))
		}
		stop()
		for range 4 {
			<-ended
		}
	}},
	{name: "one process doesn't keep a lock for long", bubble: true, run: func(b *bench) {
		x, y := b.node(refs.Options{HandOvers: 1 << 30, HoldTime: time.Second}), b.node(refs.Options{})
		l := b.lock(x, "default")
		foreign := b.lockLater(b.ctx, y, "default")
		start := time.Now()
		for len(foreign) == 0 {
			next := b.lockLater(b.ctx, x, "default")
			time.Sleep(100 * time.Millisecond)
			b.unlock(l)
			select {
			case a := <-next:
				l = a.lease
			case a := <-foreign:
				if d := time.Since(start); d > 1500*time.Millisecond {
					b.Errorf("another process got the lock after %v", d)
				}
				b.unlock(a.lease)
				b.unlock(b.got(next))
				return
			}
		}
	}},
	{name: "a cancelled wait leaves nothing behind", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(x, "default")
		ctx, cancel := context.WithCancelCause(b.ctx)
		mine := errors.New("mine")
		local, foreign := b.lockLater(ctx, x, "default"), b.lockLater(ctx, y, "default")
		behind := b.lockLater(b.ctx, y, "default") // in the queue behind foreign
		cancel(mine)
		for _, w := range []<-chan acquired{local, foreign} {
			if a := <-w; !errors.Is(a.err, mine) {
				b.Errorf("cancelled Acquire: %v, want the cause", a.err)
			}
		}
		b.unlock(l)
		b.unlock(b.got(behind))
		b.unlock(b.lock(x, "default"))
		if _, err := x.Acquire(ctx, b.repo, []string{"other"}); !errors.Is(err, mine) {
			b.Errorf("Acquire with an ended context: %v", err)
		}
		b.unlock(b.lock(y, "other"))
	}},
	{name: "all branches or none", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(y, "b")
		ctx, cancel := context.WithCancel(b.ctx)
		w := b.lockLater(ctx, x, "c", "b", "a")
		cancel()
		if a := <-w; !errors.Is(a.err, context.Canceled) {
			b.Fatalf("Acquire: %v, want canceled", a.err)
		}
		b.unlock(b.lock(y, "a", "c"))
		b.unlock(l)
		b.unlock(b.lock(y, "a", "b", "c"))
	}},
	{name: "no branches", run: func(b *bench) {
		x := b.node(refs.Options{})
		l := b.lock(x)
		b.mustPush(x, refs.Tip{}, 1, l)
	}},
	{name: "release twice", run: func(b *bench) {
		x := b.node(refs.Options{})
		l := b.lock(x, "default")
		b.unlock(l, l)
		if err := l.Err(); !errors.Is(err, refs.ErrReleased) {
			b.Errorf("released lease: %v", err)
		}
		<-l.Done()
		if _, err := b.push(x, refs.Tip{}, 1, l); !errors.Is(err, refs.ErrReleased) {
			b.Errorf("publish with a released lease: %v", err)
		}
	}},
}
