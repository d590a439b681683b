package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
	"vcsd/store"
)

// Options are what a Pipeline needs from its surroundings.
type Options struct {
	Refs   refs.Store
	RepoID refs.RepoID
	Node   string // name of this server, for the records
	Log    *slog.Logger
	Limits Limits
	BootID string // of this run of the machine, see BootID

	// Publishing tells whether the repository publishes what is pushed
	// (phases.publish). It is asked for each push.
	Publishing func() bool
}

// A Pipeline takes the pushes of one repository.
type Pipeline struct {
	repo       *store.Repo
	refs       refs.Store
	id         refs.RepoID
	node       string
	log        *slog.Logger
	limits     Limits
	publishing func() bool

	journal    *journal.Journal
	quarantine *quarantine.Area

	ready   chan *readyPush // pushes that hold their leases
	stop    context.CancelFunc
	stopped chan struct{} // closed when the sequencer has ended

	// failed is set once when applying or syncing went wrong: nothing is
	// published any more, reads go on (I8).
	failed atomic.Pointer[error]

	checkpoint *checkpointer
	bootID     string

	// tip is what the sequencer last knew to be published.
	tipMu sync.Mutex
	tip   refs.Tip // guarded by tipMu
}

// Where vcsd keeps its own files, relative to .hg.
const (
	vcsdDir       = "vcsd"
	quarantineDir = vcsdDir + "/quarantine"
	journalDir    = vcsdDir + "/journal"
)

// Open brings the repository up to the published tip and starts its pipeline.
// The caller closes it.
func Open(ctx context.Context, repo *store.Repo, o Options) (*Pipeline, error) {
	fsys := repo.FS()
	if err := fsys.MkdirAll(quarantineDir); err != nil {
		return nil, err
	}
	j, err := journal.Open(fsys, journalDir, journal.Options{})
	if err != nil {
		return nil, err
	}
	limits := o.Limits.withDefaults()
	area, err := quarantine.Open(fsys, quarantineDir, quarantine.Options{MaxBytes: limits.MaxPushBytes, QuotaBytes: limits.QuarantineBytes})
	if err != nil {
		return nil, err
	}
	if err := area.Sweep(ctx); err != nil {
		return nil, errors.Join(err, area.Close())
	}
	p := &Pipeline{
		repo: repo, refs: o.Refs, id: o.RepoID, node: o.Node, log: o.Log, limits: limits, publishing: o.Publishing,
		journal: j, quarantine: area,
		ready: make(chan *readyPush), stopped: make(chan struct{}), checkpoint: newCheckpointer(), bootID: o.BootID,
	}
	if err := p.catchUp(ctx); err != nil {
		return nil, errors.Join(err, area.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go p.checkpoint.run(run, p)
	go p.sequence(run)
	return p, nil
}

// Close waits for the pushes in flight and lets go of everything.
func (p *Pipeline) Close() error {
	p.stop()
	<-p.stopped
	return errors.Join(p.checkpoint.wait(), p.quarantine.Close())
}

// fail stops publishing for good.
func (p *Pipeline) fail(err error) error {
	err = fmt.Errorf("repository no longer takes pushes: %w", err)
	if p.failed.CompareAndSwap(nil, &err) {
		p.log.Error("publishing stopped", "error", err)
	}
	return err
}

// Push receives, verifies and publishes a bundle. An error that is one of
// hg's is the client's answer; for a bundle2 push, reply then holds what had
// been said before it.
func (p *Pipeline) Push(ctx context.Context, req Request) (*Reply, error) {
	dir, err := p.quarantine.Receive(ctx, req.Body)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := dir.Release(); err != nil {
			p.log.Warn("quarantine not removed", "error", err)
		}
	}()
	return quarantine.Do(ctx, p.quarantine, dir.Digest(), func(ctx context.Context) (*Reply, error) {
		return p.pushOnce(ctx, dir, req)
	})
}

// answered returns the reply that the same payload got when it was committed,
// if what it did then still holds.
func (p *Pipeline) answered(ctx context.Context, dir *quarantine.Dir) (*Reply, error) {
	value, ok, err := p.refs.Outcome(ctx, p.id, dir.Digest())
	if err != nil || !ok {
		return nil, err
	}
	var o Outcome
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, fmt.Errorf("outcome of %x: %w", dir.Digest(), err)
	}
	view, err := p.viewAt(ctx, o.Seq)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if !o.holds(view) {
		return nil, nil
	}
	return &o.Reply, nil
}

// holds tells whether all that a push brought about is still so.
func (o *Outcome) holds(view *store.View) bool {
	for _, n := range o.Changesets {
		if _, ok := view.Rev(n); !ok {
			return false
		}
	}
	for _, n := range o.Public {
		if r, ok := view.Rev(n); !ok || view.Phase(r) != hg.Public {
			return false
		}
	}
	for name, n := range o.Bookmarks {
		if view.Bookmark(name) != n {
			return false
		}
	}
	return len(o.Changesets)+len(o.Public)+len(o.Bookmarks) > 0
}

// pushOnce stages a received bundle and publishes it, unless that was done
// before.
func (p *Pipeline) pushOnce(ctx context.Context, dir *quarantine.Dir, req Request) (*Reply, error) {
	if reply, err := p.answered(ctx, dir); reply != nil || err != nil {
		return reply, err
	}
	st, err := p.stage(ctx, dir, req)
	if err != nil {
		return replyOf(st, nil), err
	}
	return p.publish(ctx, &readyPush{staged: st, id: journal.Digest(dir.Digest()), dir: dir, who: req.Who})
}

// stage decodes and verifies a received bundle. It holds no lock.
func (p *Pipeline) stage(ctx context.Context, dir *quarantine.Dir, req Request) (*staged, error) {
	view, err := p.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	f, err := dir.CreateSegment()
	if err != nil {
		return nil, err
	}
	payload, err := dir.OpenPayload()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer payload.Close() // read only
	s := newStager(view, newSegment(f), p.limits)
	if req.CheckHeads != nil {
		s.op(checkSentHeads{req.CheckHeads})
	}
	st, err := s.bundle(ctx, payload)
	return st, errors.Join(err, f.Close())
}

// publish takes the leases of a push and hands it to the sequencer.
func (p *Pipeline) publish(ctx context.Context, r *readyPush) (*Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.PublishWait)
	defer cancel()
	if err := p.failure(); err != nil {
		return nil, err
	}
	if branches := r.staged.branches(); len(branches) > 0 {
		lease, err := p.refs.Acquire(ctx, p.id, branches)
		if err != nil {
			return nil, waitError(err)
		}
		r.lease = lease
		defer func() {
			if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
				p.log.Warn("lease not released", "repo", p.id, "error", err)
			}
		}()
	}
	r.done = make(chan struct{})
	select {
	case p.ready <- r:
	case <-p.stopped:
		return nil, hg.ErrUnavailable
	case <-ctx.Done():
		return nil, waitError(ctx.Err())
	}
	// From here on the push is decided, whatever becomes of the client.
	<-r.done
	return replyOf(r.staged, r.decision), r.err
}

func (p *Pipeline) failure() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// waitError is what a client is told whose push could not get its turn.
func waitError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (waited too long for other pushes)", hg.ErrUnavailable)
	}
	return err
}

// branches returns the branches that a push adds changesets to, sorted.
func (s *staged) branches() []string {
	set := make(map[string]struct{})
	for _, c := range s.changesets {
		set[c.branch] = struct{}{}
	}
	return slices.Sorted(maps.Keys(set))
}

// viewAt returns a view of at least seq.
func (p *Pipeline) viewAt(ctx context.Context, seq uint64) (*store.View, error) {
	view, err := p.repo.View(ctx)
	if err != nil || view.Seq() >= seq {
		return view, err
	}
	view.Close()
	if err := p.catchUp(ctx); err != nil {
		return nil, err
	}
	return p.repo.View(ctx)
}

// Pushkey compares and sets one key, as a push that holds nothing else.
// It reports whether the key now has the new value.
func (p *Pipeline) Pushkey(ctx context.Context, namespace, key, oldValue, newValue string, who Who) (bool, error) {
	st := &staged{ops: []op{pushkey{namespace: namespace, key: key, old: oldValue, new: newValue}}}
	r := &readyPush{staged: st, who: who}
	if _, err := p.publish(ctx, r); err != nil {
		return false, err
	}
	return r.decision.result == 1, nil
}

// replyOf puts together what a push is told.
func replyOf(st *staged, d *decision) *Reply {
	if st == nil {
		return nil
	}
	reply := &Reply{Bundle2: st.reply.bundle2, Caps: st.reply.caps}
	if d != nil {
		reply.Parts = d.replyParts
		reply.Ret = d.result
		reply.Output = d.output.String()
	}
	return reply
}
