package refs

import (
	"context"
	"errors"
	"time"
)

// kv is what this package needs of etcd. An error is a fact about the request
// if it is a *refusedError or errNoSession: it did not take place and never
// will. Any other error leaves the outcome open.
type kv interface {
	txn(ctx context.Context, t txn) (txnResult, error)
	// grant makes a lease and returns the time to live that the server chose.
	grant(ctx context.Context, ttl time.Duration) (leaseID, time.Duration, error)
	// keepAlive renews a lease; errNoSession if the server doesn't know it.
	keepAlive(ctx context.Context, id leaseID) (time.Duration, error)
	// revoke ends a lease and removes its keys; nil if there is none.
	revoke(ctx context.Context, id leaseID) error
	// watch reports the changes of the keys that start with prefix, from now
	// on. The first report is empty and tells that the watch stands. The
	// channel closes when ctx ends or the watch breaks; the receiver must empty
	// it. (A watch from an earlier revision on would be served with a delay.)
	watch(ctx context.Context, prefix string) <-chan []event
	// reach returns nil if a member answers that there is a leader, and tells
	// soon what keeps it from answering.
	reach(ctx context.Context) error
	close() error
}

// A leaseID names a lease of etcd; 0 is none.
type leaseID int64

// An item is a key as read: modRev is 0 if it doesn't exist.
type item struct {
	value  []byte
	modRev int64 // revision of the last change
}

type event struct {
	key     string
	deleted bool
	item
}

// A cond compares a key with what is expected of it.
type cond struct {
	key string
	// value is compared if it is not nil, otherwise modRev, 0 being a key that
	// doesn't exist.
	value  []byte
	modRev int64
}

type opKind uint8

const (
	opGet opKind = iota
	opGetPrefix
	opPut
	opDel
	opDelPrefix
)

// An op is a step of a transaction; no key may be written twice in one.
type op struct {
	kind  opKind
	key   string
	value []byte  // put
	lease leaseID // put
}

func (o op) size() int { return len(o.key) + len(o.value) + 16 }

// A txn does then if all of conds hold, els otherwise.
type txn struct {
	name  string // what it is for: acquire, release, publish, ...
	conds []cond
	then  []op
	els   []op
}

type txnResult struct {
	ok    bool   // then was done
	rev   int64  // of the store after it
	items []item // one for each op done; filled in for opGet
	// listed are the keys that all opGetPrefix found; nil without any.
	listed map[string]item
}

func (r *txnResult) list(key string, it item) {
	if r.listed == nil {
		r.listed = make(map[string]item)
	}
	r.listed[key] = it
}

// errNoSession means that a lease is not known to etcd, or no more.
var errNoSession = errors.New("session is unknown to etcd")

// A refusedError is etcd's final word on a request that it didn't carry out.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// settled reports whether err proves that the request didn't take place.
func settled(err error) bool {
	var r *refusedError
	return errors.Is(err, errNoSession) || errors.As(err, &r)
}
