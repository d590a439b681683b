package refs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Request is a request to etcd as a test sees it.
type Request struct {
	// Name is what it is for: tip, outcome, acquire, release, publish, follow,
	// settle, fence, session, delete, grant, keepalive, revoke, state, restore or
	// watch.
	Name string
	Keys []string // read, compared or written; none for leases
}

// A Fault is what happens to a request.
type Fault uint8

// The faults.
const (
	// FaultNone lets the request pass.
	FaultNone Fault = iota
	// FaultLoseRequest reports a broken connection; etcd never saw the request.
	FaultLoseRequest
	// FaultLoseAnswer carries the request out and reports a broken connection.
	FaultLoseAnswer
	// FaultLate reports a broken connection at once; the request is carried
	// out after the next one that gets through.
	FaultLate
	// FaultHang waits until the request's context ends; etcd never sees it.
	FaultHang
)

// errFault is what a faulty connection reports.
var errFault = errors.New("connection broken by a test")

// faultyKV is a kv whose requests fail as a function says.
type faultyKV struct {
	kv
	fault func(Request) Fault

	mu   sync.Mutex
	late []func() // requests to carry out; guarded by mu
}

// pass decides about a request and carries out do, or not.
func pass[T any](ctx context.Context, f *faultyKV, r Request, do func(context.Context) (T, error)) (T, error) {
	var none T
	verdict := f.fault(r)
	switch verdict {
	case FaultLoseRequest:
		return none, errFault
	case FaultHang:
		<-ctx.Done()
		return none, ctx.Err()
	case FaultLate:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.late = append(f.late, func() { _, _ = do(context.WithoutCancel(ctx)) })
		return none, errFault
	}
	res, err := do(ctx)
	f.arrive()
	if verdict == FaultLoseAnswer {
		return none, errFault
	}
	return res, err
}

// arrive carries out what is late.
func (f *faultyKV) arrive() {
	f.mu.Lock()
	late := f.late
	f.late = nil
	f.mu.Unlock()
	for _, do := range late {
		do()
	}
}

// keys returns the keys that t reads, compares or writes.
func (t txn) keys() []string {
	var keys []string
	for _, c := range t.conds {
		keys = append(keys, c.key)
	}
	for _, o := range append(t.then[:len(t.then):len(t.then)], t.els...) {
		keys = append(keys, o.key)
	}
	return keys
}

func (f *faultyKV) txn(ctx context.Context, t txn) (txnResult, error) {
	return pass(ctx, f, Request{t.name, t.keys()}, func(ctx context.Context) (txnResult, error) {
		return f.kv.txn(ctx, t)
	})
}

func (f *faultyKV) grant(ctx context.Context, ttl time.Duration) (leaseID, time.Duration, error) {
	type granted struct {
		id  leaseID
		ttl time.Duration
	}
	g, err := pass(ctx, f, Request{Name: "grant"}, func(ctx context.Context) (granted, error) {
		id, ttl, err := f.kv.grant(ctx, ttl)
		return granted{id, ttl}, err
	})
	return g.id, g.ttl, err
}

func (f *faultyKV) keepAlive(ctx context.Context, id leaseID) (time.Duration, error) {
	return pass(ctx, f, Request{Name: "keepalive"}, func(ctx context.Context) (time.Duration, error) {
		return f.kv.keepAlive(ctx, id)
	})
}

func (f *faultyKV) revoke(ctx context.Context, id leaseID) error {
	_, err := pass(ctx, f, Request{Name: "revoke"}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.kv.revoke(ctx, id)
	})
	return err
}

func (f *faultyKV) watch(ctx context.Context, prefix string) <-chan []event {
	if f.fault(Request{"watch", []string{prefix}}) != FaultNone {
		c := make(chan []event)
		close(c)
		return c
	}
	return f.kv.watch(ctx, prefix)
}
