package ingest

import (
	"context"
	"encoding/json"
	"fmt"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
	"vcsd/store"
)

// An Outcome is what a request that was committed answered, as the
// idempotency table keeps it.
type Outcome struct {
	Seq   uint64
	Reply Reply
	// What must still hold for the answer to be given again.
	Changesets []hg.Node
	Bookmarks  map[string]hg.Node // absent: none
	Public     []hg.Node
}

// replayedText tells the sender of a bundle that was published before why
// nothing new is to be seen.
const replayedText = "this push was published before, no changes found in it\n"

// answered returns the reply that the same payload got when it was committed,
// if what it did then still holds.
func (p *Pipeline) answered(ctx context.Context, payload quarantine.Digest) (*Reply, error) {
	value, ok, err := p.refs.Outcome(ctx, p.id, payload)
	if err != nil {
		return nil, noAnswer(err)
	}
	if !ok {
		return nil, nil
	}
	var o Outcome
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, fmt.Errorf("outcome of %x: %w", payload, err)
	}
	view, err := p.viewAt(ctx, o.Seq)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	holds := false
	err = guarded(func() error {
		holds = o.holds(view)
		return nil
	})
	if err != nil || !holds {
		return nil, err
	}
	return o.Reply.replayed(), nil
}

// replayed returns the reply with a line for the user added.
func (r *Reply) replayed() *Reply { return r.with(replayedText) }

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
		if at, ok := view.Bookmark(name); ok != (n != absent) || ok && at != n {
			return false
		}
	}
	return len(o.Changesets)+len(o.Public)+len(o.Bookmarks) > 0
}

// outcomes returns what the idempotency table remembers of the batch: nothing
// of a push that changed nothing, nor of one whose answer doesn't fit, which
// is decided anew when it comes again.
func (b *decided) outcomes(seq uint64) ([]refs.Outcome, error) {
	var all []refs.Outcome
	seen := make(map[journal.Digest]bool)
	for _, r := range b.pushes {
		if r.id.IsZero() || seen[r.id] || !r.decision.changes() {
			continue
		}
		seen[r.id] = true
		value, err := json.Marshal(outcomeOf(seq, r))
		if err != nil {
			return nil, err
		}
		if len(value) <= refs.MaxValueBytes {
			all = append(all, refs.Outcome{Key: [32]byte(r.id), Value: value})
		}
	}
	return all, nil
}

// maxOutcomeNodes bounds what an outcome remembers of a push: the last
// changesets stand for those before them, which are their ancestors or came
// in the same record.
const maxOutcomeNodes = 256

func outcomeOf(seq uint64, r *readyPush) *Outcome {
	d := r.decision
	o := &Outcome{Seq: seq, Reply: *replyOf(r.staged, d)}
	for _, i := range d.fresh[max(0, len(d.fresh)-maxOutcomeNodes):] {
		o.Changesets = append(o.Changesets, r.staged.changesets[i].node)
	}
	o.Public = d.published[max(0, len(d.published)-maxOutcomeNodes):]
	for _, m := range d.bookmarks {
		if o.Bookmarks == nil {
			o.Bookmarks = make(map[string]hg.Node)
		}
		o.Bookmarks[m.name] = m.node
	}
	return o
}
