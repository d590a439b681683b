package refstest

import (
	"context"
	"errors"
	"sync"
	"time"

	"vcsd/hg"
	"vcsd/refs"
)

// A script makes the first requests of some names fail, one after another, and
// counts all.
type script struct {
	mu     sync.Mutex
	faults map[string][]refs.Fault
	count  map[string]int
	before map[string]func() // runs before the first request of a name
}

func (s *script) fault(r refs.Request) refs.Fault {
	s.mu.Lock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	s.count[r.Name]++
	verdict := refs.FaultNone
	if f := s.faults[r.Name]; len(f) > 0 {
		verdict, s.faults[r.Name] = f[0], f[1:]
	}
	before := s.before[r.Name]
	delete(s.before, r.Name)
	s.mu.Unlock()
	if before != nil {
		before()
	}
	return verdict
}

func (s *script) seen(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[name]
}

const (
	loseRequest = refs.FaultLoseRequest
	loseAnswer  = refs.FaultLoseAnswer
	late        = refs.FaultLate
)

var faultCases = []testCase{
	{name: "answer of publish lost", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {loseAnswer}}, 1)
	}},
	{name: "request of publish lost", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {loseRequest}}, 2)
	}},
	{name: "publish comes late and finds the fence", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {late}}, 2)
	}},
	{name: "publish comes late, again and again", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {late, late, loseRequest, late}}, 5)
	}},
	{name: "answers of publish and of the question lost", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {loseAnswer}, "settle": {loseAnswer, loseRequest, loseAnswer}}, 1)
	}},
	{name: "request of publish and answers of the question lost", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {loseRequest}, "settle": {loseRequest, loseAnswer, loseAnswer}}, 2)
	}},
	{name: "the question comes late", run: func(b *bench) {
		settled(b, map[string][]refs.Fault{"publish": {late}, "settle": {late, late}}, 2)
	}},
	{name: "others publish before the question", run: func(b *bench) {
		y := b.node(refs.Options{})
		t1 := after(refs.Tip{}, 1)
		s := script{faults: map[string][]refs.Fault{"publish": {loseAnswer}}}
		s.before = map[string]func(){"settle": func() {
			for i, tip := 0, t1; i < 3; i++ {
				tip = b.mustPush(y, tip, 2, b.lock(y, "default"))
			}
		}}
		x := b.node(refs.Options{Fault: s.fault})
		b.mustPush(x, refs.Tip{}, 1, b.lock(x, "default"))
		if tip := b.tip(x); tip.Seq != 4 {
			b.Errorf("tip at seq %d, want 4", tip.Seq)
		}
	}},
	{name: "others publish instead", run: func(b *bench) {
		y := b.node(refs.Options{})
		s := script{faults: map[string][]refs.Fault{"publish": {late}}}
		s.before = map[string]func(){"settle": func() { b.mustPush(y, refs.Tip{}, 2) }}
		x := b.node(refs.Options{Fault: s.fault})
		l := b.lock(x, "default")
		_, err := b.push(x, refs.Tip{}, 1, l)
		if !errors.Is(err, refs.ErrTipMoved) {
			b.Fatalf("publish: %v, want ErrTipMoved", err)
		}
		b.mustPush(x, after(refs.Tip{}, 2), 3, l)
	}},
	{name: "nobody answers: unknown, and it took place", run: func(b *bench) { unknown(b, loseAnswer) }},
	{name: "nobody answers: unknown, and it did not take place", run: func(b *bench) { unknown(b, loseRequest) }},
	{name: "etcd stays away after an unknown outcome", run: func(b *bench) {
		const settleTime = 100 * time.Millisecond
		out := outage{mode: loseRequest}
		x := b.open(refs.Options{SettleTime: settleTime, Fault: out.fault})
		tip := b.mustPush(x, refs.Tip{}, 1)
		out.on.Store(true)
		if _, err := b.push(x, tip, 2); !errors.Is(err, refs.ErrUnknownOutcome) {
			b.Errorf("first publish: %v, want ErrUnknownOutcome", err)
		}
		start := time.Now()
		if _, err := b.push(x, tip, 2); !errors.Is(err, hg.ErrUnavailable) {
			b.Errorf("second publish: %v, want hg.ErrUnavailable", err)
		}
		if took := time.Since(start); took > 10*settleTime {
			b.Errorf("second publish gave up after %v, want %v", took, settleTime)
		}
		b.must(x.Close())
	}},
	{name: "follow-ups lost", run: func(b *bench) {
		s := script{faults: map[string][]refs.Fault{"follow": {loseAnswer, loseRequest, late}}}
		x, y := b.node(refs.Options{MaxTxnOps: 16, Fault: s.fault}), b.node(refs.Options{})
		branches := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"}
		tip := b.mustPush(x, refs.Tip{}, 1, b.lock(x, branches...))
		l := b.lock(y, branches...)
		for _, branch := range branches {
			if h := l.Heads(branch); string(h) != string(headOf(tip)) {
				b.Errorf("head of %q = %q, want %q", branch, h, headOf(tip))
			}
		}
	}},
	{name: "answer of acquire lost", run: func(b *bench) { acquireFault(b, loseAnswer) }},
	{name: "request of acquire lost", run: func(b *bench) { acquireFault(b, loseRequest) }},
	{name: "acquire comes late", run: func(b *bench) { acquireFault(b, late) }},
	{name: "acquire given up comes late", run: func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		s := script{
			faults: map[string][]refs.Fault{"acquire": {late}},
			before: map[string]func(){"acquire": cancel},
		}
		x, y := b.node(refs.Options{TTL: time.Hour, Fault: s.fault}), b.node(refs.Options{})
		if _, err := x.Acquire(ctx, b.repo, []string{"a"}); !errors.Is(err, context.Canceled) {
			b.Fatalf("Acquire: %v, want canceled", err)
		}
		_ = b.tip(x) // lets the late request through
		b.unlock(b.lock(y, "a"))
		b.unlock(b.lock(x, "a"))
		b.unlock(b.lock(y, "a"))
	}},
	{name: "acquire given up is answered", run: func(b *bench) {
		ctx, cancel := context.WithCancel(b.ctx)
		s := script{before: map[string]func(){"acquire": cancel}}
		x, y := b.node(refs.Options{TTL: time.Hour, Fault: s.fault}), b.node(refs.Options{})
		if _, err := x.Acquire(ctx, b.repo, []string{"a", "b"}); !errors.Is(err, context.Canceled) {
			b.Fatalf("Acquire: %v, want canceled", err)
		}
		b.unlock(b.lock(y, "a", "b"))
		b.unlock(b.lock(x, "a", "b"))
		if st := x.Session(); st.Made != 1 {
			b.Errorf("session = %+v, want the first one", st)
		}
	}},
	{name: "request of release lost", run: func(b *bench) { releaseFault(b, loseRequest) }},
	{name: "answer of release lost", run: func(b *bench) { releaseFault(b, loseAnswer) }},
	{name: "release comes late", run: func(b *bench) { releaseFault(b, late) }},
	{name: "etcd is out of reach for a while", run: func(b *bench) {
		out := outage{mode: loseRequest, only: map[string]bool{"acquire": true, "tip": true, "outcome": true}}
		out.on.Store(true)
		n := 0
		x := b.node(refs.Options{Fault: func(r refs.Request) refs.Fault {
			if r.Name == "acquire" {
				if n++; n == 5 {
					out.on.Store(false)
				}
			}
			return out.fault(r)
		}})
		b.mustPush(x, refs.Tip{}, 1, b.lock(x, "default"))
	}},
	{name: "etcd is out of reach for too long", run: func(b *bench) {
		out := outage{mode: loseRequest}
		out.on.Store(true)
		x := b.open(refs.Options{Fault: out.fault, ReadTime: 50 * time.Millisecond})
		for name, call := range map[string]func(context.Context) error{
			"Acquire": func(ctx context.Context) error { return second(x.Acquire(ctx, b.repo, []string{"a"})) },
			"Tip":     func(ctx context.Context) error { _, _, err := x.Tip(b.ctx, b.repo); return err },
			"Outcome": func(ctx context.Context) error { _, _, err := x.Outcome(b.ctx, b.repo, [32]byte{}); return err },
			"Publish": func(ctx context.Context) error {
				return x.Publish(ctx, refs.Publication{Repo: b.repo, New: after(refs.Tip{}, 1)})
			},
			"Ready": x.Ready,
		} {
			ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
			if err := call(ctx); !errors.Is(err, hg.ErrUnavailable) {
				b.Errorf("%s: %v, want hg.ErrUnavailable", name, err)
			}
			cancel()
		}
		b.must(x.Close())
	}},
}

// settled publishes once under faults, after which it must have taken place
// exactly once, with that many requests.
func settled(b *bench, faults map[string][]refs.Fault, requests int) {
	s := script{faults: faults}
	x, y := b.node(refs.Options{Fault: s.fault}), b.node(refs.Options{})
	l := b.lock(x, "default")
	next := b.lockLater(b.ctx, x, "default")
	foreign := b.lockLater(b.ctx, y, "default")
	t1 := b.mustPush(x, refs.Tip{}, 1, l)
	if n := s.seen("publish"); n != requests {
		b.Errorf("%d requests to publish, want %d", n, requests)
	}
	b.wantTip(y, t1)
	l = b.got(next)
	if h := l.Heads("default"); string(h) != string(headOf(t1)) {
		b.Errorf("head handed on = %q, want %q", h, headOf(t1))
	}
	t2 := b.mustPush(x, t1, 2, l)
	if n := s.seen("publish"); n != requests+1 {
		b.Errorf("%d requests to publish in all, want %d", n, requests+1)
	}
	b.mustPush(y, t2, 3, b.got(foreign))
}

// unknown publishes while the question can't be asked.
func unknown(b *bench, mode refs.Fault) {
	out := outage{mode: loseRequest, only: map[string]bool{"settle": true}}
	out.on.Store(true)
	s := script{faults: map[string][]refs.Fault{"publish": {mode}}}
	x := b.node(refs.Options{SettleTime: 100 * time.Millisecond, Fault: func(r refs.Request) refs.Fault {
		return max(s.fault(r), out.fault(r))
	}})
	y := b.node(refs.Options{})
	l := b.lock(x, "default")
	next := b.lockLater(b.ctx, x, "default")
	t1, err := b.push(x, refs.Tip{}, 1, l)
	if !errors.Is(err, refs.ErrUnknownOutcome) {
		b.Fatalf("publish: %v, want ErrUnknownOutcome", err)
	}
	if err := l.Err(); !errors.Is(err, refs.ErrLeaseLost) {
		b.Errorf("lease: %v, want ErrLeaseLost", err)
	}
	out.on.Store(false)
	l = b.got(next)
	tip := b.tip(x)
	if took := mode == loseAnswer; took != (tip == t1) {
		b.Errorf("tip at seq %d after %v", tip.Seq, mode)
	}
	if string(l.Heads("default")) != string(headOf(tip)) && tip.Seq != 0 {
		b.Errorf("head = %q, want %q", l.Heads("default"), headOf(tip))
	}
	tip = b.mustPush(x, tip, 2, l)
	b.mustPush(y, tip, 3, b.lock(y, "default"))
}

// acquireFault takes locks of which the request fails once.
func acquireFault(b *bench, mode refs.Fault) {
	s := script{faults: map[string][]refs.Fault{"acquire": {mode}}}
	x, y := b.node(refs.Options{TTL: time.Hour, Fault: s.fault}), b.node(refs.Options{})
	tip := b.mustPush(x, refs.Tip{}, 1, b.lock(x, "default"))
	tip = b.mustPush(y, tip, 2, b.lock(y, "default"))
	s.mu.Lock()
	s.faults["acquire"] = []refs.Fault{mode}
	s.mu.Unlock()
	tip = b.mustPush(x, tip, 3, b.lock(x, "default", "stable"))
	b.mustPush(y, tip, 4, b.lock(y, "default", "stable"))
}

// releaseFault gives a lock back of which the request fails once.
func releaseFault(b *bench, mode refs.Fault) {
	s := script{faults: map[string][]refs.Fault{"release": {mode}}}
	x, y := b.node(refs.Options{TTL: time.Hour, Fault: s.fault}), b.node(refs.Options{})
	b.unlock(b.lock(x, "a"))
	l := b.lock(x, "a")
	_ = b.tip(x)
	next := b.lockLater(b.ctx, y, "a")
	t1 := b.mustPush(x, refs.Tip{}, 1, l)
	b.mustPush(y, t1, 2, b.got(next))
}
