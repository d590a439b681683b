package refstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"vcsd/hg"
	"vcsd/refs"
)

var crowdCases = []testCase{
	{name: "no two have a branch, nobody waits for ever", run: func(b *bench) {
		crowd(b, []*refs.Client{b.node(refs.Options{}), b.node(refs.Options{HandOvers: 2})}, 12)
	}},
	{name: "the same under faults", run: func(b *bench) {
		var nodes []*refs.Client
		for seed := range uint64(3) {
			f := flaky{rng: rand.New(rand.NewPCG(seed, 7))}
			nodes = append(nodes, b.node(refs.Options{Fault: f.fault}))
		}
		crowd(b, nodes, 8)
	}},
}

// flaky makes one request in eight fail, in one way or another. Heartbeats
// pass: leases are to be held.
type flaky struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (f *flaky) fault(r refs.Request) refs.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Name == "keepalive" || f.rng.IntN(8) > 0 {
		return refs.FaultNone
	}
	return refs.Fault(1 + f.rng.IntN(3))
}

// A history is what the crowd saw.
type history struct {
	mu     sync.Mutex
	tips   map[uint64]refs.Tip    // published and acknowledged, by seq
	owner  map[string]*refs.Lease // who has a branch
	errors []string
}

func (h *history) complain(format string, args ...any) {
	h.errors = append(h.errors, fmt.Sprintf(format, args...))
}

func (h *history) took(l *refs.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, branch := range l.Branches() {
		if o := h.owner[branch]; o != nil && o.Err() == nil {
			h.complain("two have branch %q", branch)
		}
		h.owner[branch] = l
	}
}

func (h *history) gave(l *refs.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, branch := range l.Branches() {
		if h.owner[branch] == l {
			delete(h.owner, branch)
		}
	}
}

// published takes note of an acknowledged publication.
func (h *history) published(t refs.Tip) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other, ok := h.tips[t.Seq]; ok {
		h.complain("seq %d was acknowledged as %x and %x", t.Seq, other.Digest[:4], t.Digest[:4])
	}
	h.tips[t.Seq] = t
}

// saw takes note of a tip that was read.
func (h *history) saw(t refs.Tip) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if acked, ok := h.tips[t.Seq]; ok && acked != t {
		h.complain("seq %d was acknowledged as %x and read as %x", t.Seq, acked.Digest[:4], t.Digest[:4])
	}
	for seq := range h.tips {
		if seq > t.Seq+100 {
			h.complain("seq %d was read after %d was acknowledged", t.Seq, seq)
		}
	}
}

// crowd lets pushers on all nodes publish to random branches.
func crowd(b *bench, nodes []*refs.Client, pushers int) {
	h := &history{tips: map[uint64]refs.Tip{}, owner: map[string]*refs.Lease{}}
	var wg sync.WaitGroup
	for i, node := range nodes {
		for j := range pushers {
			salt := byte(i*pushers + j + 1)
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(salt), 1))
				for n := range 6 {
					if err := pusher(b, h, node, rng, salt, byte(n)); err != nil {
						h.mu.Lock()
						h.complain("pusher %d: %v", salt, err)
						h.mu.Unlock()
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for _, e := range h.errors {
		b.Error(e)
	}
	last := b.tip(nodes[0])
	h.saw(last)
	if acked := len(h.tips); acked != len(nodes)*pushers*6 {
		b.Errorf("%d publications were acknowledged, want %d", acked, len(nodes)*pushers*6)
	}
	for seq := range h.tips {
		if seq > last.Seq {
			b.Errorf("seq %d was acknowledged, but the tip is at %d", seq, last.Seq)
		}
	}
	l := b.lock(nodes[0], crowdBranches...)
	b.unlock(l)
}

var crowdBranches = []string{"a", "b", "c", "d", "e"}

// pusher publishes once, with as many attempts as it takes.
func pusher(b *bench, h *history, c *refs.Client, rng *rand.Rand, salt, n byte) error {
	branches := slices.Clone(crowdBranches)
	rng.Shuffle(len(branches), func(i, j int) { branches[i], branches[j] = branches[j], branches[i] })
	branches = branches[:1+rng.IntN(3)]
	for attempt := byte(0); b.ctx.Err() == nil; attempt++ {
		l, err := c.Acquire(b.ctx, b.repo, branches)
		if err != nil {
			return err
		}
		h.took(l)
		done, err := publishHeld(b, h, c, l, [32]byte{salt, n, attempt})
		h.gave(l)
		if rerr := l.Release(b.ctx); err != nil || rerr != nil {
			return errors.Join(err, rerr)
		}
		if done {
			return nil
		}
	}
	return b.ctx.Err()
}

// publishHeld publishes under a lease, as often as the tip moves away; false
// if it takes a new lease.
func publishHeld(b *bench, h *history, c *refs.Client, l *refs.Lease, digest [32]byte) (bool, error) {
	for try := byte(0); ; try++ {
		old, _, err := c.Tip(b.ctx, b.repo)
		if err != nil {
			return false, err
		}
		h.saw(old)
		if old.Digest == digest { // the unknown one took place
			h.published(old)
			return true, nil
		}
		next := after(old, 0)
		next.Digest = digest
		next.Digest[3] = try
		p := refs.Publication{Repo: b.repo, Old: old, New: next, Leases: []*refs.Lease{l}}
		for _, branch := range l.Branches() {
			p.Heads = append(p.Heads, refs.HeadChange{Branch: branch, Value: digest[:]})
		}
		h.gaveBefore(l)
		switch err := c.Publish(b.ctx, p); {
		case err == nil:
			h.published(next)
			return true, nil
		case errors.Is(err, refs.ErrLeaseLost):
			return false, nil
		case errors.Is(err, refs.ErrTipMoved), errors.Is(err, hg.ErrUnavailable):
			h.took(l)
		default:
			return false, err
		}
		time.Sleep(time.Duration(try)) // a bubble's clock must move
	}
}

// gaveBefore takes note that l may be released: by the time that Publish
// returns, the next one may have its branches.
func (h *history) gaveBefore(l *refs.Lease) { h.gave(l) }
