package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
	"vcsd/store"
)

// maxBatch is how many pushes one commit record holds at most.
const maxBatch = 256

// A readyPush is staged and holds its leases; the sequencer decides it.
type readyPush struct {
	staged *staged
	id     journal.Digest  // of the payload; zero if there is none
	dir    *quarantine.Dir // holds the segment; nil if there is none
	lease  *refs.Lease     // nil if no branch is touched
	who    Who

	// Set by the sequencer before it closes done.
	decision *decision
	err      error
	done     chan struct{}
}

func (r *readyPush) finish(err error) {
	r.err = err
	close(r.done)
}

// sequence publishes pushes in the order in which they get ready. What is
// ready while a batch is being published makes the next batch.
func (p *Pipeline) sequence(ctx context.Context) {
	defer close(p.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-p.ready:
			p.commit(context.WithoutCancel(ctx), p.gather(first))
		}
	}
}

// gather takes all pushes that are ready by now.
func (p *Pipeline) gather(first *readyPush) []*readyPush {
	batch := []*readyPush{first}
	for len(batch) < maxBatch {
		select {
		case r := <-p.ready:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// maxAttempts bounds how often a batch is numbered anew because another
// process published first.
const maxAttempts = 100

// commit publishes a batch, in the order of DESIGN §3.6 and §3.7, and finishes
// each of its pushes.
func (p *Pipeline) commit(ctx context.Context, batch []*readyPush) {
	unlock, err := p.lockStore(ctx)
	if err == nil {
		for range maxAttempts {
			if batch, err = p.attempt(ctx, batch); err == nil || !errors.Is(err, errTryAgain) {
				break
			}
		}
		err = errors.Join(err, unlock())
	}
	for _, r := range batch {
		r.finish(err)
	}
}

// errTryAgain means that the batch lost to somebody else and stands as it was.
var errTryAgain = errors.New("published by somebody else meanwhile")

// attempt decides, numbers and publishes a batch once. It finishes the pushes
// that are refused, and returns the rest.
func (p *Pipeline) attempt(ctx context.Context, batch []*readyPush) ([]*readyPush, error) {
	if err := p.failure(); err != nil {
		return batch, err
	}
	view, err := p.stateAtTip(ctx)
	if err != nil {
		return batch, err
	}
	defer view.Close()
	b, refused := p.decideBatch(view, batch)
	batch = b.pushes
	for _, r := range refused {
		close(r.done)
	}
	if b.empty() {
		return batch, nil
	}
	rec, touched, err := p.record(ctx, b)
	if err != nil {
		return batch, err
	}
	if err := p.reserve(rec); err != nil {
		return batch, err
	}
	return batch, p.publishRecord(ctx, b, rec, touched)
}

// A decided batch: the pushes that were accepted, and the state after them.
type decided struct {
	view    *store.View
	pending *pending
	pushes  []*readyPush
}

// empty tells whether the batch changes nothing, so that no record is due.
func (b *decided) empty() bool {
	for _, r := range b.pushes {
		if r.decision.changes() {
			return false
		}
	}
	return true
}

// decideBatch decides each push on top of those before it. Refused ones have
// their error set.
func (p *Pipeline) decideBatch(view *store.View, batch []*readyPush) (b *decided, refused []*readyPush) {
	b = &decided{view: view, pending: newPending(view)}
	publishing := p.publishing()
	for _, r := range batch {
		if r.lease != nil && r.lease.Err() != nil {
			r.err = fmt.Errorf("%w: %w", hg.ErrUnavailable, r.lease.Err())
			refused = append(refused, r)
			continue
		}
		r.decision, r.err = decide(b.pending, r.staged, publishing)
		if r.err != nil {
			refused = append(refused, r)
			continue
		}
		b.pushes = append(b.pushes, r)
	}
	return b, refused
}

// reserve claims the space that a record's writes need, so that a full disk is
// noticed while the push can still be refused.
func (p *Pipeline) reserve(rec *journal.Record) error {
	err := p.journal.Reserve(rec, p.repo.FS())
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) || errors.Is(err, syscall.EDQUOT) {
		return &hg.Abort{Message: "no space left on the server"}
	}
	return err
}

// publishRecord makes a record durable, publishes it and links it.
//
// The order is what makes it safe: the record and its segments are synced,
// then the transaction publishes them, then the store is brought up to date.
func (p *Pipeline) publishRecord(ctx context.Context, b *decided, rec *journal.Record, touched []string) error {
	digest, err := p.journal.Put(ctx, rec)
	if err != nil {
		return err
	}
	next := refs.Tip{Seq: rec.Seq, Digest: digest, ChangelogLen: rec.ChangelogLen, Node: rec.Tip}
	outcomes, err := b.outcomes(rec.Seq)
	if err != nil {
		return err
	}
	err = p.refs.Publish(ctx, refs.Publication{
		Repo: p.id, Old: p.knownTip(), New: next,
		Leases: b.leases(), Heads: b.headChanges(rec.Seq), Outcomes: outcomes,
	})
	if err != nil {
		return p.notPublished(ctx, err)
	}
	p.setTip(next)
	return p.link(rec, digest, touched, journal.ApplyOptions{})
}

// notPublished tells what becomes of a batch whose transaction did not go
// through. Its record stays in the journal, where no tip names it.
func (p *Pipeline) notPublished(ctx context.Context, err error) error {
	if errors.Is(err, refs.ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w", hg.ErrUnavailable, err)
	}
	if errors.Is(err, refs.ErrTipMoved) || errors.Is(err, refs.ErrHeadMoved) || errors.Is(err, refs.ErrLeaseLost) {
		if err := p.catchUpLocked(ctx); err != nil {
			return err
		}
		return errTryAgain
	}
	return fmt.Errorf("%w: %w", hg.ErrUnavailable, err)
}

// link applies a published record to the store and shows it to readers.
func (p *Pipeline) link(rec *journal.Record, digest journal.Digest, filelogs []string, o journal.ApplyOptions) error {
	id := journal.ID{Seq: rec.Seq, Digest: digest}
	err := p.repo.Exclusive(rec.Seq, func() ([]string, error) {
		touched, err := p.journal.Apply(rec, p.repo.FS(), o)
		if touched != nil {
			p.checkpoint.note(id, touched)
		}
		if err == nil {
			err = p.writeLinked(id)
		}
		return filelogs, err
	})
	if err != nil {
		return p.fail(fmt.Errorf("link record %d: %w", rec.Seq, err))
	}
	return nil
}

// leases returns the leases of all pushes of the batch.
func (b *decided) leases() []*refs.Lease {
	var ls []*refs.Lease
	for _, r := range b.pushes {
		if r.lease != nil {
			ls = append(ls, r.lease)
		}
	}
	return ls
}

// headChanges returns the new values of the branch head keys: seq and the
// heads, as doc/format/etcd-keys.md shows.
func (b *decided) headChanges(seq uint64) []refs.HeadChange {
	var changes []refs.HeadChange
	for branch, revs := range b.pending.branchHeads {
		changes = append(changes, refs.HeadChange{Branch: branch, Value: encodeHeads(seq, b.pending, revs)})
	}
	return changes
}

// outcomes returns what the idempotency table remembers of the batch.
func (b *decided) outcomes(seq uint64) ([]refs.Outcome, error) {
	var all []refs.Outcome
	for _, r := range b.pushes {
		if r.id == (journal.Digest{}) {
			continue
		}
		value, err := json.Marshal(outcomeOf(seq, r))
		if err != nil {
			return nil, err
		}
		all = append(all, refs.Outcome{Key: [32]byte(r.id), Value: value})
	}
	return all, nil
}

// maxOutcomeNodes bounds what an outcome remembers of a push: the last
// changesets stand for those before them, which are their ancestors or came
// in the same record.
const maxOutcomeNodes = 256

func outcomeOf(seq uint64, r *readyPush) *Outcome {
	o := &Outcome{Seq: seq, Reply: *replyOf(r.staged, r.decision)}
	fresh := r.decision.fresh
	for _, i := range fresh[max(0, len(fresh)-maxOutcomeNodes):] {
		o.Changesets = append(o.Changesets, r.staged.changesets[i].node)
	}
	o.Public = r.decision.published[max(0, len(r.decision.published)-maxOutcomeNodes):]
	for _, m := range r.decision.bookmarks {
		if o.Bookmarks == nil {
			o.Bookmarks = make(map[string]hg.Node)
		}
		o.Bookmarks[m.Name] = m.New
	}
	return o
}

// lockTimeout is how long the store's lock is waited for.
func (p *Pipeline) lockStore(ctx context.Context) (unlock func() error, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.limits.LockWait)
	defer cancel()
	return store.Lock(ctx, p.repo.FS(), store.LockName)
}
