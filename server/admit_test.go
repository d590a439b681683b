package server

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/hg"
)

func mustAdmit(t *testing.T, a *admission, repo, sender string) *ticket {
	t.Helper()
	tk, err := a.admit(t.Context(), repo, sender)
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// crowd starts n pushes and returns them as they are admitted.
func crowd(t *testing.T, a *admission, n int, repo, sender string) <-chan *ticket {
	t.Helper()
	admitted := make(chan *ticket, n)
	for range n {
		go func() {
			if tk, err := a.admit(t.Context(), repo, sender); err == nil {
				admitted <- tk
			}
		}()
	}
	synctest.Wait()
	return admitted
}

func TestAdmissionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 1, time.Minute)
		first := mustAdmit(t, a, "r", "s")
		second := crowd(t, a, 1, "r", "s")
		if _, err := a.admit(t.Context(), "r", "s"); !errors.Is(err, hg.ErrUnavailable) {
			t.Errorf("third, queue of one: err = %v, want ErrUnavailable", err)
		}
		first.done()
		first.done()
		tk := <-second
		start := time.Now()
		if _, err := a.admit(t.Context(), "r", "s"); !errors.Is(err, hg.ErrUnavailable) || time.Since(start) != time.Minute {
			t.Errorf("waited %v: err = %v, want ErrUnavailable after 1m", time.Since(start), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.admit(ctx, "r", "s"); !errors.Is(err, context.Canceled) {
			t.Errorf("client that went away: err = %v, want that of its context", err)
		}
		tk.staged()
		tk.staged()
		mustAdmit(t, a, "r", "s").done()
		tk.done()
		if a.slots != 1 || a.room != 2 || len(a.repos)+len(a.senders)+a.queued() != 0 {
			t.Errorf("at the end: %d slots, room for %d, %v, %v, %d wait", a.slots, a.room, a.repos, a.senders, a.queued())
		}
	})
}

func TestAdmissionDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 10, time.Hour)
		tk := mustAdmit(t, a, "r", "s")
		waiting := make(chan error, 1)
		start := time.Now()
		go func() {
			_, err := a.admit(context.Background(), "r", "s")
			waiting <- err
		}()
		synctest.Wait()
		a.drain()
		if err := <-waiting; !errors.Is(err, hg.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("who waits when draining begins: err = %v after %v, want ErrUnavailable at once", err, time.Since(start))
		}
		if _, err := a.enter("r", "s"); !errors.Is(err, hg.ErrUnavailable) {
			t.Errorf("draining: err = %v, want ErrUnavailable", err)
		}
		tk.done()
	})
}

// However many push to one repository, or one sender does, the next one gets a
// slot at once.
func TestAdmissionIsFair(t *testing.T) {
	for _, tt := range []struct {
		name         string
		repo, sender string // of the crowd
		want         int    // how many of it get a slot
	}{
		{"one repository", "r", "", 48},
		{"one sender", "", "s", 48},
		{"many of each", "", "", 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAdmission(64, 1000, time.Hour)
				got := 0
				for i := range 200 {
					repo, sender := tt.repo, tt.sender
					if repo == "" {
						repo = fmt.Sprint("r", i)
					}
					if sender == "" {
						sender = fmt.Sprint("s", i)
					}
					got += len(crowd(t, a, 1, repo, sender))
				}
				if got != tt.want {
					t.Errorf("%d of 200 got a slot, want %d", got, tt.want)
				}
				if tt.want < 64 {
					mustAdmit(t, a, "another", "other").done()
				}
			})
		})
	}
}

// A free slot goes to the repository that has the fewest, and there to the
// sender who has the fewest, whoever came first.
func TestAdmissionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(8, 100, time.Hour)
		var held []*ticket
		for _, who := range [][2]string{{"a", "x"}, {"a", "y"}, {"a", "x"}, {"b", "z"}, {"b", "z"}, {"c", "v"}, {"d", "w"}, {"e", "w"}} {
			held = append(held, mustAdmit(t, a, who[0], who[1]))
		}
		order := make(chan string, 10)
		for _, who := range [][2]string{{"a", "x"}, {"b", "z"}, {"b", "y"}, {"f", "u"}, {"c", "z"}} {
			go func() {
				if _, err := a.admit(t.Context(), who[0], who[1]); err == nil {
					order <- who[0] + who[1]
				}
			}()
			synctest.Wait()
		}
		for i, want := range []string{"fu", "cz", "by", "bz"} {
			// d and e have nobody waiting, so what they give back is anybody's.
			held[len(held)-1-i].staged()
			synctest.Wait()
			select {
			case got := <-order:
				if got != want {
					t.Errorf("slot %d went to %s, want %s", i, got, want)
				}
			default:
				t.Errorf("slot %d went to nobody, want %s", i, want)
			}
		}
	})
}

// Who fills the queue of one repository leaves room for others.
func TestAdmissionQueueIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(4, 96, time.Hour)
		crowd(t, a, 200, "r", "s")
		if a.room != 25 {
			t.Errorf("one repository left room for %d of 100, want 25", a.room)
		}
		mustAdmit(t, a, "another", "other").done()
	})
}
