package ingest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"lukechampine.com/blake3"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
)

// Push receives, verifies and publishes a bundle. An error that is one of
// hg's is the client's answer; for a bundle2 push, reply then holds what had
// been said before it.
func (p *Pipeline) Push(ctx context.Context, req Request) (*Reply, error) {
	if err := p.failure(); err != nil {
		return nil, err
	}
	dir, err := p.quarantine.Receive(ctx, req.Body)
	if err != nil && p.closing.Load() {
		err = unavailable(err) // the quarantine goes
	}
	if err != nil {
		return nil, p.tell(ctx, err)
	}
	defer func() {
		if err := dir.Release(); err != nil {
			p.log.Warn("quarantine not removed", "error", err)
		}
	}()
	// The flight gets a request without the body, which only this call owns.
	req.Body = nil
	reply, err := quarantine.DoWith(ctx, dir, req.key(dir.Digest()), req.Staged, func(ctx context.Context) (*Reply, error) {
		return p.pushOnce(ctx, dir, req)
	})
	return reply, p.tell(ctx, err)
}

// key tells pushes that are one push from others: the same bundle, sent by the
// same user, who saw the same heads.
func (r *Request) key(payload quarantine.Digest) quarantine.Digest {
	h := blake3.New(32, nil)
	h.Write(payload[:])
	io.WriteString(h, r.Who.User+"\x00"+r.HeadsArg)
	return quarantine.Digest(h.Sum(nil))
}

// pushOnce stages a received bundle and publishes it, unless that was done
// before.
func (p *Pipeline) pushOnce(ctx context.Context, dir *quarantine.Dir, req Request) (*Reply, error) {
	t := &turn{deadline: time.Now().Add(p.limits.PublishWait)}
	if reply, err := p.answeredInTime(ctx, t, dir.Digest()); reply != nil || err != nil {
		return reply, err
	}
	if err := p.checkSentHeads(ctx, req); err != nil {
		return nil, err
	}
	st, err := p.stage(ctx, dir, req)
	if err != nil {
		return replyOf(st, nil), err
	}
	if req.Staged != nil {
		req.Staged()
	}
	r := &readyPush{staged: st, id: journal.Digest(dir.Digest()), dir: dir, who: req.Who}
	d, late, err := p.publish(ctx, r)
	var raced *hg.PushRaced
	if errors.As(err, &raced) || err == nil && !d.changes() {
		// Perhaps it came after itself: a request that was sent again while the
		// first one was at work elsewhere.
		reply, aerr := p.answered(ctx, dir.Digest())
		switch {
		case reply != nil && aerr == nil:
			return reply, nil
		case aerr != nil && r.unknown != nil:
			return replyOf(st, d), r.unknown
		}
	}
	return replyOf(st, d).with(late), err
}

// checkSentHeads finds early that a push has lost the race, before the work of
// staging it. What counts is the same check in the sequencer.
func (p *Pipeline) checkSentHeads(ctx context.Context, req Request) error {
	if req.CheckHeads == nil {
		return nil
	}
	view, err := p.repo.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	seen := view.As(p.policy().Sight)
	defer seen.Close()
	return guarded(func() error { return req.CheckHeads(seen.Heads()) })
}

// stage decodes and verifies a received bundle. It holds no lock.
func (p *Pipeline) stage(ctx context.Context, dir *quarantine.Dir, req Request) (*staged, error) {
	view, err := p.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	f, err := dir.CreateSegment()
	if err != nil {
		return nil, err
	}
	payload, err := dir.OpenPayload()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer payload.Close() // read only
	s := newStager(view, newSegment(f), dir.Size(), p.limits)
	if req.CheckHeads != nil {
		s.op(checkSentHeads{req.CheckHeads})
	}
	err = guarded(func() error { return s.bundle(ctx, payload) })
	return s.out, errors.Join(err, f.Close())
}

// publish takes the leases of a push, asks its hooks and hands it to the
// sequencer, again and again if the leases get lost or the coordination service
// gives no answer. From the moment when the sequencer decides it, it is decided,
// whatever becomes of the client. late is what hooks said of the end.
func (p *Pipeline) publish(ctx context.Context, r *readyPush) (d *decision, late string, err error) {
	t := &turn{deadline: time.Now().Add(p.limits.PublishWait)}
	for tries := 1; ; tries++ {
		var c *course
		late = ""
		c, d, err = p.publishOnce(ctx, t, r)
		err = p.resolve(ctx, t, r, err)
		if c != nil {
			late = p.ended(ctx, r, c, d, err)
		}
		switch {
		case errors.Is(err, errUnseen) && tries >= maxHookTries:
			return d, late, raced("%v", errUnseen)
		case errors.Is(err, ErrNoAnswer):
			if t.pause(ctx, tries); p.awaitAnswer(ctx, t) != nil {
				return nil, "", cmp.Or(r.unknown, err)
			}
		case errors.Is(err, errLeaseLost), errors.Is(err, errUnseen):
			if over := t.over(ctx); over != nil {
				return nil, "", cmp.Or(r.unknown, waitError(over))
			}
		default:
			return d, late, err
		}
	}
}

// resolve learns what became of a push whose outcome is unknown: it returns nil
// if it was published, and an error to try again by if it seems not to have been.
// Should its transaction come late, then it is a push that comes after itself.
func (p *Pipeline) resolve(ctx context.Context, t *turn, r *readyPush, err error) error {
	if !errors.Is(err, refs.ErrUnknownOutcome) || r.id.IsZero() {
		return err
	}
	r.unknown = err
	switch reply, aerr := p.answeredInTime(ctx, t, quarantine.Digest(r.id)); {
	case aerr != nil:
		return err
	case reply != nil:
		return nil
	}
	return errLeaseLost // they were given up
}

// awaitAnswer returns when the coordination service answers, or an error when t
// is over.
func (p *Pipeline) awaitAnswer(ctx context.Context, t *turn) error {
	return t.insist(ctx, func(ctx context.Context) error {
		if _, _, err := p.refs.Tip(ctx, p.id); err != nil {
			return noAnswer(err)
		}
		return nil
	})
}

// answeredInTime is answered, as soon as the coordination service tells.
func (p *Pipeline) answeredInTime(ctx context.Context, t *turn, payload quarantine.Digest) (reply *Reply, err error) {
	err = t.insist(ctx, func(ctx context.Context) (err error) {
		reply, err = p.answered(ctx, payload)
		return err
	})
	return reply, err
}

// maxHookTries is how often the hooks of a push are asked because others move
// the same bookmarks and phases meanwhile.
const maxHookTries = 10

// publishOnce tries once. The course is that of hooks to be told of the end.
func (p *Pipeline) publishOnce(ctx context.Context, t *turn, r *readyPush) (*course, *decision, error) {
	if err := p.failure(); err != nil {
		return nil, nil, err
	}
	r.lease = nil
	if branches := r.staged.branches(); len(branches) > 0 {
		lease, err := p.acquire(ctx, t, branches)
		if err != nil {
			return nil, nil, err
		}
		defer p.release(ctx, lease)
		r.lease = lease
	}
	if err := p.precheck(ctx, r.staged); err != nil {
		return nil, nil, err
	}
	begun := time.Now()
	c, d, err := p.runVetoes(ctx, r)
	if err != nil {
		return nil, d, err
	}
	t.deadline = t.deadline.Add(time.Since(begun))
	d, err = p.enqueue(ctx, t, r)
	return c, d, err
}

// A turn is what a push waits for: its leases, and the pushes before it. The
// time that its own hooks take doesn't count.
type turn struct{ deadline time.Time }

func (t *turn) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, t.deadline)
}

// insist calls f, once more each time that the coordination service gives it no
// answer, until t is over.
func (t *turn) insist(ctx context.Context, f func(context.Context) error) error {
	wctx, cancel := t.wait(ctx)
	defer cancel()
	for n := 1; ; n++ {
		if err := f(wctx); !errors.Is(err, ErrNoAnswer) || wctx.Err() != nil {
			return err
		}
		t.pause(ctx, n)
	}
}

// pause waits after an attempt that got no answer, the n-th: longer each time.
func (t *turn) pause(ctx context.Context, n int) {
	ctx, cancel := t.wait(ctx)
	defer cancel()
	timer := time.NewTimer(firstPause/2 + rand.N(min(firstPause<<min(n, 10), lastTryPause)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// lastTryPause is the longest pause between attempts to publish while the
// coordination service gives no answer.
const lastTryPause = 2 * time.Second

// over returns an error if there is no time left.
func (t *turn) over(ctx context.Context) error {
	ctx, cancel := t.wait(ctx)
	defer cancel()
	return ctx.Err()
}

func (p *Pipeline) acquire(ctx context.Context, t *turn, branches []string) (*refs.Lease, error) {
	ctx, cancel := t.wait(ctx)
	defer cancel()
	lease, err := p.refs.Acquire(ctx, p.id, branches)
	if err != nil {
		return nil, waitError(err)
	}
	return lease, nil
}

// release gives leases up. The client need not wait for it.
func (p *Pipeline) release(ctx context.Context, lease *refs.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
	defer cancel()
	if err := lease.Release(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		p.log.Warn("lease not released", "repo", p.id, "error", err)
	}
}

// releaseWait is how long a client's answer waits for its leases to be given
// up.
const releaseWait = time.Second

// precheck finds without the store's lock that a push is refused by one of the
// checks that come before its first change. It says so only of a state that is
// no older than the tip; in doubt the sequencer decides.
func (p *Pipeline) precheck(ctx context.Context, st *staged) error {
	checks := st.ops
	if i := slices.IndexFunc(checks, func(o op) bool { return !isCheck(o) }); i >= 0 {
		checks = checks[:i]
	}
	if len(checks) == 0 {
		return nil
	}
	tip, _, err := p.refs.Tip(ctx, p.id)
	if err != nil {
		return waitError(err)
	}
	view, err := p.repo.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	if view.Seq() < tip.Seq {
		return nil
	}
	return guarded(func() error {
		d := &decision{push: &staged{ops: checks}, policy: p.policy()}
		return d.run(newPending(view))
	})
}

// enqueue waits for the sequencer to decide a push.
func (p *Pipeline) enqueue(ctx context.Context, t *turn, r *readyPush) (*decision, error) {
	ctx, cancel := t.wait(ctx)
	defer cancel()
	r.start()
	select {
	case p.ready <- r:
	case <-p.stopped:
		return nil, unavailable(errStopped)
	case <-ctx.Done():
		return nil, waitError(ctx.Err())
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.leave() {
			return nil, waitError(ctx.Err())
		}
		<-r.done
	}
	return r.decision, r.err
}

// branches returns the branches that a push adds changesets to, sorted.
func (s *staged) branches() []string {
	set := make(map[string]struct{})
	for _, c := range s.changesets {
		set[c.branch] = struct{}{}
	}
	return slices.Sorted(maps.Keys(set))
}

// replyOf puts together what a push is told.
func replyOf(st *staged, d *decision) *Reply {
	if st == nil {
		return nil
	}
	reply := &Reply{Bundle2: st.reply.bundle2, Caps: st.reply.caps}
	if d != nil {
		reply.Parts = d.replyParts
		reply.Ret = d.result
		reply.Output = d.output.String()
	}
	return reply
}

// with returns the reply with more for the client to read.
func (r *Reply) with(output string) *Reply {
	if output == "" {
		return r
	}
	more := *r
	if r.Bundle2 {
		more.Parts = append(slices.Clip(r.Parts), ReplyPart{Type: outputPart, Payload: []byte(output)})
	}
	// It is what counts if the push was refused, whatever its form.
	more.Output += output
	return &more
}

var errStopped = errors.New("the pipeline was closed")
