package linear

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

var (
	duration = flag.Duration("duration", 20*time.Second, "how long TestLinearizable goes on")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of what TestLinearizable does")
)

// roundTime is how long one repository is used. Operations whose result is
// unknown stay open to the end of it, and each makes the check longer.
const roundTime = 10 * time.Second

// checkTime bounds the check of one round; it takes a fraction of a second.
const checkTime = 2 * time.Minute

func TestMain(m *testing.M) { hgtest.Main(m) }

// TestLinearizable has clients push, move bookmarks and read while servers
// are killed and stopped, each round in a repository of its own, and checks
// what they were told.
func TestLinearizable(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg needs hg recover after a kill")
	}
	t.Logf("-seed=%d", *seed)
	h := hgtest.New(t)
	h.Run("init", "plain")
	root := filepath.Join(h.Dir, "served")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	servers, host := startServers(t, root)
	n := &nemesis{servers: servers, host: host, rng: rand.New(rand.NewPCG(*seed, 1))}
	total := map[string]int{}
	operations, rounds := 0, 0
	for end := time.Now().Add(*duration); time.Now().Before(end) && !t.Failed(); rounds++ {
		w := newWorld(t, h, servers[0], rounds)
		w.round(t, servers, n, min(roundTime, time.Until(end)))
		operations += w.check(t, servers[0])
		for what, k := range w.counts {
			total[what] += k
		}
		h.In("served/" + w.repo).Verify()
	}
	t.Logf("%d rounds, %d operations by %d clients; %d kills, %d stops, %d of them beyond the leases' time",
		rounds, operations, clients, n.kills, n.stops, n.long)
	for _, what := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%8d %s", total[what], what)
	}
}

const (
	clients  = 6
	branches = 3
	marks    = 3
	targets  = 40
)

// newWorld makes a repository with the branches, their first changesets, and
// the changesets that bookmarks go to.
func newWorld(t *testing.T, h *hgtest.HG, s *server, round int) *world {
	t.Helper()
	w := &world{
		repo: fmt.Sprintf("r%d", round), start: time.Now(),
		nodes: map[string]*hgtest.Changeset{}, branch: map[string]string{}, place: map[string]int{}, counts: map[string]int{},
	}
	if err := hgtest.CopyTree(filepath.Join(h.Dir, "plain"), filepath.Join(h.Dir, "served", w.repo)); err != nil {
		t.Fatal(err)
	}
	var all []*hgtest.Changeset
	var c *hgtest.Changeset
	for i := range targets {
		c = hgtest.NewChangeset(c, "", fmt.Sprint("target ", i), map[string]string{"f": fmt.Sprint(i)})
		all, w.targets = append(all, c), append(w.targets, c.Node())
		w.learn(c, "default", nil)
	}
	for i := range branches {
		b := fmt.Sprint("b", i)
		root := hgtest.NewChangeset(c, b, "root of "+b, map[string]string{b: "root\n"})
		all, w.branches = append(all, root), append(w.branches, b)
		w.learn(root, b, nil)
		w.add(0, 0, 0, 1, input{"branch " + b, true, "", root.Node().String(), false}, output{result: done})
	}
	for i := range marks {
		w.marks = append(w.marks, fmt.Sprint("m", i))
	}
	a, err := s.client(w.repo).Unbundle(t.Context(), hgtest.Force, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(all...))...))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := hgtest.ParseReply(a); err != nil || r.Error != "" {
		t.Fatalf("first push: %+v, %v", r, err)
	}
	return w
}

// round lets clients and nemesis work for a while. At the end everybody has
// had an answer or has given up.
func (w *world) round(t *testing.T, servers []*server, n *nemesis, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		c := &client{world: w, id: i, rng: rand.New(rand.NewPCG(*seed, uint64(i)+2)), servers: servers, seen: map[string]string{}}
		wg.Go(func() { c.run(ctx) })
	}
	n.run(ctx)
	wg.Wait()
}

// check looks at the end and checks the history. It returns its length.
func (w *world) check(t *testing.T, s *server) int {
	t.Helper()
	last := &client{world: w, id: clients, servers: []*server{s}, rng: rand.New(rand.NewPCG(1, 1)), seen: map[string]string{}}
	last.readHeads()
	last.readBookmarks()
	history := settled(w.history, w.whatIsThere(t, s))
	for _, part := range register.Partition(history) {
		result, info := porcupine.CheckOperationsVerbose(register, part, checkTime)
		if result != porcupine.Ok {
			t.Errorf("%s, %s: %v, want linearizable:\n%s", w.repo, part[0].Input.(input).register, result, stuck(part, info))
		}
	}
	return len(history)
}

// stuck tells what doesn't fit: the first operation that is in none of the
// orders that were found, and those around it.
func stuck(history []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	same := func(a porcupine.Operation) func(porcupine.Operation) bool {
		return func(b porcupine.Operation) bool { return a.Call == b.Call && a.ClientId == b.ClientId }
	}
	var bad porcupine.Operation
	bad.Return = forever
	for _, o := range history {
		if o.Return < bad.Return && !slices.ContainsFunc(longest, same(o)) {
			bad = o
		}
	}
	const around = int64(200 * time.Millisecond)
	var b strings.Builder
	for _, o := range history {
		if o.Return < bad.Call-around || o.Call > bad.Return+around {
			continue
		}
		if same(o)(bad) {
			b.WriteString("does not fit: ")
		}
		b.WriteString(told(o))
	}
	return b.String()
}

// told writes an operation for people.
func told(o porcupine.Operation) string {
	end := "open"
	if o.Return != forever {
		end = time.Duration(o.Return).String()
	}
	return fmt.Sprintf("%v to %v, client %d of server %d: %s\n", time.Duration(o.Call), end, o.ClientId, o.Metadata, register.DescribeOperation(o.Input, o.Output))
}

// whatIsThere asks for all changesets that were ever sent.
func (w *world) whatIsThere(t *testing.T, s *server) func(node string) bool {
	t.Helper()
	names := slices.Sorted(maps.Keys(w.nodes))
	there := map[string]bool{}
	for part := range slices.Chunk(names, 500) {
		var nodes []hg.Node
		for _, n := range part {
			nodes = append(nodes, w.nodes[n].Node())
		}
		for i, known := range s.client(w.repo).Known(nodes...) {
			there[part[i]] = known
		}
	}
	return func(node string) bool { return there[strings.TrimSpace(node)] }
}
