package ingest

import (
	"context"

	"vcsd/hg"
	"vcsd/hook"
)

// after runs the hooks that learn of a push that was published. It belongs to
// one goroutine.
type after struct {
	*course
	ctx context.Context // of the one call that makes it
	r   *readyPush
	d   *decision
	out *capped

	groups []arrived
}

// An arrived changegroup waits for its hooks, which come last.
type arrived struct {
	op   int
	vars hook.Vars
}

// runAfter runs the hooks of a push that was published, and returns what they
// print. The client's leave doesn't end them, the server's end does.
func (p *Pipeline) runAfter(ctx context.Context, r *readyPush, c *course, d *decision) string {
	ctx, cancel := p.untilClosed(ctx)
	defer cancel()
	left := int64(maxSaidBytes)
	fresh := *c
	fresh.txn = c.begun
	a := &after{course: &fresh, ctx: ctx, r: r, d: d, out: &capped{left: &left}}
	if err := a.run(); err != nil {
		p.log.Warn("hooks after a push not run to the end", "txn", c.txn.ID, "error", err)
	}
	return a.out.String()
}

// run keeps the order of hg: hooks of keys, of the transaction, of changesets;
// for a lone pushkey, of the transaction first.
func (a *after) run() error {
	if a.lone {
		a.noteMarks(a.d.did[0].marks)
		a.txn.PhasesMoved, a.txn.NewObsmarkers = a.d.did[0].movedRoots, a.d.did[0].markers
		if a.hasTransaction(a.d) {
			if err := a.close(); err != nil {
				return err
			}
		}
		return a.walk(a)
	}
	if err := a.walk(a); err != nil {
		return err
	}
	if err := a.close(); err != nil {
		return err
	}
	for _, g := range a.groups {
		if err := a.changegroup(g); err != nil {
			return err
		}
	}
	return nil
}

func (a *after) close() error {
	return a.end(a.d, hook.TxnCloseBookmark, hook.TxnClosePhase, hook.TxnClose, a.call)
}

func (a *after) decided() *decision { return a.d }

func (a *after) group(op int, _, with hook.Vars) error {
	if with != nil {
		a.groups = append(a.groups, arrived{op, with})
	}
	return nil
}

func (a *after) key(op int, _, done hook.Vars) error {
	if a.push.hooked.vetoed[op] {
		return nil
	}
	return a.call(hook.Pushkey, done)
}

func (a *after) changegroup(g arrived) error {
	if err := a.call(hook.Changegroup, g.vars); err != nil || !a.conf.Runner.Has(hook.Incoming) {
		return err
	}
	for _, n := range a.d.nodesAddedBy(g.op) {
		if err := a.call(hook.Incoming, g.vars.Incoming(n)); err != nil {
			return err
		}
	}
	return nil
}

// nodesAddedBy returns the new changesets of an op.
func (d *decision) nodesAddedBy(op int) []hg.Node {
	fresh := d.fresh[d.did[op].first:d.did[op].last]
	nodes := make([]hg.Node, len(fresh))
	for i, f := range fresh {
		nodes[i] = d.push.changesets[f].node
	}
	return nodes
}

func (a *after) call(point hook.Point, vars hook.Vars) error {
	return a.conf.Runner.Run(a.ctx, hook.Call{Point: point, Vars: vars, User: a.r.who.User}, a.out)
}

// untilClosed returns a context that outlives the client, but not the
// Pipeline.
func (p *Pipeline) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-p.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
