package auth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// guess waits for a guess's turn and tells how long that took; -1 if it was
// refused.
func (l *limiter) guess(ctx context.Context, address, user string) time.Duration {
	start := time.Now()
	var refused *Refusal
	if err := l.wait(ctx, netip.MustParseAddr(address), user); errors.As(err, &refused) {
		return -1
	}
	return time.Since(start)
}

func TestGuessesWaitInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter()
		var mu sync.Mutex
		var waits []time.Duration // guarded by mu
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				d := l.guess(t.Context(), "192.0.2.1", "ann")
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, d)
			})
		}
		wg.Wait()
		slices.Sort(waits)
		s := time.Second
		want := []time.Duration{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, s, 2 * s, 3 * s, 4 * s, 5 * s}
		if !slices.Equal(waits, want) {
			t.Errorf("20 guesses at once waited %v, want %v", waits, want)
		}
		if d := l.guess(t.Context(), "192.0.2.1", "bob"); d != 0 {
			t.Errorf("another user at that address waited %v", d)
		}
		if d := l.guess(t.Context(), "192.0.2.2", "ann"); d != 0 {
			t.Errorf("the user at another address waited %v", d)
		}
		time.Sleep(time.Minute)
		if d := l.guess(t.Context(), "192.0.2.1", "ann"); d != 0 {
			t.Errorf("a minute later, the user waited %v", d)
		}
	})
}

func TestGuessesOfOneAddress(t *testing.T) {
	tests := []struct {
		name    string
		address func(i int) string
		limited bool
	}{
		{"one address", func(int) string { return "192.0.2.1" }, true},
		{"one network of IPv6", func(i int) string { return netip.AddrFrom16([16]byte{0x20, 1, 15: byte(i)}).String() }, true},
		{"many addresses", func(i int) string { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String() }, false},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter()
			var last time.Duration
			for i := range 200 {
				last = max(last, l.guess(t.Context(), tt.address(i), time.Duration(i).String()))
			}
			if (last > 0) != tt.limited {
				t.Errorf("%s: the longest wait of 200 users was %v", tt.name, last)
			}
		})
	}
}

func TestRightGuessesCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, address := newLimiter(), netip.MustParseAddr("192.0.2.1")
		for i := range 1000 {
			if d := l.guess(t.Context(), "192.0.2.1", "ann"); d != 0 {
				t.Fatalf("right guess %d waited %v", i, d)
			}
			l.giveBack(address, "ann")
		}
	})
}

func TestRefusalTellsWhenToComeBack(t *testing.T) {
	l, address := newLimiter(), netip.MustParseAddr("192.0.2.1")
	var refused *Refusal
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits here
	for range 11 {
		if err := l.wait(ctx, address, "ann"); errors.As(err, &refused) {
			break
		}
	}
	if refused == nil || refused.Status != http.StatusTooManyRequests || refused.RetryAfter <= maxDelay || refused.User != "ann" {
		t.Errorf("refusal %+v", refused)
	}
}
