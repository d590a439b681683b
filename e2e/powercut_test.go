package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/powerdisk"

	"golang.org/x/sync/errgroup"
)

var (
	cuts    = flag.Int("cuts", 3, "times the power is cut in TestPowerCut")
	cutSeed = flag.Uint64("cutseed", uint64(time.Now().UnixNano()), "seed of the moments at which TestPowerCut cuts")
)

// TestPowerCut cuts the power of a disk with a real file system, on which
// repository and state stand, at random moments of a push storm. With what is left
// of the disk the server starts again: every push that was acknowledged is there,
// hg finds nothing wrong, and the pushes go on.
func TestPowerCut(t *testing.T) {
	needVcsd(t)
	t.Logf("-cutseed=%d", *cutSeed)
	p := &powerCut{lines: make([]*cutLine, killPushers), rng: rand.New(rand.NewPCG(*cutSeed, 0))}
	for i := range p.lines {
		p.lines[i] = &cutLine{line: line{branch: fmt.Sprintf("branch%d", i), rng: rand.New(rand.NewPCG(*cutSeed, uint64(i)+1))}}
	}
	content := powerdisk.Format(t)
	sure := 0
	for k := range *cuts {
		content, sure = p.round(t, content, k)
	}
	disk, s := p.start(t, content, *cuts)
	p.check(t, s)
	s.Stop()
	if err := disk.Unmount(); err != nil {
		t.Error(err)
	}
	t.Logf("%d power cuts, %d pushes acknowledged before the last of them, none lost", *cuts, sure)
}

// A powerCut is the pushers of a storm and their luck.
type powerCut struct {
	lines []*cutLine
	rng   *rand.Rand
}

// A cutLine is a line that knows how to go back.
type cutLine struct {
	line
	mu    sync.Mutex
	taken []*hgtest.Changeset // all that were acknowledged, oldest first; guarded by mu
	sure  int                 // how many of them before the last cut; guarded by mu
}

// round starts a server with what is left of a disk, and cuts the power again. It
// returns what is left then, and how many pushes were acknowledged before.
func (p *powerCut) round(t *testing.T, c powerdisk.Content, k int) (left powerdisk.Content, sure int) {
	t.Helper()
	disk, s := p.start(t, c, k)
	p.check(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	for _, l := range p.lines {
		g.Go(func() error { return l.pushOn(ctx, s) })
	}
	// The moment is the point, nothing is waited for.
	timer := time.NewTimer(300*time.Millisecond + time.Duration(p.rng.Int64N(int64(1500*time.Millisecond))))
	defer timer.Stop()
	<-timer.C
	for _, l := range p.lines {
		sure += l.noteSure()
	}
	left = disk.Cut(p.rng)
	s.Kill()
	cancel()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := disk.Unmount(); err != nil {
		t.Fatal(err)
	}
	return left, sure
}

// start mounts a disk and starts a server on it, as if the machine was started.
func (p *powerCut) start(t *testing.T, c powerdisk.Content, k int) (*powerdisk.Disk, *site) {
	t.Helper()
	disk := powerdisk.Mount(t, c)
	h := hgtest.New(t).In(filepath.Join(disk.Dir, "srv"))
	if k == 0 {
		if err := os.Mkdir(h.Dir, 0o777); err != nil {
			t.Fatal(err)
		}
		h.Run("init", "r")
	}
	boot := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(boot, fmt.Appendf(nil, "00000000-0000-0000-0000-%012d\n", k), 0o644); err != nil {
		t.Fatal(err)
	}
	s := hgtest.Serve(t, hgtest.ServerOptions{
		Root: h.Dir, Env: []string{"XDG_STATE_HOME=" + filepath.Join(disk.Dir, "state")},
		Wrap: []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, boot},
	})
	return disk, &site{s, h, s.Client("r")}
}

func (l *cutLine) pushOn(ctx context.Context, s *site) error {
	for {
		ok, err := l.pushOne(ctx, s)
		if !ok || err != nil {
			return err
		}
		l.mu.Lock()
		l.taken = append(l.taken, l.last)
		l.mu.Unlock()
	}
}

// noteSure remembers what is acknowledged now, and counts it.
func (l *cutLine) noteSure() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sure = len(l.taken)
	return l.sure
}

// check wants all that was acknowledged before the cut to be there, and each
// pusher's next push to be taken.
func (p *powerCut) check(t *testing.T, s *site) {
	t.Helper()
	for _, l := range p.lines {
		l.goBack(t, s)
		if ok, err := l.pushOne(t.Context(), s); !ok || err != nil {
			t.Fatalf("push after a cut: %v", err)
		}
		l.taken = append(l.taken, l.last)
	}
	s.hg.In("r").Verify()
}

// goBack makes the line end where the server has it: what was acknowledged after
// the cut is not there, and what was not acknowledged may be.
func (l *cutLine) goBack(t *testing.T, s *site) {
	t.Helper()
	all := slices.Clone(l.taken)
	if l.pending != nil {
		all = append(all, l.pending)
	}
	if len(all) == 0 {
		return
	}
	var nodes []hg.Node
	for _, c := range all {
		nodes = append(nodes, c.Node())
	}
	n := slices.Index(append(s.client.Known(nodes...), false), false)
	if n < l.sure {
		t.Fatalf("%s: of %d pushes acknowledged before the cut, %d are there", l.branch, l.sure, n)
	}
	l.taken, l.last, l.pending = all[:n], nil, nil
	if n > 0 {
		l.last = all[n-1]
	}
	l.acked = nodes[:n]
}
