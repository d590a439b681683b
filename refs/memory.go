package refs

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a cluster that lives in this process, for tests. The Clients it
// makes are nodes that share it. Its leases follow the clock, also the fake
// one of testing/synctest.
type Memory struct {
	mu       sync.Mutex
	rev      int64 // of the last change; guarded by mu
	items    map[string]memItem
	leases   map[leaseID]*memLease
	watchers map[*memWatcher]bool
	nextID   leaseID
}

type memItem struct {
	item
	lease leaseID
}

type memLease struct {
	ttl   time.Duration
	until time.Time
	timer *time.Timer
}

// NewMemory returns an empty cluster.
func NewMemory() *Memory {
	return &Memory{
		rev:      1,
		items:    map[string]memItem{},
		leases:   map[leaseID]*memLease{},
		watchers: map[*memWatcher]bool{},
	}
}

// Client returns a new node. Close it.
func (m *Memory) Client(o Options) *Client { return newClient(memKV{m}, o) }

// memKV is Memory as a kv.
type memKV struct{ m *Memory }

func (k memKV) reach(context.Context) error { return nil }

func (k memKV) close() error { return nil }

func (k memKV) txn(ctx context.Context, t txn) (txnResult, error) {
	if err := ctx.Err(); err != nil {
		return txnResult{}, &refusedError{err}
	}
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	res := txnResult{ok: !slices.ContainsFunc(t.conds, m.failsLocked)}
	ops := t.els
	if res.ok {
		ops = t.then
	}
	for _, o := range ops {
		if o.kind == opPut && o.lease != 0 && m.leases[o.lease] == nil {
			return txnResult{}, errNoSession
		}
	}
	rev, events := m.rev+1, []event(nil)
	for _, o := range ops {
		if o.kind == opGetPrefix {
			m.listLocked(o.key, &res)
		}
		it, evs := m.applyLocked(o, rev)
		res.items = append(res.items, it)
		events = append(events, evs...)
	}
	m.notifyLocked(rev, events)
	res.rev = m.rev
	return res, nil
}

func (m *Memory) failsLocked(c cond) bool {
	it := m.items[c.key]
	if c.value != nil {
		return it.modRev == 0 || !bytes.Equal(it.value, c.value)
	}
	return it.modRev != c.modRev
}

func (m *Memory) applyLocked(o op, rev int64) (item, []event) {
	switch o.kind {
	case opGet:
		return m.items[o.key].item, nil
	case opGetPrefix:
		return item{}, nil
	case opPut:
		it := memItem{item{slices.Clone(o.value), rev}, o.lease}
		m.items[o.key] = it
		return item{}, []event{{key: o.key, item: it.item}}
	}
	return item{}, m.removeLocked(rev, func(key string, _ memItem) bool {
		return key == o.key || o.kind == opDelPrefix && strings.HasPrefix(key, o.key)
	})
}

// listLocked puts the items below a prefix in a result.
func (m *Memory) listLocked(prefix string, res *txnResult) {
	for key, it := range m.items {
		if strings.HasPrefix(key, prefix) {
			res.list(key, it.item)
		}
	}
}

// removeLocked removes the items that which picks.
func (m *Memory) removeLocked(rev int64, which func(string, memItem) bool) []event {
	var events []event
	for _, key := range slices.Sorted(maps.Keys(m.items)) {
		if which(key, m.items[key]) {
			delete(m.items, key)
			events = append(events, event{key: key, deleted: true, item: item{modRev: rev}})
		}
	}
	return events
}

// notifyLocked ends a change: it moves the revision on if anything changed.
func (m *Memory) notifyLocked(rev int64, events []event) {
	if len(events) == 0 {
		return
	}
	m.rev = rev
	for w := range m.watchers {
		w.offer(events)
	}
}

func (k memKV) grant(ctx context.Context, ttl time.Duration) (leaseID, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, &refusedError{err}
	}
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nextID++
	id := m.nextID
	l := &memLease{ttl: ttl, until: time.Now().Add(ttl)}
	l.timer = time.AfterFunc(ttl, func() { m.expire(id) })
	m.leases[id] = l
	return id, ttl, nil
}

func (m *Memory) expire(id leaseID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.leases[id]; l != nil && !time.Now().Before(l.until) {
		m.dropLocked(id)
	}
}

func (m *Memory) dropLocked(id leaseID) {
	m.leases[id].timer.Stop()
	delete(m.leases, id)
	rev := m.rev + 1
	m.notifyLocked(rev, m.removeLocked(rev, func(_ string, it memItem) bool { return it.lease == id }))
}

func (k memKV) keepAlive(ctx context.Context, id leaseID) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	l := k.m.leases[id]
	if l == nil {
		return 0, errNoSession
	}
	l.until = time.Now().Add(l.ttl)
	l.timer.Reset(l.ttl)
	return l.ttl, nil
}

func (k memKV) revoke(ctx context.Context, id leaseID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k.m.mu.Lock()
	defer k.m.mu.Unlock()
	if k.m.leases[id] != nil {
		k.m.dropLocked(id)
	}
	return nil
}
