package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
	"vcsd/store"
)

// RestoreCommand is what an operator is told to run when the coordination
// service was lost for good.
const RestoreCommand = "vcsd recover --rebuild-refs"

// RestorableRefs is a refs.Store whose keys can be made anew.
type RestorableRefs interface {
	refs.Store
	State(ctx context.Context, repo refs.RepoID) (refs.State, error)
	RestoreHeads(ctx context.Context, repo refs.RepoID, tip refs.Tip, heads map[string][]byte) error
}

// A Restored tells what RestoreRefs did.
type Restored struct {
	Was, Tip refs.Tip   // the published tip before and after; Was may be zero
	Linked   journal.ID // the last record that the store was known to hold
	Branches int        // whose head keys were written
}

// RestoreRefs makes the tip and the head keys of a repository anew, from its
// journal and its store: the coordination service lost them. The new tip is the
// newest record that is chained to the last one that the store holds. What was
// acknowledged is among these, as each record is on the disk before it is
// published. Records behind the last linked one may be of pushes that were given
// up; those are published then. fsys is rooted at .hg, o.Refs is not used.
//
// It refuses with an *hg.Abort to take a repository from a process that serves
// it, and, without force, to replace a tip that is no older record of the same
// chain, or to choose between records of which one can't be told to be published.
// Answers to earlier pushes stay lost.
//
// Order: the tip is published under the store's lock; the store is brought up to
// it; the head keys follow. It may be repeated after it was cut off.
func RestoreRefs(ctx context.Context, fsys vfs.FS, to RestorableRefs, o Options, force bool) (r Restored, err error) {
	there, err := vfs.Exists(fsys, journalDir)
	if err != nil {
		return r, err
	}
	if !there {
		return r, hg.Abortf("no push was ever taken here: there is nothing to make anew")
	}
	used, err := quarantine.InUse(fsys, quarantineDir)
	if err != nil {
		return r, err
	}
	if used {
		return r, &hg.Abort{Message: "a server takes pushes to this repository: its coordination service has the refs", Hint: "end it first, or name its state directory with --state"}
	}
	o.Refs = to
	p := newPipeline(fsys, o)
	if p.journal, err = journal.Open(fsys, journalDir, journal.Options{}); err != nil {
		return r, err
	}
	if err := p.restoreTip(ctx, to, &r, force); err != nil {
		return r, err
	}
	if err := Recover(ctx, fsys, o); err != nil {
		return r, fmt.Errorf("the tip is record %d again, which the store can't be brought up to: %w", r.Tip.Seq, err)
	}
	heads, err := headKeys(ctx, fsys, r.Tip.Seq)
	if err != nil {
		return r, err
	}
	r.Branches = len(heads)
	return r, to.RestoreHeads(ctx, p.id, r.Tip, heads)
}

// restoreTip publishes the newest record.
func (p *Pipeline) restoreTip(ctx context.Context, to RestorableRefs, r *Restored, force bool) (err error) {
	unlock, err := p.lockStore(ctx, p.limits.LockWait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if r.Linked, err = p.readLinked(); err != nil {
		return err
	}
	newest, err := p.newestRecord(r.Linked, force)
	if err != nil {
		return err
	}
	rec, err := p.journal.Get(newest.Seq, newest.Digest)
	if err != nil {
		return err
	}
	r.Tip = refs.Tip{Seq: newest.Seq, Digest: newest.Digest, ChangelogLen: rec.ChangelogLen, Node: rec.Tip}
	st, err := to.State(ctx, p.id)
	if err != nil {
		return err
	}
	old := st.Tip
	r.Was = old
	if old == r.Tip {
		return nil
	}
	if old.Seq > 0 && !p.isBefore(old, newest) {
		if !force {
			return &hg.Abort{
				Message: fmt.Sprintf("the coordination service has record %v as the tip, which is not in the journal before %v", tipID(old), newest),
				Hint:    "if it is the wrong one or lags behind, repeat with --force",
			}
		}
		if err := to.Delete(ctx, p.id); err != nil {
			return err
		}
		old = refs.Tip{}
	}
	return to.Publish(ctx, refs.Publication{Repo: p.id, Old: old, New: r.Tip})
}

// isBefore tells whether the record of a tip is in the history of another one.
func (p *Pipeline) isBefore(t refs.Tip, newest journal.ID) bool {
	if t.Seq >= newest.Seq {
		return false
	}
	_, err := p.history(tipID(t), newest)
	return err == nil
}

// newestRecord returns the last record of the longest chain that goes on from
// linked; with force a choice is made where there are several.
func (p *Pipeline) newestRecord(linked journal.ID, force bool) (journal.ID, error) {
	all, err := p.journal.List()
	if err != nil {
		return journal.ID{}, err
	}
	byPrev := make(map[journal.ID][]journal.ID) // what follows each record
	for _, id := range all {
		if id.Seq <= linked.Seq {
			continue
		}
		rec, err := p.journal.Get(id.Seq, id.Digest)
		var corrupt *journal.CorruptError
		if errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) {
			// What was published is whole; garbage need not be.
			p.log.Warn("record passed over", "seq", id.Seq, "error", err)
			continue
		}
		if err != nil {
			return journal.ID{}, err
		}
		prev := journal.ID{Seq: id.Seq - 1, Digest: rec.Prev}
		byPrev[prev] = append(byPrev[prev], id)
	}
	for level := []journal.ID{linked}; ; {
		var next []journal.ID
		for _, id := range level {
			next = append(next, byPrev[id]...)
		}
		if len(next) > 0 {
			level = next
			continue
		}
		return p.soleRecord(level, linked, force)
	}
}

// soleRecord returns the one of several records that may be the newest: that
// which the store has, or was once told to have; with force, the one written last.
func (p *Pipeline) soleRecord(ids []journal.ID, linked journal.ID, force bool) (journal.ID, error) {
	if len(ids) == 1 {
		if ids[0].Seq == 0 {
			return linked, hg.Abortf("the journal has no records: there is nothing to make anew")
		}
		return ids[0], nil
	}
	before, err := p.linkedBefore()
	if err != nil {
		return linked, err
	}
	var held []journal.ID
	var last journal.ID
	var lastTime time.Time
	for _, id := range ids {
		rec, err := p.journal.Get(id.Seq, id.Digest)
		if err != nil {
			return linked, err
		}
		if done, err := p.journal.Check(rec, p.fs); err == nil && done || id == before {
			held = append(held, id)
		}
		if rec.Time.After(lastTime) {
			last, lastTime = id, rec.Time
		}
	}
	switch {
	case len(held) == 1:
		return held[0], nil
	case force:
		return last, nil
	}
	return linked, &hg.Abort{
		Message: fmt.Sprintf("the journal has several records that may be the newest: %v", ids),
		Hint:    "at most one of them was published; repeat with --force to take the one written last, or move the others out of .hg/vcsd/journal",
	}
}

// headKeys returns the head keys of the store as it is, by branch.
func headKeys(ctx context.Context, fsys vfs.FS, seq uint64) (keys map[string][]byte, err error) {
	repo, err := store.Open(fsys, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, repo.Close()) }()
	view, err := repo.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	keys = make(map[string][]byte)
	p := newPending(view)
	err = guarded(func() error {
		for branch, revs := range view.EachBranch() {
			keys[branch] = encodeHeads(seq, p, revs)
		}
		return nil
	})
	return keys, err
}
