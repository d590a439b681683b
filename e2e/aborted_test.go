package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

var aborts = flag.Int("aborts", 600, "how many pushes TestAbortedPushes has refused or breaks off")

// TestAbortedPushes has pushes refused for each reason there is, and breaks others
// off anywhere: nothing stays in quarantine, and descriptors and memory are where
// they were after the first of them.
func TestAbortedPushes(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	pushes := badPushes(g)
	files := g.openFiles(t)
	g.abort(t, pushes, *aborts/4)
	before := g.usage(t, files)
	g.abort(t, pushes, *aborts-*aborts/4)
	after := g.usage(t, files)
	t.Logf("%d aborted pushes; before the last three quarters of them %v, and then %v", *aborts, before, after)
	if after.files > files {
		t.Errorf("%d open files, at first %d", after.files, files)
	}
	if after.memory > before.memory+before.memory/2 {
		t.Errorf("%d MiB of memory, before %d", after.memory>>20, before.memory>>20)
	}
	g.checkUntouched(t)
	g.takesGood(t)
}

// A badPush is the body of a push that is not to be taken, and what it is told
// that the heads are.
type badPush struct {
	heads  string
	bundle []byte
}

// badPushes returns one for each reason to refuse a push.
func badPushes(g *target) []badPush {
	next := hgtest.NewChangeset(g.root, "", "next", map[string]string{"f": strings.Repeat("next\n", 20_000)})
	good := hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(next))...)
	raced := hgtest.Bundle2(hgtest.PushParts([]hg.Node{unknownNode}, hgtest.ChangegroupOf(next))...)
	all := []badPush{{hgtest.JoinNodes([]hg.Node{unknownNode}), good}, {hgtest.Force, raced}}
	for _, b := range badStreams(good) {
		all = append(all, badPush{hgtest.Force, b.data})
	}
	for _, bad := range badChangesets {
		c := hgtest.NewChangeset(g.root, "", "bad", map[string]string{"f": "new\n"})
		bad.spoil(c)
		all = append(all, badPush{hgtest.Force, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(c))...)})
	}
	return all
}

// abortWorkers is how many clients push at once.
const abortWorkers = 16

// abort makes n pushes that are all refused or broken off.
func (g *target) abort(t *testing.T, pushes []badPush, n int) {
	t.Helper()
	todo := make(chan int)
	var clients sync.WaitGroup
	for w := range abortWorkers {
		rng := rand.New(rand.NewPCG(uint64(n), uint64(w)))
		clients.Go(func() {
			for i := range todo {
				p := pushes[i%len(pushes)]
				var err error
				if rng.IntN(2) == 0 {
					err = g.breakOff(p, rng)
				} else {
					err = g.refused(t, p)
				}
				if err != nil {
					t.Errorf("push %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	clients.Wait()
}

func (g *target) refused(t *testing.T, p badPush) error {
	a, err := g.client.Unbundle(t.Context(), p.heads, p.bundle)
	if err != nil {
		return err
	}
	if _, ok := refusal(a); !ok {
		return fmt.Errorf("status %d, body %.300q; want a refusal", a.Status, a.Body)
	}
	return nil
}

// breakOff sends a part of a push and goes away without a word.
func (g *target) breakOff(p badPush, rng *rand.Rand) error {
	conn, err := g.beginPush(p.heads, len(p.bundle)+1)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetLinger(rng.IntN(2) - 1); err != nil { // a reset, or an end
		return err
	}
	// A server that has refused by now may have closed the connection.
	_, _ = conn.Write(p.bundle[:rng.IntN(len(p.bundle)+1)])
	return nil
}

// usage is what a server holds.
type usage struct {
	files  int
	memory int64 // resident, in bytes
}

func (u usage) String() string { return fmt.Sprintf("%d open files, %d MiB", u.files, u.memory>>20) }

// usage returns what the server holds, once it holds no more than so many open
// files: it takes a moment to see that a connection has ended.
func (g *target) usage(t *testing.T, files int) usage {
	t.Helper()
	g.client.CloseIdle()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		u := usage{g.openFiles(t), g.status(t, "VmRSS:")}
		if u.files <= files || time.Now().After(end) {
			return u
		}
	}
}

func (s *site) openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// status returns a number of kilobytes from what the kernel tells of the server,
// in bytes.
func (s *site) status(t *testing.T, field string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), field)
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil || !ok {
		t.Fatalf("no %s in %q", field, b)
	}
	return kib << 10
}
