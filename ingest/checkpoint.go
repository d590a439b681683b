package ingest

import (
	"context"
	"sync"

	"vcsd/journal"
)

// A checkpointer syncs, in the background, the files that records were linked
// into, and then moves the checkpoint on. Until it has, those records are what
// makes their pushes durable.
type checkpointer struct {
	// runMu serialises the runs: a later one must not move the checkpoint
	// past what an earlier one still syncs. Taken before mu.
	runMu sync.Mutex

	mu      sync.Mutex
	touched *journal.Touched // since the last run; nil if nothing; guarded by mu
	outside []string         // of those, the files that other programs wrote; guarded by mu
	linked  journal.ID       // last record linked whole; guarded by mu

	wake chan struct{} // has room for one
	done chan struct{}
	err  error // why it ended; read after done
}

// keepRecords is how many records stay behind the checkpoint.
const keepRecords = 64

func newCheckpointer() *checkpointer {
	return &checkpointer{wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// run works until ctx ends, and then once more.
func (c *checkpointer) run(ctx context.Context, p *Pipeline) {
	defer close(c.done)
	for {
		select {
		case <-ctx.Done():
			c.err = c.checkpoint(context.WithoutCancel(ctx), p)
			return
		case <-c.wake:
			if err := c.checkpoint(ctx, p); err != nil && ctx.Err() == nil {
				p.log.Error("checkpoint not moved", "error", err)
			}
		}
	}
}

// wait returns why the last run failed, once it has ended.
func (c *checkpointer) wait() error {
	<-c.done
	return c.err
}

// note remembers that a record is linked whole, and what that touched.
func (c *checkpointer) note(id journal.ID, touched *journal.Touched) {
	c.mu.Lock()
	c.mergeLocked(touched)
	if id.Seq > c.linked.Seq {
		c.linked = id
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// touch remembers what a record touched that could not be linked whole.
func (c *checkpointer) touch(touched *journal.Touched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergeLocked(touched)
}

// touchOutside remembers what other programs wrote.
func (c *checkpointer) touchOutside(touched *journal.Touched) {
	c.giveBack(touched, touched.Files())
}

func (c *checkpointer) mergeLocked(touched *journal.Touched) {
	if touched == nil {
		return
	}
	if c.touched == nil {
		c.touched = journal.NewTouched()
	}
	c.touched.Merge(touched)
}

// noted returns the last record that note was told.
func (c *checkpointer) noted() journal.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.linked
}

// checkpoint syncs everything touched so far, then records that it needs no
// redo. A sync that failed is final (I8): nothing more is published. What
// fails otherwise is done again by the next run.
func (c *checkpointer) checkpoint(ctx context.Context, p *Pipeline) error {
	c.runMu.Lock()
	defer c.runMu.Unlock()
	touched, outside, linked := c.take()
	if touched == nil {
		return nil
	}
	err := p.syncAlone(ctx, touched, outside, func() error { return p.moveApplied(linked) })
	if err != nil {
		c.giveBack(touched, outside)
		return err
	}
	if linked.Seq > keepRecords {
		return p.journal.Prune(ctx, linked.Seq-keepRecords)
	}
	return nil
}

// take returns what is to be synced, and the record up to which it is all.
func (c *checkpointer) take() (touched *journal.Touched, outside []string, linked journal.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	touched, outside, linked = c.touched, c.outside, c.linked
	c.touched, c.outside = nil, nil
	return touched, outside, linked
}

func (c *checkpointer) giveBack(touched *journal.Touched, outside []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mergeLocked(touched)
	c.outside = append(c.outside, outside...)
}

// moveApplied writes the checkpoint, unless another process is ahead.
func (p *Pipeline) moveApplied(linked journal.ID) error {
	applied, _, err := journal.ReadApplied(p.fs, appliedFile)
	if err != nil || applied.Seq >= linked.Seq {
		return err
	}
	return journal.WriteApplied(p.fs, appliedFile, linked)
}
