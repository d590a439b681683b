package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vcsd/journal"
	"vcsd/refs"
	"vcsd/store"
)

const (
	// openWait is how long the opening of a repository waits for a local hg.
	openWait = 2 * time.Second

	// tipWait is how long it waits for the tip.
	tipWait = time.Second
)

func (p *Pipeline) knownTip() refs.Tip {
	p.tipMu.Lock()
	defer p.tipMu.Unlock()
	return p.tip
}

func (p *Pipeline) setTip(t refs.Tip) {
	p.tipMu.Lock()
	defer p.tipMu.Unlock()
	p.tip = t
}

// lockStore takes the lock that keeps a local hg away, and other processes. It
// rolls back what a local hg left that was killed in a transaction: its offsets
// are those from before the pushes to come.
func (p *Pipeline) lockStore(ctx context.Context, wait time.Duration) (unlock func() error, err error) {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	unlock, err = store.Lock(limited, p.fs, store.LockName)
	if err != nil {
		return nil, err
	}
	done, err := store.RollBack(p.fs)
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	if done {
		p.log.WarnContext(ctx, "a transaction in which a local hg was killed has been rolled back")
	}
	return unlock, nil
}

// rollBack does what lockStore does for a repository that is about to be opened.
// While a local hg is at work there is nothing to roll back.
func (p *Pipeline) rollBack(ctx context.Context) error {
	there, err := store.HasAbandoned(p.fs)
	if !there || err != nil {
		return err
	}
	unlock, err := p.lockStore(ctx, 0)
	if isLockHeld(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return unlock()
}

func isLockHeld(err error) bool {
	var held *store.LockHeldError
	return errors.As(err, &held)
}

// catchUp brings the store up to the published tip: it applies the records
// that the store does not hold yet. That is the whole of recovery. Without any
// it takes no lock, and leaves the known tip alone: the sequencer may be about to
// publish upon it.
func (p *Pipeline) catchUp(ctx context.Context, wait time.Duration) error {
	tip, exists, err := p.refs.Tip(ctx, p.id)
	if err != nil {
		return noAnswer(err)
	}
	return p.catchUpTo(ctx, tip, exists, wait)
}

// catchUpSoon is catchUp while readers wait: it gives up soon.
func (p *Pipeline) catchUpSoon(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, tipWait)
	defer cancel()
	tip, exists, err := p.refs.Tip(soon, p.id)
	if err != nil {
		return noAnswer(err)
	}
	return p.catchUpTo(ctx, tip, exists, openWait)
}

// catchUpTo is catchUp for who has just read the tip.
func (p *Pipeline) catchUpTo(ctx context.Context, tip refs.Tip, exists bool, wait time.Duration) error {
	linked, err := p.readLinked()
	if err != nil {
		return err
	}
	begun, _, err := p.begunSync()
	if err != nil {
		return err
	}
	if !begun && (exists && linked == tipID(tip) || !exists && linked.Seq == 0) {
		return p.noteLinked(linked)
	}
	unlock, err := p.lockStore(ctx, wait)
	if err != nil {
		return unavailable(err)
	}
	_, err = p.catchUpLocked(ctx)
	if uerr := unlock(); uerr != nil {
		p.log.Error("store lock not released", "error", uerr)
	}
	return err
}

func tipID(t refs.Tip) journal.ID { return journal.ID{Seq: t.Seq, Digest: t.Digest} }

// catchUpLocked is catchUp for a caller that holds the store's lock. It
// returns the tip that the store is at then.
func (p *Pipeline) catchUpLocked(ctx context.Context) (refs.Tip, error) {
	tip, exists, err := p.refs.Tip(ctx, p.id)
	if err != nil {
		return tip, noAnswer(err)
	}
	linked, err := p.readLinked()
	if err != nil {
		return tip, err
	}
	if !exists && linked.Seq > 0 {
		return tip, otherService("the store holds record %d, but nothing was published", linked.Seq)
	}
	if err := p.noteLinked(linked); err != nil {
		return tip, err
	}
	err = p.redo(ctx, linked, tipID(tip))
	p.markersAt = nil
	if err != nil {
		return tip, err
	}
	p.setTip(tip)
	return tip, p.finishSync(ctx, tipID(tip))
}

// beAtTip makes sure that the store holds the records up to the known tip, and
// that it is known what other processes published here. It returns that tip,
// which may be out of date as soon as somebody publishes elsewhere. The caller
// holds the store's lock.
func (p *Pipeline) beAtTip(ctx context.Context) (refs.Tip, error) {
	linked, err := p.readLinked()
	if err != nil {
		return refs.Tip{}, err
	}
	if tip := p.knownTip(); linked == tipID(tip) && linked == p.checkpoint.noted() {
		return tip, nil
	}
	return p.catchUpLocked(ctx)
}

// confirmTip returns errTryAgain if the tip is not the one any more that a
// batch was decided at, so that this is out of date.
func (p *Pipeline) confirmTip(ctx context.Context, decidedAt refs.Tip) error {
	tip, _, err := p.refs.Tip(ctx, p.id)
	if err != nil {
		return noAnswer(err)
	}
	if tip == decidedAt {
		return nil
	}
	if _, err := p.catchUpLocked(ctx); err != nil {
		return err
	}
	return errTryAgain
}

// noteLinked makes the checkpointer sync what other processes linked before it
// says that all up to linked is durable: they may be gone.
func (p *Pipeline) noteLinked(linked journal.ID) error {
	if p.checkpoint.noted() == linked {
		return nil
	}
	from, _, err := journal.ReadApplied(p.fs, appliedFile)
	if err != nil {
		return err
	}
	if noted := p.checkpoint.noted(); noted.Seq > from.Seq {
		from = noted
	}
	if from.Seq > linked.Seq || from.Seq == linked.Seq && from != linked {
		return fmt.Errorf("the store was linked up to record %v, and before up to %v", linked, from)
	}
	if from == linked {
		if linked.Seq > 0 {
			p.checkpoint.note(linked, nil)
		}
		return nil
	}
	ids, err := p.history(from, linked)
	if err != nil {
		return err
	}
	for _, id := range ids {
		rec, err := p.journal.Get(id.Seq, id.Digest)
		if err != nil {
			return err
		}
		p.checkpoint.note(id, journal.TouchedFiles(rec.Files()...))
	}
	return nil
}

// history returns the records after one up to another, which must be of one
// history.
func (p *Pipeline) history(after, to journal.ID) ([]journal.ID, error) {
	ids, err := p.journal.History(after.Seq, to)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	first, err := p.journal.Get(ids[0].Seq, ids[0].Digest)
	if err != nil {
		return nil, err
	}
	if first.Prev != after.Digest {
		return nil, otherService("record %v does not follow record %v", ids[0], after)
	}
	return ids, nil
}

// redo applies the records after linked up to the tip, oldest first.
func (p *Pipeline) redo(ctx context.Context, linked, tip journal.ID) error {
	if tip.Seq < linked.Seq || tip.Seq == linked.Seq && tip != linked {
		return otherService("the store holds record %v, but the published tip is %v", linked, tip)
	}
	ids, err := p.history(linked, tip)
	if err != nil {
		return err
	}
	for i, id := range ids {
		rec, err := p.journal.Get(id.Seq, id.Digest)
		if err != nil {
			return err
		}
		later := ids[i+1:]
		o := journal.ApplyOptions{Redo: true, Superseded: func(path string) bool { return p.replacedBy(later, path) }}
		if err := p.link(rec, id.Digest, filelogsOf(rec), o); err != nil {
			return p.explainRedo(err)
		}
		p.log.InfoContext(ctx, "record applied again", "seq", id.Seq)
	}
	return nil
}

// explainRedo tells what to do about a record that doesn't fit the store: a
// local hg was faster than the restart after a crash.
func (p *Pipeline) explainRedo(err error) error {
	var conflict *journal.ConflictError
	if !errors.As(err, &conflict) {
		return err
	}
	return hide(fmt.Errorf("the store was changed by another program after a crash, before the last push was "+
		"linked into it; strip those changes (their bundle goes to .hg/strip-backup) and push them afterwards: %w", err),
		noPushes, logTells)
}

// replacedBy tells whether one of these records replaces a file whole.
func (p *Pipeline) replacedBy(ids []journal.ID, path string) bool {
	for _, id := range ids {
		rec, err := p.journal.Get(id.Seq, id.Digest)
		if err != nil {
			return false // applying it will say so
		}
		for _, w := range rec.Writes {
			if w.Path == path && w.Op == journal.Replace {
				return true
			}
		}
	}
	return false
}

// filelogsOf returns the radixes of the filelogs that a record writes to.
func filelogsOf(rec *journal.Record) []string {
	var radixes []string
	for _, w := range rec.Writes {
		if radix, ok := store.FilelogRadixOf(w.Path); ok {
			radixes = append(radixes, radix)
		}
	}
	return radixes
}
