package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/hg"
)

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 1, time.Minute)
		done, err := a.admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() {
			done, err := a.admit(context.Background())
			if err == nil {
				defer done()
			}
			second <- err
		}()
		synctest.Wait()
		if _, err := a.admit(t.Context()); !errors.Is(err, hg.ErrUnavailable) {
			t.Errorf("third, queue of one: err = %v, want ErrUnavailable", err)
		}
		done()
		if err := <-second; err != nil {
			t.Errorf("second, after the first ended: %v", err)
		}
		synctest.Wait()
		if done, err = a.admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := a.admit(t.Context()); !errors.Is(err, hg.ErrUnavailable) || time.Since(start) != time.Minute {
			t.Errorf("waited %v: err = %v, want ErrUnavailable after 1m", time.Since(start), err)
		}
		done()
		a.drain()
		if _, err := a.admit(t.Context()); !errors.Is(err, hg.ErrUnavailable) {
			t.Errorf("draining: err = %v, want ErrUnavailable", err)
		}
	})
}
