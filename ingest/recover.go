package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/refs"
	"vcsd/store"
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

// catchUp brings the store up to the published tip: it applies the records
// that the store does not hold yet. That is the whole of recovery.
func (p *Pipeline) catchUp(ctx context.Context) error {
	unlock, err := p.lockStore(ctx)
	if err != nil {
		return err
	}
	err = p.catchUpLocked(ctx)
	return errors.Join(err, unlock())
}

// catchUpLocked is catchUp for a caller that holds the store's lock.
func (p *Pipeline) catchUpLocked(ctx context.Context) error {
	tip, exists, err := p.refs.Tip(ctx, p.id)
	if err != nil {
		return fmt.Errorf("%w: %w", hg.ErrUnavailable, err)
	}
	linked, err := p.readLinked()
	if err != nil {
		return err
	}
	if !exists {
		return p.unpublished(linked)
	}
	if err := p.redo(ctx, linked, journal.ID{Seq: tip.Seq, Digest: tip.Digest}); err != nil {
		return err
	}
	p.setTip(tip)
	return nil
}

// unpublished starts a repository without a tip: a new one, or one whose
// entries in the coordination service were lost.
func (p *Pipeline) unpublished(linked journal.ID) error {
	if linked.Seq > 0 {
		return fmt.Errorf("the journal ends at record %d, but the coordination service has no tip: "+
			"it was lost, or is another one than before", linked.Seq)
	}
	p.setTip(refs.Tip{})
	return nil
}

// redo applies the records after linked up to the tip, oldest first.
func (p *Pipeline) redo(ctx context.Context, linked, tip journal.ID) error {
	if tip.Seq < linked.Seq {
		return fmt.Errorf("the store holds record %d, but the published tip is %d", linked.Seq, tip.Seq)
	}
	ids, err := p.journal.History(linked.Seq, tip)
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
			return err
		}
		p.log.InfoContext(ctx, "record applied again", "seq", id.Seq)
	}
	return nil
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

// stateAtTip returns the repository as the next push will find it. What a
// local hg did since the last record becomes a record of its own. The caller
// holds the store's lock.
func (p *Pipeline) stateAtTip(ctx context.Context) (*store.View, error) {
	if _, err := p.repo.Refresh(); err != nil {
		return nil, err
	}
	view, err := p.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	tip := p.knownTip()
	if tip.Seq > 0 && (view.Len() != tip.ChangelogLen || lastNode(view) != tip.Node) {
		if err := p.adopt(ctx, view); err != nil {
			view.Close()
			return nil, err
		}
	}
	return view, nil
}

func lastNode(v *store.View) hg.Node { return v.Changelog().Node(hg.Rev(v.Len() - 1)) }

// adopt publishes a record that says: the store was changed from outside.
func (p *Pipeline) adopt(ctx context.Context, view *store.View) error {
	tip := p.knownTip()
	rec := &journal.Record{
		Seq: tip.Seq + 1, Prev: tip.Digest, Time: time.Now().UTC(), Node: p.node, Kind: journal.Adopt,
		ChangelogLen: view.Len(), Tip: lastNode(view),
	}
	p.log.InfoContext(ctx, "local changes adopted", "seq", rec.Seq, "changesets", rec.ChangelogLen)
	return p.publishRecord(ctx, &decided{view: view, pending: newPending(view)}, rec, nil)
}
