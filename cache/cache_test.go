package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A source is what is cached: a key's value at a seq is the seq at which it
// was last changed until then.
type source struct {
	mu      sync.Mutex
	changes map[string][]uint64 // ascending
	now     uint64
}

func (s *source) at(key string, seq uint64) (v uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.changes[key] {
		if c <= seq {
			v = c
		}
	}
	return v
}

func (s *source) change(seq uint64, keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.changes[k] = append(s.changes[k], seq)
	}
}

var keys = []string{"a", "b", "c"}

// TestAgainstSource runs requests at present and past seqs between touches
// and extends; whatever is cached, the answer is what the source says.
func TestAgainstSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := &source{changes: make(map[string][]uint64)}
		c := New[string, uint64](Options{MaxCost: int64(rapid.IntRange(0, 4).Draw(t, "room"))})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			switch rapid.SampledFrom([]string{"get", "touch", "extend", "fail", "remove", "nothing"}).Draw(t, "do") {
			case "get":
				seq := uint64(rapid.IntRange(0, int(src.now)).Draw(t, "seq"))
				got, err := c.Get(t.Context(), key, seq, func(context.Context) (uint64, int64, error) {
					return src.at(key, seq), int64(len(key)), nil
				})
				if want := src.at(key, seq); err != nil || got != want {
					t.Fatalf("Get(%q, %d) = %d, %v, want %d", key, seq, got, err, want)
				}
			case "touch":
				src.now++
				src.change(src.now, key)
				c.Touch(key, src.now)
			case "extend":
				src.now++
				src.change(src.now, key)
				if err := c.Extend(key, src.now, func(uint64) (uint64, int64, error) { return src.now, 1, nil }); err != nil {
					t.Fatal(err)
				}
			case "fail":
				src.now++
				src.change(src.now, key)
				c.Extend(key, src.now, func(uint64) (uint64, int64, error) { return 0, 0, errors.New("no") })
			case "remove":
				c.Remove(key)
			case "nothing":
				src.now++ // a push that concerns no key
			}
			if s := c.Stats(); c.o.MaxCost > 0 && s.Cost > c.o.MaxCost || s.Cost != int64(s.Entries) {
				t.Fatalf("stats %+v with room for %d", s, c.o.MaxCost)
			}
		}
		c.Wait()
	})
}

// TestForgottenTouches keeps a load for an old seq out of the cache even when
// its key's touch was forgotten.
func TestForgottenTouches(t *testing.T) {
	c := New[int, string](Options{})
	c.Touch(-1, 5)
	for i := range maxTouches {
		c.Touch(i, 6)
	}
	load := func(v string) func(context.Context) (string, int64, error) {
		return func(context.Context) (string, int64, error) { return v, 1, nil }
	}
	c.Get(t.Context(), -1, 4, load("old"))
	if got, _ := c.Get(t.Context(), -1, 6, load("new")); got != "new" {
		t.Errorf("after the touch at 5, Get at 6 = %q, want %q", got, "new")
	}
}

// TestNoStaleRead races readers with a publisher. A reader of a growing cache
// may see more than its seq, never less.
func TestNoStaleRead(t *testing.T) {
	for _, grows := range []bool{false, true} {
		t.Run(fmt.Sprintf("grows=%v", grows), func(t *testing.T) {
			src := &source{changes: make(map[string][]uint64)}
			c := New[string, uint64](Options{Grows: grows})
			var published atomic.Uint64
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for range 4 {
				wg.Go(func() { readUntil(t, c, src, &published, grows, stop) })
			}
			for seq := uint64(1); seq <= 300; seq++ {
				key := keys[seq%3]
				src.change(seq, key)
				switch seq % 5 {
				case 0, 1, 2:
					c.Touch(key, seq)
				case 3:
					c.Extend(key, seq, func(uint64) (uint64, int64, error) { return seq, 1, nil })
				case 4:
					c.Touch(key, seq)
					c.Remove(key)
				}
				published.Store(seq)
			}
			close(stop)
			wg.Wait()
			c.Wait()
		})
	}
}

func readUntil(t *testing.T, c *Cache[string, uint64], src *source, published *atomic.Uint64, grows bool, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		key, seq := keys[rand.IntN(len(keys))], published.Load()
		if rand.IntN(3) == 0 && seq > 0 {
			seq -= rand.Uint64N(min(seq, 4))
		}
		got, err := c.Get(t.Context(), key, seq, func(context.Context) (uint64, int64, error) {
			if grows {
				return src.at(key, 1<<60), 1, nil
			}
			return src.at(key, seq), 1, nil
		})
		want := src.at(key, seq)
		if err != nil || got < want || got != want && !grows {
			t.Errorf("Get(%q, %d) = %d, %v, want %d", key, seq, got, err, want)
			return
		}
	}
}

func TestEqualLoadsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](Options{})
		loads := 0
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				v, err := c.Get(t.Context(), "k", 1, func(context.Context) (int, int64, error) {
					loads++
					time.Sleep(time.Second)
					return 7, 1, nil
				})
				if v != 7 || err != nil {
					t.Errorf("Get = %d, %v, want 7", v, err)
				}
			})
		}
		wg.Wait()
		if loads != 1 {
			t.Errorf("%d loads, want 1", loads)
		}
	})
}

func TestCancellationIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](Options{})
		load := func(ctx context.Context) (int, int64, error) {
			select {
			case <-time.After(time.Minute):
				return 7, 1, nil
			case <-ctx.Done():
				return 0, 0, ctx.Err()
			}
		}
		impatient, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Get(impatient, "k", 1, load); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled caller got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if v, err := c.Get(t.Context(), "k", 1, load); v != 7 || err != nil {
				t.Errorf("the other caller got %d, %v, want 7", v, err)
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		if s := c.Stats(); s.Loads != 1 {
			t.Errorf("%d loads, want 1", s.Loads)
		}
	})
}

func TestLastOneGoneEndsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := false
		_, err := c.Get(ctx, "k", 1, func(ctx context.Context) (int, int64, error) {
			<-ctx.Done()
			ended = true
			return 0, 0, ctx.Err()
		})
		c.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || !ended {
			t.Errorf("err = %v, load ended = %v", err, ended)
		}
		v, err := c.Get(t.Context(), "k", 1, func(context.Context) (int, int64, error) { return 7, 1, nil })
		if v != 7 || err != nil {
			t.Errorf("the next caller got %d, %v, want 7", v, err)
		}
	})
}

func TestErrorIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, int](Options{})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				own := fmt.Errorf("of caller %d", i)
				_, err := c.Get(t.Context(), "k", 1, func(context.Context) (int, int64, error) {
					time.Sleep(time.Second)
					return 0, 0, own
				})
				if err != own {
					t.Errorf("caller %d got the error %v", i, err)
				}
			})
		}
		wg.Wait()
		if s := c.Stats(); s.Entries != 0 || s.Loads != 5 {
			t.Errorf("stats %+v, want 5 loads and no entry", s)
		}
	})
}

func TestPanicReachesTheCaller(t *testing.T) {
	c := New[string, int](Options{})
	defer func() {
		if recover() == nil {
			t.Error("the load's panic was swallowed")
		}
	}()
	c.Get(t.Context(), "k", 1, func(context.Context) (int, int64, error) { panic("boom") })
}

func TestEarlyRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string, time.Time](Options{MaxAge: time.Hour})
		load := func(context.Context) (time.Time, int64, error) {
			time.Sleep(time.Minute)
			return time.Now(), 1, nil
		}
		get := func() time.Duration {
			start := time.Now()
			v, err := c.Get(t.Context(), "k", 1, load)
			if err != nil || time.Since(v) > time.Hour+time.Minute {
				t.Fatalf("value is %v old, %v", time.Since(v), err)
			}
			return time.Since(start)
		}
		if get() != time.Minute {
			t.Error("the first caller did not wait for its load")
		}
		// A day of steady requests: every hour a refresh, nobody waits.
		for range 24 * 60 * 12 {
			time.Sleep(5 * time.Second)
			get()
		}
		c.Wait()
		if s := c.Stats(); s.Refreshes < 24 || s.Refreshes > 40 || s.Misses > 2 {
			t.Errorf("stats %+v, want 24 to 40 refreshes and, but for rare luck, 1 miss", s)
		}
		// Nobody asks for two hours: then one has to wait.
		time.Sleep(2 * time.Hour)
		if get() != time.Minute {
			t.Error("a value past its age was served")
		}
	})
}

func BenchmarkGetHit(b *testing.B) {
	c := New[string, int](Options{})
	load := func(context.Context) (int, int64, error) { return 1, 1, nil }
	ctx := b.Context()
	c.Get(ctx, "k", 1, load)
	b.ReportAllocs()
	for b.Loop() {
		c.Get(ctx, "k", 1, load)
	}
}
