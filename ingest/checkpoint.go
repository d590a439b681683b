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
	mu      sync.Mutex
	touched *journal.Touched // since the last run; nil if nothing; guarded by mu
	linked  journal.ID       // last record linked; guarded by mu

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
				c.err = p.fail(err)
				return
			}
		}
	}
}

// wait returns why the checkpointer ended, once it has.
func (c *checkpointer) wait() error {
	<-c.done
	return c.err
}

// note remembers what linking a record touched.
func (c *checkpointer) note(id journal.ID, touched *journal.Touched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.touched == nil {
		c.touched = journal.NewTouched()
	}
	c.touched.Merge(touched)
	c.linked = id
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// checkpoint syncs everything touched so far, then records that it needs no
// redo. A sync that failed is final (I8): nothing more is published.
func (c *checkpointer) checkpoint(ctx context.Context, p *Pipeline) error {
	c.mu.Lock()
	touched, linked := c.touched, c.linked
	c.touched = nil
	c.mu.Unlock()
	if touched == nil {
		return nil
	}
	if err := journal.SyncTouched(ctx, p.repo.FS(), touched); err != nil {
		c.note(linked, touched) // a cancelled run is done again
		return err
	}
	if err := journal.WriteApplied(p.repo.FS(), appliedFile, linked); err != nil {
		return err
	}
	if linked.Seq <= keepRecords {
		return nil
	}
	return p.journal.Prune(ctx, linked.Seq-keepRecords)
}
