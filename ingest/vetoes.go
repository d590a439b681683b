package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"vcsd/hook"
	"vcsd/refs"
	"vcsd/store"
)

// vetoes runs the hooks that may refuse a push, while nothing but its branches
// are held. It belongs to one goroutine.
type vetoes struct {
	p   *Pipeline
	ctx context.Context // of the one call that makes and ends it
	r   *readyPush
	*course

	view  *store.View
	d     *decision // of the push alone, on view
	shown *shown    // what hooks were shown last; nil if nothing

	left int64           // bytes that hooks may still print
	said strings.Builder // all that the client reads if the push is refused
	op   int             // how many ops are done or at work, for what an abort undoes
}

// maxSaidBytes is how much of what hooks print is passed on to a client.
const maxSaidBytes = 4 << 20

// runVetoes runs the veto hooks of a push that holds its leases. What they said
// and saw becomes part of the push. If they refuse it, the decision says what
// had been said until then. The course is for the hooks that run afterwards;
// nil if none are configured.
func (p *Pipeline) runVetoes(ctx context.Context, r *readyPush) (c *course, d *decision, err error) {
	r.staged.hooked = nil
	if p.hooks == nil {
		return nil, nil, nil
	}
	conf, err := p.hooks()
	if conf == nil || err != nil {
		return nil, nil, err
	}
	r.staged.hooked = newHooked()
	r.staged.hooked.followPhaseMoves = conf.Runner.Has(hook.PreTxnClosePhase, hook.TxnClosePhase)
	v := &vetoes{p: p, ctx: ctx, r: r, course: newCourse(conf, r.staged, r.who), left: maxSaidBytes}
	defer v.close()
	if err := v.look(); err != nil {
		return nil, v.d, err
	}
	if err := v.run(); err != nil {
		v.abort()
		return nil, v.refusal(), err
	}
	r.staged.hooked.saw = v.d
	return v.course, v.d, nil
}

// look decides the push on the repository as it is at the tip.
func (v *vetoes) look() error {
	tip, _, err := v.p.refs.Tip(v.ctx, v.p.id)
	if err != nil {
		return waitError(err)
	}
	view, err := v.p.viewAt(v.ctx, tip.Seq)
	if err != nil {
		return err
	}
	if v.view != nil {
		v.view.Close()
	}
	v.view = view
	return v.decide()
}

// decide decides the push anew. What hooks were told before must still be so.
func (v *vetoes) decide() error {
	before := v.d
	err := guarded(func() (err error) {
		v.d, err = decide(newPending(v.view), v.push, v.p.policy())
		return err
	})
	if err == nil && before != nil && !v.d.within(before) {
		err = errUnseen
	}
	return err
}

// close lets go of what hooks were shown.
func (v *vetoes) close() {
	v.hide()
	if v.view != nil {
		v.view.Close()
	}
}

func (v *vetoes) run() error {
	h := v.push.hooked
	if v.lone {
		if err := v.walk(v); err != nil || !v.hasTransaction(v.d) {
			return err
		}
	}
	if err := v.call(hook.PreTxnOpen, v.txn.OpenVars(), &h.opened); err != nil {
		return err
	}
	if !v.lone {
		if err := v.walk(v); err != nil {
			return err
		}
	}
	v.op = len(v.push.ops)
	return v.end(v.d, hook.PreTxnCloseBookmark, hook.PreTxnClosePhase, hook.PreTxnClose, func(p hook.Point, vars hook.Vars) error {
		return v.call(p, vars, &h.closed)
	})
}

func (v *vetoes) decided() *decision { return v.d }

func (v *vetoes) group(op int, before, with hook.Vars) error {
	v.op = op
	var words string
	err := v.call(hook.PreChangegroup, before, &words)
	if v.push.hooked.earlier[op] = words; err != nil {
		return err
	}
	v.op = op + 1
	v.said.WriteString(addingText)
	if with == nil {
		return nil
	}
	words = ""
	err = v.call(hook.PreTxnChangegroup, with, &words)
	v.push.hooked.later[op] = words
	return err
}

// key lets hooks refuse a key. If it is a pushkey on which the client said that
// the rest doesn't depend, no more than the key is refused.
func (v *vetoes) key(op int, before, _ hook.Vars) error {
	v.op = op
	words := v.push.hooked.earlier[op]
	err := v.call(hook.PrePushkey, before, &words)
	var veto *hook.Veto
	if _, ok := v.push.ops[op].(pushkey); ok && !v.lone && errors.As(err, &veto) {
		line := fmt.Sprintf("pushkey-abort: %v\n", veto)
		v.said.WriteString(line)
		words += line
		v.push.hooked.vetoed[op] = true
		err = v.decide()
	}
	v.push.hooked.earlier[op] = words
	return err
}

// call runs the hooks of a point and adds what they print to words.
func (v *vetoes) call(point hook.Point, vars hook.Vars, words *string) error {
	runner := v.conf.Runner
	if !runner.Has(point) {
		return nil
	}
	call := hook.Call{Point: point, Vars: vars, User: v.r.who.User}
	if n := v.d.doneBefore(v.op); len(n) > 0 {
		call.Changesets = v.p.changesets(v.r, n)
	}
	if runner.NeedsView(point) {
		var err error
		if call.Pending, err = v.show(); err != nil {
			return err
		}
	}
	out := &capped{left: &v.left}
	err := runner.Run(v.ctx, call, out)
	*words += out.String()
	v.said.WriteString(out.String())
	return err
}

// doneBefore returns the changesets that the ops before one of them add.
func (d *decision) doneBefore(op int) []int {
	if op == 0 {
		return nil
	}
	return d.fresh[:d.did[op-1].last]
}

// abort tells of what was done that it is undone, as hg does, if anything was.
func (v *vetoes) abort() {
	if v.d.changesBefore(v.op) == 0 {
		return
	}
	v.said.WriteString(abortText)
	v.said.WriteString(v.p.runAbort(v.ctx, v.course))
	v.said.WriteString(rollbackText)
}

// refusal is what the client is told beside the error.
func (v *vetoes) refusal() *decision {
	d := &decision{push: v.push}
	d.output.WriteString(v.said.String())
	return d
}

// runAbort runs the hooks that hear of a push that came to nothing after all,
// and returns what they print.
func (p *Pipeline) runAbort(ctx context.Context, c *course) string {
	ctx, cancel := p.untilClosed(ctx)
	defer cancel()
	left := int64(maxSaidBytes)
	out := &capped{left: &left}
	if err := c.conf.Runner.Run(ctx, hook.Call{Point: hook.TxnAbort, Vars: c.txn.Vars()}, out); err != nil {
		p.log.Warn("hooks after an abort not run", "error", err)
	}
	return out.String()
}

// ended tells hooks of the end of a push whose vetoes have passed, and returns
// what they print.
func (p *Pipeline) ended(ctx context.Context, r *readyPush, c *course, d *decision, err error) string {
	switch {
	case errors.Is(err, refs.ErrUnknownOutcome) || errors.Is(err, errNotShown):
		p.log.Warn("hooks not told how the push ended", "txn", c.txn.ID, "error", err)
		return ""
	case err != nil:
		return p.runAbort(ctx, c)
	}
	return p.runAfter(ctx, r, c, d)
}

// capped keeps what hooks print, up to a number of bytes that several share.
type capped struct {
	strings.Builder
	left *int64
}

func (c *capped) Write(b []byte) (int, error) {
	n := int64(len(b))
	c.Builder.Write(b[:min(n, *c.left)])
	*c.left -= min(n, *c.left)
	return len(b), nil
}

var _ io.Writer = (*capped)(nil)
