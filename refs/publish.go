package refs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vcsd/hg"
)

// Publish implements Store. It returns nil if and only if the transaction took
// place, or one of these:
//
//   - *TipMovedError: the tip is not Old. Check again at the tip it names; if
//     that is New, an earlier publication of unknown outcome took place.
//   - ErrLeaseLost: one or more leases, as their Err tells.
//   - ErrHeadMoved: the head key of a leased branch changed.
//   - hg.ErrUnavailable: etcd can't be reached or refuses, and certainly
//     nothing was published.
//   - ErrUnknownOutcome.
//   - ctx's error, if it ended before the transaction was sent. From then on
//     ctx is not looked at.
//
// The first three may come joined. Publications of one repository by one
// Client wait for each other.
func (c *Client) Publish(ctx context.Context, p Publication) error {
	if err := c.checkPublication(p); err != nil {
		return fmt.Errorf("publish seq %d of %q: %w", p.New.Seq, p.Repo, err)
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	st := c.repo(p.Repo)
	free, err := takeAll(ctx, st.publishing, p.Leases)
	if err != nil {
		return err
	}
	defer free()
	pub := &publication{Publication: p, c: c, st: st}
	if err := pub.run(ctx); err != nil {
		return fmt.Errorf("publish seq %d of %q: %w", p.New.Seq, p.Repo, err)
	}
	return nil
}

// checkPublication refuses what the caller may not ask for.
func (c *Client) checkPublication(p Publication) error {
	if err := checkRepo(p.Repo); err != nil {
		return err
	}
	if p.New.Seq <= p.Old.Seq || p.New.ChangelogLen < 0 || p.New.ChangelogLen > maxChangelogLen {
		return fmt.Errorf("tip from seq %d to %d with %d changesets", p.Old.Seq, p.New.Seq, p.New.ChangelogLen)
	}
	leased := map[*Lease]bool{}
	for _, l := range p.Leases {
		if l.c != c || l.repo != p.Repo || leased[l] {
			return fmt.Errorf("lease of %q in %q is foreign or given twice", l.branches, l.repo)
		}
		leased[l] = true
	}
	heads := map[string]bool{}
	for _, h := range p.Heads {
		if heads[h.Branch] || len(h.Value) > MaxValueBytes {
			return fmt.Errorf("head key of %q twice or with %d bytes", h.Branch, len(h.Value))
		}
		if err := checkBranch(h.Branch); err != nil {
			return err
		}
		heads[h.Branch] = true
	}
	outcomes := map[[32]byte]bool{}
	for _, o := range p.Outcomes {
		if outcomes[o.Key] || len(o.Value) > MaxValueBytes {
			return fmt.Errorf("outcome %x twice or with %d bytes", o.Key[:6], len(o.Value))
		}
		outcomes[o.Key] = true
	}
	return nil
}

// takeAll takes the right to publish and the leases, against Release.
func takeAll(ctx context.Context, publishing chan struct{}, leases []*Lease) (free func(), err error) {
	var taken []chan struct{}
	free = func() {
		for _, sem := range slices.Backward(taken) {
			<-sem
		}
	}
	sems := []chan struct{}{publishing}
	for _, l := range leases {
		sems = append(sems, l.busy)
	}
	for _, sem := range sems {
		select {
		case sem <- struct{}{}:
			taken = append(taken, sem)
		case <-ctx.Done():
			free()
			return nil, context.Cause(ctx)
		}
	}
	return free, nil
}

// publication is a Publish at work.
type publication struct {
	Publication
	c      *Client
	st     *repoState
	bucket leaseID
	plan   plan
}

// run sends the transaction until it is known to have succeeded or failed. It
// is sent again only after the earlier one is proven void.
func (p *publication) run(ctx context.Context) error {
	if err := p.prepareInTime(ctx); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // commit, or learn that it lost
	send, cancel := p.c.withTime(ctx)
	defer cancel()
	for n := 0; ; n++ {
		if err := lostOf(p.Leases); err != nil {
			return err
		}
		p.plan = p.makePlan()
		res, err := p.send(send, p.plan.first)
		switch {
		case err == nil && res.ok:
			p.finish(ctx, res.rev)
			return nil
		case err == nil:
			if err = p.refused(res); !errors.Is(err, errAgain) {
				return err
			}
		case errors.Is(err, errNoSession):
			p.c.buckets.forget(p.bucket)
		case settled(err):
			return fmt.Errorf("%w: %w", hg.ErrUnavailable, err)
		default:
			rev, serr := p.settle(ctx)
			if serr != nil {
				p.abandon()
				return fmt.Errorf("%w: %w: %w", ErrUnknownOutcome, err, serr)
			}
			if rev != 0 {
				p.finish(ctx, rev)
				return nil
			}
		}
		sleep(send, backoff(n))
		if send.Err() != nil {
			return fmt.Errorf("%w: not published: %w", hg.ErrUnavailable, err)
		}
		if err := p.prepare(send); err != nil {
			return err
		}
	}
}

// withTime bounds ctx by SettleTime and the Client's life.
func (c *Client) withTime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := c.bound(ctx)
	ctx, cancelTime := context.WithTimeout(ctx, c.o.SettleTime)
	return ctx, func() { cancelTime(); cancel() }
}

// prepareInTime is prepare within a time of its own: the caller's ctx may have no
// end.
func (p *publication) prepareInTime(ctx context.Context) error {
	ctx, cancel := p.c.withTime(ctx)
	defer cancel()
	return p.prepare(ctx)
}

// prepare gets what the transaction needs to stand on.
func (p *publication) prepare(ctx context.Context) (err error) {
	for ctx.Err() == nil {
		if p.bucket, err = p.c.buckets.get(ctx); err != nil {
			return err
		}
		err = p.c.knowWitness(ctx, p.Repo, p.st, p.bucket)
		if !errors.Is(err, errNoSession) {
			return err
		}
		p.c.buckets.forget(p.bucket)
	}
	return gaveUp(ctx, err)
}

func (p *publication) send(ctx context.Context, t txn) (txnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return p.c.kv.txn(ctx, t)
}

// refused says why the transaction was not done, from what it read instead.
func (p *publication) refused(res txnResult) error {
	tip, items := res.items[0], res.items[2:]
	if w := res.items[1]; w.modRev != p.st.witness.rev {
		p.st.witness = witnessState{rev: w.modRev, at: time.Now()}
	}
	for i, s := range p.plan.sessions {
		if items[i].modRev != s.keyRev {
			p.c.sessions.drop(s, errNoSession)
		}
	}
	moved := p.readBranches(items[len(p.plan.sessions):])
	errs := []error{lostOf(p.Leases)}
	t, ok, err := itemTip(tip)
	switch {
	case err != nil:
		errs = append(errs, err)
	case t != p.Old || ok != (p.Old.Seq != 0):
		errs = append(errs, &TipMovedError{Tip: t})
	}
	if moved != nil {
		errs = append(errs, moved)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errAgain
}

// errAgain means that only the witness is not what it was: it expired, or the
// repository was deleted.
var errAgain = errors.New("the witness of the last publication is gone")

// readBranches takes note of locks that are lost and heads that moved.
func (p *publication) readBranches(items []item) (moved error) {
	for _, e := range p.plan.checked {
		lock, head := items[0], items[1]
		items = items[2:]
		if lock.modRev != e.hold.rev {
			e.lease.fail(fmt.Errorf("%w: another process has the lock", ErrLeaseLost))
			continue
		}
		e.lease.mu.Lock()
		if head.modRev != e.hold.head.modRev {
			moved = errors.Join(moved, fmt.Errorf("branch %q: %w", e.hold.branch, ErrHeadMoved))
			e.hold.head = head
		}
		e.lease.mu.Unlock()
	}
	return moved
}

// finish does what follows success, seen at revision rev: the further
// transactions, and passing the branches on.
func (p *publication) finish(ctx context.Context, rev int64) {
	p.st.witness = witnessState{rev: rev, at: time.Now()}
	p.plan.done(p.plan.fit, rev)
	ctx, cancel := p.c.withTime(ctx)
	defer cancel()
	for _, f := range p.plan.followUps(rev) {
		var res txnResult
		// Its comparisons make it safe to send it again.
		err := p.c.retry(ctx, func(ctx context.Context) (err error) {
			res, err = p.c.kv.txn(ctx, f.txn)
			return err
		})
		if err == nil && res.ok {
			p.plan.done(f.entries, res.rev)
		}
	}
	var rest []*hold
	for _, l := range p.Leases {
		for _, h := range l.surrender() {
			if !p.c.passOn(p.Repo, p.plan.entries[h.branch]) {
				rest = append(rest, h)
			}
		}
	}
	if len(rest) > 0 {
		p.c.later(func(ctx context.Context) { p.c.unlock(ctx, p.Repo, rest) })
	}
}

// passOn passes on the slot of a branch after its publication; false if its
// lock is still there and is wanted by nobody here.
func (c *Client) passOn(repo RepoID, e *entry) bool {
	switch {
	case !e.done:
		return false
	case e.keep:
		return c.hand(slotKey{repo, e.hold.branch}, e.hold)
	}
	c.passHold(repo, e.hold)
	return true
}

// abandon gives up all that an unresolved transaction may have touched.
func (p *publication) abandon() {
	p.st.witness.unknown = true
	var rest []*hold
	for _, l := range p.Leases {
		l.fail(fmt.Errorf("%w: %w", ErrLeaseLost, ErrUnknownOutcome))
		rest = append(rest, l.surrender()...)
	}
	for _, h := range rest {
		p.c.sessions.retire(h.sess)
		p.c.passHold(p.Repo, h)
	}
}
