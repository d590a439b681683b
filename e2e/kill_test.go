package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"golang.org/x/sync/errgroup"
)

var (
	kills    = flag.Int("kills", 20, "times the server is killed in TestKill")
	killSeed = flag.Uint64("killseed", uint64(time.Now().UnixNano()), "seed of the moments at which TestKill kills")
)

// killPushers push at once while the server is killed.
const killPushers = 8

// line is the pushes of one pusher: a branch of its own that grows.
type line struct {
	branch  string
	last    *hgtest.Changeset // acknowledged; nil at the start
	pending *hgtest.Changeset // sent and not acknowledged
	acked   []hg.Node
	rng     *rand.Rand
}

// TestKill kills the server at random moments of a push storm. After each
// restart every acknowledged push is there, a push that was cut off can be
// sent again and is answered as taken, and nothing needs help.
func TestKill(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg needs hg recover after a kill")
	}
	t.Logf("-killseed=%d", *killSeed)
	rng := rand.New(rand.NewPCG(*killSeed, 0))
	s := newSite(t)
	lines := make([]*line, killPushers)
	for i := range lines {
		lines[i] = &line{branch: fmt.Sprintf("branch%d", i), rng: rand.New(rand.NewPCG(*killSeed, uint64(i)+1))}
	}
	for k := range *kills {
		s.stormUntilKilled(t, lines, rng)
		s.restart()
		s.checkAcked(t, lines, k)
	}
	s.pushAll(t, lines)
	s.Stop()
	var heads []hg.Node
	n := 0
	for _, l := range lines {
		heads = append(heads, l.last.Node())
		n += len(l.acked)
	}
	t.Logf("%d acknowledged pushes, %d kills", n, *kills)
	s.checkStore(t, heads)
}

// stormUntilKilled lets everybody push until the server dies, which happens
// after a random time: the moment is the point, nothing is waited for.
func (s *site) stormUntilKilled(t *testing.T, lines []*line, rng *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	for _, l := range lines {
		g.Go(func() error { return l.pushOn(ctx, s) })
	}
	timer := time.NewTimer(time.Duration(rng.Int64N(int64(600 * time.Millisecond))))
	defer timer.Stop()
	<-timer.C
	s.Kill()
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// pushOn pushes until a request breaks off. An answer that is not "taken" is an
// error.
func (l *line) pushOn(ctx context.Context, s *site) error {
	for {
		if ok, err := l.pushOne(ctx, s); !ok {
			return err
		}
	}
}

func (l *line) pushOne(ctx context.Context, s *site) (taken bool, err error) {
	bundle := hgtest.Bundle2(l.next(func() map[string]string {
		return map[string]string{"common": fmt.Sprint(l.branch, len(l.acked)), l.branch + "/f": noise(l.rng)}
	})...)
	a, err := s.client.Unbundle(ctx, hgtest.Force, bundle)
	if err != nil {
		return false, nil // the server was killed: no answer, so nothing is known
	}
	r, err := hgtest.ParseReply(a)
	if err != nil || r.Error != "" || r.Return == 0 {
		return false, fmt.Errorf("%s, push %d: status %d, reply %+v, error %v", l.branch, len(l.acked), a.Status, r, err)
	}
	l.last, l.pending = l.pending, nil
	l.acked = append(l.acked, l.last.Node())
	return true, nil
}

// next returns the push of what is pending, which is made of these files if nothing
// is.
func (l *line) next(files func() map[string]string) []hgtest.Part {
	if l.pending == nil {
		l.pending = hgtest.NewChangeset(l.last, l.branch, fmt.Sprintf("%s, %d", l.branch, len(l.acked)), files())
	}
	var updates []hg.Node
	if l.last != nil {
		updates = []hg.Node{l.last.Node()}
	}
	return hgtest.PushParts(updates, hgtest.ChangegroupOf(l.pending))
}

// noise is up to 40 kB of text that no compression makes small, so that some
// pushes travel as segments and logs are split.
func noise(rng *rand.Rand) string {
	b := make([]byte, 1+rng.IntN(20_000))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return fmt.Sprintf("%x\n", b)
}

func (s *site) checkAcked(t *testing.T, lines []*line, kill int) {
	t.Helper()
	for _, l := range lines {
		if len(l.acked) == 0 {
			continue
		}
		for i, known := range s.client.Known(l.acked...) {
			if !known {
				t.Errorf("kill %d: acknowledged push %d of %s is gone", kill, i, l.branch)
			}
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// pushAll sends what is pending once more and one push after it.
func (s *site) pushAll(t *testing.T, lines []*line) {
	t.Helper()
	for _, l := range lines {
		for range 2 {
			if ok, err := l.pushOne(t.Context(), s); !ok || err != nil {
				t.Fatalf("push after the last restart: %v", err)
			}
		}
	}
}
