package ingest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

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

	// unknown is what its sender is told should the push end without anybody
	// knowing whether it was published. It belongs to its sender.
	unknown error

	// state tells who may still end the push: its sender, by leaving, or
	// the sequencer, by taking it.
	state atomic.Int32

	// Set by the sequencer before it closes done.
	decision *decision
	err      error
	done     chan struct{}
}

// The states of a readyPush.
const (
	pushWaits = iota
	pushTaken
	pushLeft
)

// start makes the push ready to be decided, perhaps once more.
func (r *readyPush) start() {
	r.state.Store(pushWaits)
	r.decision, r.err, r.done = nil, nil, make(chan struct{})
}

// take makes the push the sequencer's; false if its sender has left.
func (r *readyPush) take() bool { return r.state.CompareAndSwap(pushWaits, pushTaken) }

// leave gives the push up; false if it is being decided.
func (r *readyPush) leave() bool { return r.state.CompareAndSwap(pushWaits, pushLeft) }

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
			p.commit(ctx, p.gather([]*readyPush{first}))
		}
	}
}

// gather adds all pushes that are ready by now.
func (p *Pipeline) gather(batch []*readyPush) []*readyPush {
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
// each of its pushes. Until they are taken their senders may leave, and the
// end of ctx gives them up.
func (p *Pipeline) commit(ctx context.Context, batch []*readyPush) {
	unlock, err := p.lockStore(ctx, p.limits.LockWait)
	if err != nil {
		for _, r := range batch {
			r.finish(unavailable(err))
		}
		return
	}
	batch = slices.DeleteFunc(p.gather(batch), func(r *readyPush) bool { return !r.take() })
	batch, err = p.attempts(context.WithoutCancel(ctx), batch)
	// What was published stands, whatever becomes of the lock.
	if uerr := unlock(); uerr != nil {
		p.log.Error("store lock not released", "error", uerr)
	}
	for _, r := range batch {
		r.finish(err)
	}
}

// attempts decides a batch until it is published or refused. It finishes the
// pushes that are refused, and returns the rest with what all of them are told.
func (p *Pipeline) attempts(ctx context.Context, batch []*readyPush) (rest []*readyPush, err error) {
	rest = batch
	defer func() {
		if v := recover(); v != nil {
			// Our own bug: what was done until then is not known.
			err = p.fail(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	for range maxAttempts {
		var refused []*readyPush
		rest, refused, err = p.attempt(ctx, batch)
		if err == nil || !errors.Is(err, errTryAgain) {
			for _, r := range refused {
				close(r.done)
			}
			return rest, err
		}
		rest = batch
	}
	return rest, unavailable(err)
}

// attempt decides, numbers and publishes a batch once. The refusals it
// returns, with their errors set, are those of the state at the tip: either
// the transaction proved that, or the tip was read again.
func (p *Pipeline) attempt(ctx context.Context, batch []*readyPush) (accepted, refused []*readyPush, err error) {
	published := false
	defer func() {
		if err != nil && !published {
			unproven(refused, err)
		}
	}()
	if err := p.failure(); err != nil {
		return batch, nil, err
	}
	tip, err := p.beAtTip(ctx)
	if err != nil {
		return batch, nil, err
	}
	view, tip, err := p.stateAtTip(ctx, tip)
	if err != nil {
		return batch, nil, err
	}
	defer view.Close()
	b, refused, rec, touched, err := p.prepare(ctx, view, tip, batch)
	if err != nil {
		return b.pushes, refused, err
	}
	if rec == nil {
		return b.pushes, refused, p.confirmTip(ctx, tip)
	}
	after, err := p.publishRecord(ctx, b, rec, touched)
	published = after != tip
	return b.pushes, refused, err
}

// unproven takes back that pushes lost a race: it may have been against pushes
// of their own batch, which was not published because of err.
func unproven(refused []*readyPush, err error) {
	for _, r := range refused {
		if raced := new(hg.PushRaced); errors.As(r.err, &raced) {
			r.err = unavailable(err)
		}
	}
}

// prepare decides and numbers a batch. A push that can't be numbered is
// refused alone, and the others once more without it. rec is nil if nothing
// changes.
func (p *Pipeline) prepare(ctx context.Context, view *store.View, tip refs.Tip, batch []*readyPush) (
	b *decided, refused []*readyPush, rec *journal.Record, touched []string, err error) {
	b = &decided{pushes: batch}
	err = guarded(func() error {
		var bad []*readyPush
		for {
			b, refused = p.decideBatch(view, tip, batch)
			refused = append(refused, bad...)
			if b.empty() {
				return nil
			}
			var push *readyPush
			if rec, touched, push, err = p.record(ctx, b); push == nil {
				return err
			}
			push.err = err
			bad = append(bad, push)
			batch = slices.DeleteFunc(slices.Clone(batch), func(r *readyPush) bool { return r == push })
		}
	})
	if err == nil && rec != nil {
		err = p.reserve(rec)
	}
	return b, refused, rec, touched, err
}

// A decided batch: the pushes that were accepted, and the state after them.
type decided struct {
	view    *store.View
	pending *pending
	pushes  []*readyPush
	tip     refs.Tip // that view shows
	preview bool     // for hooks to look at; nothing of it is kept
}

// empty tells whether the batch changes nothing, so that no record is due.
func (b *decided) empty() bool {
	return !slices.ContainsFunc(b.pushes, func(r *readyPush) bool { return r.decision.changes() })
}

// decideBatch decides each push on top of those before it. Refused ones have
// their error set.
func (p *Pipeline) decideBatch(view *store.View, tip refs.Tip, batch []*readyPush) (b *decided, refused []*readyPush) {
	b = &decided{view: view, pending: newPending(view), tip: tip}
	policy := p.policy()
	for _, r := range batch {
		if r.lease != nil && r.lease.Err() != nil {
			r.err = fmt.Errorf("%w: %w", errLeaseLost, r.lease.Err())
		} else if r.staged.generation != view.Generation() && len(r.staged.changesets) > 0 {
			// What it refers to may be gone.
			r.err = raced("revisions were removed")
		} else {
			r.decision, r.err = decide(b.pending, proven(r.staged), policy)
		}
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
	return classify(p.journal.Reserve(rec, p.fs))
}

// publishRecord makes a record durable, publishes it and links it. It returns
// the tip after it.
//
// The order is what makes it safe: the record and its segments are synced,
// then the transaction publishes them, then the store is brought up to date.
func (p *Pipeline) publishRecord(ctx context.Context, b *decided, rec *journal.Record, touched []string) (refs.Tip, error) {
	digest, err := p.journal.Put(ctx, rec)
	if err != nil {
		return b.tip, p.notPut(err)
	}
	next := refs.Tip{Seq: rec.Seq, Digest: digest, ChangelogLen: rec.ChangelogLen, Node: rec.Tip}
	outcomes, err := b.outcomes(rec.Seq)
	if err != nil {
		return b.tip, err
	}
	err = p.refs.Publish(ctx, refs.Publication{
		Repo: p.id, Old: b.tip, New: next,
		Leases: b.leases(), Heads: b.headChanges(rec.Seq), Outcomes: outcomes,
	})
	if err != nil {
		return b.tip, p.notPublished(ctx, err)
	}
	p.setTip(next)
	if err := p.link(rec, digest, touched, journal.ApplyOptions{}); err != nil {
		return next, p.linkAgain(ctx, err)
	}
	return next, nil
}

// linkAgain gives a record that was published a second chance to be linked.
func (p *Pipeline) linkAgain(ctx context.Context, err error) error {
	if p.failure() == nil {
		_, again := p.catchUpLocked(ctx)
		if again == nil {
			_, again = p.repo.Refresh()
		}
		if again == nil {
			return nil
		}
		err = errors.Join(err, again)
	}
	p.fallBehind()
	return notStored(err)
}

// notPut tells what becomes of a batch whose record could not be written. A
// failed sync is final (I8).
func (p *Pipeline) notPut(err error) error {
	var sync *journal.SyncError
	if errors.As(err, &sync) {
		return p.fail(err)
	}
	return classify(err)
}

// notPublished tells what becomes of a batch whose transaction did not go
// through. Its record stays in the journal, where no tip names it.
func (p *Pipeline) notPublished(ctx context.Context, err error) error {
	if errors.Is(err, refs.ErrUnknownOutcome) {
		p.fallBehind()
		return outcomeUnknown(err)
	}
	if errors.Is(err, refs.ErrTipMoved) || errors.Is(err, refs.ErrHeadMoved) || errors.Is(err, refs.ErrLeaseLost) {
		if _, err := p.catchUpLocked(ctx); err != nil {
			return err
		}
		return errTryAgain
	}
	return noAnswer(err)
}

// link applies a published record to the store and shows it to readers. What
// goes wrong is mended by applying the record again, by the next push or by
// keepUp; only a failed sync is final (I8).
func (p *Pipeline) link(rec *journal.Record, digest journal.Digest, filelogs []string, o journal.ApplyOptions) error {
	id := journal.ID{Seq: rec.Seq, Digest: digest}
	err := p.exclusive(rec.Seq, func(show func()) ([]string, error) {
		if err := p.dropUndo(); err != nil {
			return nil, err
		}
		o.Before = func(path string) {
			if store.Shows(path) {
				show()
			}
		}
		return filelogs, inOrder(
			func() error { return p.apply(rec, id, o) },
			func() error { return p.writeLinked(id) })
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("link record %d: %w", rec.Seq, err)
	var sync *journal.SyncError
	if errors.As(err, &sync) {
		return p.fail(err)
	}
	p.log.Error("record not linked", "seq", rec.Seq, "error", err)
	return err
}

// apply writes a record to the store.
func (p *Pipeline) apply(rec *journal.Record, id journal.ID, o journal.ApplyOptions) error {
	touched, err := p.journal.Apply(rec, p.fs, o)
	if err != nil {
		p.checkpoint.touch(touched)
		return err
	}
	p.checkpoint.note(id, touched)
	return p.noteMarkers(id)
}

// exclusive shows readers what f links, once it is done.
func (p *Pipeline) exclusive(seq uint64, f func(show func()) (filelogs []string, err error)) error {
	if p.repo == nil {
		_, err := f(func() {})
		return err
	}
	return p.repo.Exclusive(seq, f)
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
// heads, as doc/format/etcd-keys.md shows. A branch without visible heads has
// no key.
func (b *decided) headChanges(seq uint64) []refs.HeadChange {
	var changes []refs.HeadChange
	for branch, revs := range b.pending.branchHeads {
		h := refs.HeadChange{Branch: branch}
		if len(revs) > 0 {
			h.Value = encodeHeads(seq, b.pending, revs)
		}
		changes = append(changes, h)
	}
	return changes
}
