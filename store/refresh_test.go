package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newGate() *gate {
	g := &gate{}
	g.init()
	return g
}

// Who comes while a look is under way gets one that began later, and shares it
// with all who came meanwhile.
func TestGateShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var looks atomic.Int32
		look := func() error {
			looks.Add(1)
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.look(look) })
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				before := looks.Load()
				if err := g.look(look); err != nil || looks.Load() == before {
					t.Errorf("after %d looks: %v, and no look since", before, err)
				}
			})
		}
		wg.Wait()
		if got := looks.Load(); got != 2 {
			t.Errorf("%d looks, want 2", got)
		}
	})
}

func TestGateWhileLinking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var linking atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			err := g.link(func(begin, show func()) error {
				time.Sleep(time.Second) // its own look
				begin()
				linking.Store(true)
				time.Sleep(time.Minute)
				linking.Store(false)
				show()
				time.Sleep(time.Minute)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		start := time.Now()
		noLook := func() error { t.Error("looked while linking"); return nil }
		if err := g.look(noLook); err != nil || !linking.Load() || time.Since(start) != time.Second {
			t.Errorf("answered after %v: %v", time.Since(start), err)
		}
		for linking.Load() {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		looked := false
		if err := g.look(func() error { looked = true; return nil }); err != nil || !looked || time.Since(start) < 2*time.Minute {
			t.Errorf("while others may see what is linked, answered after %v, with a look: %v, %v", time.Since(start), looked, err)
		}
		wg.Wait()
		errDisk := errors.New("disk on fire")
		if err := g.look(func() error { return errDisk }); !errors.Is(err, errDisk) {
			t.Errorf("error = %v, want %v", err, errDisk)
		}
	})
}
