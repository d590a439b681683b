package quarantine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/internal/vfs"
	"vcsd/quarantine"
)

// inBubble runs f with an area, on a clock that needs no waiting.
func inBubble(t *testing.T, f func(t *testing.T, a *quarantine.Area)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, open(t, vfs.NewMem(), quarantine.Options{}))
	})
}

// slow is a function for Do that takes a minute, unless its context ends.
type slow struct{ started, finished atomic.Int32 }

func (s *slow) run(ctx context.Context) (string, error) {
	s.started.Add(1)
	defer s.finished.Add(1)
	select {
	case <-time.After(time.Minute):
		return "done", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func TestDoSharesAResult(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		var s slow
		results := make(chan string)
		for range 5 {
			go func() {
				v, err := quarantine.Do(ctx, a, quarantine.Digest{1}, s.run)
				if err != nil {
					v = err.Error()
				}
				results <- v
			}()
		}
		for range 5 {
			if got := <-results; got != "done" {
				t.Errorf("result %q, want done", got)
			}
		}
		if n := s.started.Load(); n != 1 {
			t.Errorf("ran %d times, want once", n)
		}
		if _, err := quarantine.Do(ctx, a, quarantine.Digest{1}, s.run); err != nil || s.started.Load() != 2 {
			t.Errorf("afterwards: err = %v, ran %d times, want a second time", err, s.started.Load())
		}
	})
}

func TestDoOutlivesTheFirstCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		var s slow
		d := must(a.Receive(ctx, strings.NewReader("x")))
		first, cancel := context.WithCancel(ctx)
		gone := make(chan error)
		go func() {
			_, err := quarantine.Do(first, a, d.Digest(), func(ctx context.Context) (string, error) {
				v, err := s.run(ctx)
				_, open := d.OpenPayload()
				return v, errors.Join(err, open)
			})
			gone <- errors.Join(err, d.Release())
		}()
		synctest.Wait()
		second := make(chan error)
		go func() {
			_, err := quarantine.Do(ctx, a, d.Digest(), s.run)
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("first caller: err = %v, want Canceled", err)
		}
		if err := <-second; err != nil {
			t.Errorf("second caller: err = %v; the directory must stay while Do runs", err)
		}
		if n := s.started.Load(); n != 1 {
			t.Errorf("ran %d times, want once", n)
		}
	})
}

func TestDoEndsWithItsLastCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		var s slow
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := quarantine.Do(ctx, a, quarantine.Digest{1}, s.run); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want DeadlineExceeded", err)
		}
		synctest.Wait()
		if s.finished.Load() != 1 {
			t.Error("it runs on with nobody to wait for it")
		}
	})
}

func TestDoWaitsForACancelledRun(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		var running, most atomic.Int32
		stubborn := func(context.Context) (int, error) {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			time.Sleep(time.Minute)
			return 7, nil
		}
		first, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _ = quarantine.Do(first, a, quarantine.Digest{1}, stubborn)
		got, err := quarantine.Do(ctx, a, quarantine.Digest{1}, stubborn)
		if got != 7 || err != nil || most.Load() != 1 {
			t.Errorf("got %d, %v, %d at once; want 7, one after the other", got, err, most.Load())
		}
	})
}

func TestDoKeepsDigestsApart(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		var s slow
		done := make(chan error)
		for i := range byte(3) {
			go func() {
				_, err := quarantine.Do(ctx, a, quarantine.Digest{i}, s.run)
				done <- err
			}()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := s.started.Load(); n != 3 {
			t.Errorf("ran %d times, want 3", n)
		}
	})
}

func TestDoHandsPanicsToItsCallers(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		defer func() {
			p, ok := recover().(*quarantine.PanicError)
			if !ok || p.Value != "bug" || !strings.Contains(string(p.Stack), "TestDoHandsPanics") {
				t.Errorf("panicked with %v, want bug and its stack", p)
			}
		}()
		_, err := quarantine.Do(ctx, a, quarantine.Digest{1}, func(context.Context) (int, error) { panic("bug") })
		t.Errorf("err = %v, want a panic", err)
	})
}

func TestDoReturnsErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, a *quarantine.Area) {
		want := errors.New("refused")
		got, err := quarantine.Do(ctx, a, quarantine.Digest{1}, func(context.Context) (error, error) { return nil, want })
		if got != nil || err != want {
			t.Errorf("got %v, %v; want the error", got, err)
		}
	})
}
