package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"vcsd/internal/hgtest"
)

// TestWaitingPushHoldsNoSlot: a push that waits for its turn, here for a local
// hg, keeps nobody else from pushing, though only one push at once is received.
func TestWaitingPushHoldsNoSlot(t *testing.T) {
	needVcsd(t)
	s := newSite(t, "vcsd.push-slots=1")
	s.hg.Run("init", "other")
	first := hgtest.NewChangeset(nil, "", "first", map[string]string{"f": "1\n"})
	s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(first))...)
	lock := filepath.Join(s.Repo("r"), ".hg", "store", "lock")
	if err := os.Symlink("elsewhere:1", lock); err != nil {
		t.Fatal(err)
	}
	second := hgtest.NewChangeset(first, "", "second", map[string]string{"f": "2\n"})
	waiting := make(chan error, 1)
	go func() {
		r, err := s.push(t.Context(), hgtest.PushParts(nil, hgtest.ChangegroupOf(second))...)
		if err == nil && r.Return == 0 {
			t.Errorf("push that waited: %+v", r)
		}
		waiting <- err
	}()
	// It is received, and soon staged.
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(s.inQuarantine(t)) == 0 {
		<-tick.C
	}
	other := &site{s.Server, s.hg, s.Client("other")}
	start := time.Now()
	other.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(first))...)
	t.Logf("the other push took %v", time.Since(start))
	select {
	case err := <-waiting:
		t.Fatalf("the push didn't wait: %v", err)
	default:
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
