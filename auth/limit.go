package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A rate is how often somebody may be wrong: burst times at once, and then once
// an interval.
type rate struct {
	burst    int
	interval time.Duration
}

var (
	// Of one user at one address.
	userRate = rate{5, time.Second}
	// Of one address, where many users may live.
	addressRate = rate{100, 100 * time.Millisecond}
)

const (
	// maxDelay is how long a guess waits for its turn; who would have to wait
	// longer is told to come back.
	maxDelay = 5 * time.Second

	// maxBuckets is how many are remembered, the latest.
	maxBuckets = 1 << 14
)

// A limiter slows down who guesses passwords. Each guess takes from the buckets
// of its address and of the user there, before it is known to be wrong, so that
// many at once wait in turn. Who was right gets it back.
type limiter struct {
	mu      sync.Mutex                           // guards all below
	buckets *simplelru.LRU[bucketKey, time.Time] // until when what was taken lasts
}

type bucketKey struct {
	address netip.Addr
	user    string // empty for the address as a whole
}

func newLimiter() *limiter {
	l, err := simplelru.NewLRU[bucketKey, time.Time](maxBuckets, nil)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &limiter{buckets: l}
}

// wait takes a guess, and waits for its turn. Too many are a *Refusal.
func (l *limiter) wait(ctx context.Context, address netip.Addr, user string) error {
	delay := l.take(keysOf(address, user))
	if delay > maxDelay {
		return &Refusal{Status: http.StatusTooManyRequests, Reason: fmt.Sprintf("too many wrong passwords, try again in %d seconds", seconds(delay)), RetryAfter: delay, User: user}
	}
	if delay == 0 {
		return nil
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// keysOf returns the buckets of a guess. Networks of IPv6 give each customer
// some 2^64 addresses, which count as one.
func keysOf(address netip.Addr, user string) [2]bucketKey {
	if address.Is6() {
		p, err := address.Prefix(64)
		if err != nil {
			panic(err) // 64 fits
		}
		address = p.Addr()
	}
	return [2]bucketKey{{address, "user " + user}, {address, ""}}
}

var rates = [2]rate{userRate, addressRate}

// take takes a guess from the buckets and returns how long it has to wait; one
// that has to wait for more than maxDelay takes nothing.
func (l *limiter) take(keys [2]bucketKey) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var until [2]time.Time
	var delay time.Duration
	for i, k := range keys {
		last, ok := l.buckets.Get(k)
		if !ok || last.Before(now) {
			last = now
		}
		until[i] = last.Add(rates[i].interval)
		delay = max(delay, until[i].Sub(now)-time.Duration(rates[i].burst)*rates[i].interval)
	}
	if delay > maxDelay {
		return delay
	}
	for i, k := range keys {
		l.buckets.Add(k, until[i])
	}
	return delay
}

// giveBack undoes a take: the guess was right.
func (l *limiter) giveBack(address netip.Addr, user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range keysOf(address, user) {
		if until, ok := l.buckets.Get(k); ok {
			l.buckets.Add(k, until.Add(-rates[i].interval))
		}
	}
}
