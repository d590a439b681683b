package cache

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// Options tell what a Cache may hold. The zero value holds everything for
// ever.
type Options struct {
	// MaxCost is the sum of the costs of what is kept, in whatever unit the
	// loads count. An entry above it is not kept at all. 0 means no limit.
	MaxCost int64

	// Grows says that values only ever get more at their end, and that a load
	// returns the newest there is: then a newer value serves older requests,
	// which look away from what is beyond them.
	Grows bool

	// MaxAge is how long an entry serves after it was loaded. Before that it
	// is loaded again in the background, at a time that is drawn so that
	// entries loaded together don't fall due together: the longer its load
	// took, the earlier. 0 means no limit.
	MaxAge time.Duration
}

// Stats counts what happened since New, but for Entries and Cost, which are
// those of now.
type Stats struct {
	Hits      uint64 // requests answered by an entry
	Misses    uint64 // requests that had to wait for a load
	Loads     uint64 // loads started, refreshes included
	Refreshes uint64 // loads started before an entry was too old
	Extends   uint64 // entries brought to a later seq
	Evictions uint64 // entries dropped for want of room
	Entries   int
	Cost      int64
}

// A Cache keeps values of type V by key.
type Cache[K comparable, V any] struct {
	o     Options // constant after New
	loads sync.WaitGroup

	mu      sync.Mutex // guards all below
	entries *simplelru.LRU[K, *entry[V]]
	flights map[flightKey[K]]*flight[V]
	group   singleflight.Group // runs the flights; calls to it hold mu
	touches touches[K]
	stats   Stats
}

// An entry is immutable once it is in the cache.
type entry[V any] struct {
	value  V
	cost   int64
	seq    uint64
	loaded time.Time
	took   time.Duration
}

// New returns an empty Cache.
func New[K comparable, V any](o Options) *Cache[K, V] {
	if o.MaxCost == 0 {
		o.MaxCost = math.MaxInt64
	}
	c := &Cache[K, V]{o: o, flights: make(map[flightKey[K]]*flight[V])}
	c.entries = newLRU[K, *entry[V]](math.MaxInt)
	c.touches.recent = newLRU[K, uint64](maxTouches)
	return c
}

func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	l, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return l
}

// Get returns the value of key at seq. Without one it calls load, unless an
// equal load is under way, and waits until ctx ends. load tells the value's
// cost. Its context carries ctx's values and ends when nobody waits any more.
func (c *Cache[K, V]) Get(ctx context.Context, key K, seq uint64, load func(context.Context) (V, int64, error)) (V, error) {
	first := true
	for {
		c.mu.Lock()
		if e, ok := c.lookupLocked(key, seq); ok {
			if first {
				c.stats.Hits++
			}
			c.refreshLocked(ctx, key, seq, e, load)
			c.mu.Unlock()
			return e.value, nil
		}
		if first {
			c.stats.Misses++
			first = false
		}
		f, result, own := c.joinLocked(ctx, key, seq, load)
		f.waiters++
		c.mu.Unlock()
		v, err, retry := c.wait(ctx, f, result, own)
		if !retry {
			return v, err
		}
	}
}

// Peek returns the value of key at seq if there is one, and loads nothing.
func (c *Cache[K, V]) Peek(key K, seq uint64) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.lookupLocked(key, seq); ok {
		return e.value, true
	}
	var none V
	return none, false
}

func (c *Cache[K, V]) lookupLocked(key K, seq uint64) (*entry[V], bool) {
	e, ok := c.entries.Get(key)
	if !ok || e.seq > seq && !c.o.Grows {
		return nil, false
	}
	if c.o.MaxAge > 0 && time.Since(e.loaded) >= c.o.MaxAge {
		return nil, false
	}
	return e, true
}

// Extend brings the value of key, if there is one, to seq: extend gets it and
// returns the new one with its cost. It runs without any lock; the old value
// serves until it returns, and afterwards nobody but those who have it. If it
// fails the entry is dropped and the error returned. Calls for one key must
// not overlap.
func (c *Cache[K, V]) Extend(key K, seq uint64, extend func(V) (V, int64, error)) error {
	c.mu.Lock()
	c.touchLocked(key, seq)
	e, ok := c.entries.Peek(key)
	c.mu.Unlock()
	if !ok || e.seq >= seq {
		return nil
	}
	value, cost, err := extend(e.value)
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.entries.Peek(key); !ok || now != e {
		return err
	}
	c.removeLocked(key)
	if err != nil {
		return err
	}
	c.stats.Extends++
	c.storeLocked(key, &entry[V]{value, cost, seq, e.loaded, e.took})
	return nil
}

// Touch ends the value of key before seq.
func (c *Cache[K, V]) Touch(key K, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touchLocked(key, seq)
	if e, ok := c.entries.Peek(key); ok && e.seq < seq {
		c.removeLocked(key)
	}
}

// Remove drops the value of key, and lets no load that is under way keep its
// own.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
	for k, f := range c.flights {
		if k.key == key {
			c.abandonLocked(k, f)
		}
	}
}

// RemoveFunc does what Remove does for each key that match admits. It must
// not call the Cache.
func (c *Cache[K, V]) RemoveFunc(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.entries.Keys() {
		if match(key) {
			c.removeLocked(key)
		}
	}
	for k, f := range c.flights {
		if match(k.key) {
			c.abandonLocked(k, f)
		}
	}
}

// Stats returns what happened so far.
func (c *Cache[K, V]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries = c.entries.Len()
	return s
}

// Wait returns when no load is under way. No Get may run meanwhile.
func (c *Cache[K, V]) Wait() { c.loads.Wait() }

func (c *Cache[K, V]) removeLocked(key K) {
	if e, ok := c.entries.Peek(key); ok {
		c.entries.Remove(key)
		c.stats.Cost -= e.cost
	}
}

func (c *Cache[K, V]) storeLocked(key K, e *entry[V]) {
	c.removeLocked(key)
	if e.cost > c.o.MaxCost {
		return
	}
	c.entries.Add(key, e)
	c.stats.Cost += e.cost
	for c.stats.Cost > c.o.MaxCost {
		_, old, _ := c.entries.RemoveOldest()
		c.stats.Cost -= old.cost
		c.stats.Evictions++
	}
}

// refreshLocked starts to load an entry again that will soon be too old, if
// the draw says so. The draw is exponential, as Vattani, Chierichetti and
// Lowenstein have it ("Optimal probabilistic cache stampede prevention", 2015),
// and leaves the load the time that it took last.
func (c *Cache[K, V]) refreshLocked(ctx context.Context, key K, seq uint64, e *entry[V], load func(context.Context) (V, int64, error)) {
	if c.o.MaxAge == 0 {
		return
	}
	left := c.o.MaxAge - time.Since(e.loaded) - e.took
	if time.Duration(rand.ExpFloat64()*2*float64(e.took)) < left {
		return
	}
	if f, _, started := c.joinLocked(ctx, key, seq, load); started {
		f.refresh = true
		c.stats.Refreshes++
	}
}

// maxTouches is how many keys' last touches are remembered.
const maxTouches = 1 << 14

// touches remembers when keys were last touched, so that a load for an older
// seq that starts after the touch is not kept. What it had to forget it takes
// for touched.
type touches[K comparable] struct {
	recent    *simplelru.LRU[K, uint64]
	forgotten uint64 // the highest seq of those forgotten
}

func (t *touches[K]) add(key K, seq uint64) {
	if old, ok := t.recent.Get(key); ok && old >= seq {
		return
	}
	if t.recent.Len() == maxTouches && !t.recent.Contains(key) {
		_, old, _ := t.recent.RemoveOldest()
		t.forgotten = max(t.forgotten, old)
	}
	t.recent.Add(key, seq)
}

// last returns the seq at which key may have been touched last.
func (t *touches[K]) last(key K) uint64 {
	if seq, ok := t.recent.Get(key); ok {
		return seq
	}
	return t.forgotten
}

func (c *Cache[K, V]) touchLocked(key K, seq uint64) {
	c.touches.add(key, seq)
	for k, f := range c.flights {
		if k.key == key && (k.seq < seq || c.o.Grows) {
			c.abandonLocked(k, f)
		}
	}
}
