package refs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A session is a lease of etcd that is kept alive. Locks hang on it.
//
// It ends in one of two ways. It is lost: etcd says that the lease is gone, or
// its time to live has passed since the last heartbeat that was answered was
// sent, whatever etcd may think. Or it is retired, because a request whose
// outcome nobody knows may yet put a lock under it: no new lock is taken under
// it, and when the last one is released the lease is revoked, after which such
// a request is refused.
type session struct {
	id     leaseID       // constant
	token  string        // constant; value of the locks
	keyRev int64         // constant once make is done; revision of the session key
	ttl    time.Duration // constant; as granted

	// live ends when the session is lost; its cause says why.
	live context.Context
	lose context.CancelCauseFunc
	stop chan struct{} // closed when heartbeats are to end

	mu      sync.Mutex
	until   time.Time // when it is lost without another heartbeat; guarded by mu
	refs    int       // locks and requests under it; guarded by mu
	retired bool      // guarded by mu
	ended   bool      // stop is closed; guarded by mu
}

// expired reports whether s is lost, by the clock or by word of etcd.
func (s *session) expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.Err() != nil || !time.Now().Before(s.until)
}

// left returns how long s lives without another heartbeat.
func (s *session) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.until)
}

func (s *session) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live.Err() == nil && !s.retired && time.Now().Before(s.until)
}

// ref counts a lock or a request under s; false if s has ended.
func (s *session) ref() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.retired {
		return false
	}
	s.refs++
	return true
}

// hold counts a lock that a request under s has taken; the request's own ref
// keeps s from ending meanwhile.
func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs++
}

// sessions makes sessions, one after another.
type sessions struct {
	c      *Client
	making chan struct{} // has room for one

	mu   sync.Mutex // taken before session.mu
	cur  *session   // guarded by mu
	made int        // guarded by mu
	lost int        // guarded by mu
	// patience is how long a heartbeat waits for its answer; guarded by mu. It
	// grows with the time that etcd takes.
	patience time.Duration
}

func newSessions(c *Client) *sessions {
	return &sessions{c: c, making: make(chan struct{}, 1)}
}

// A SessionState tells how a Client's session fares.
type SessionState struct {
	Live bool // there is one, and it is not lost
	Made int  // sessions made so far
	Lost int  // sessions lost so far; retired ones don't count
}

// Session returns the state of the session. It is not live before the first
// Acquire or Ready, nor between its loss and the next one.
func (c *Client) Session() SessionState {
	s := c.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionState{Live: s.cur != nil && s.cur.usable(), Made: s.made, Lost: s.lost}
}

func (p *sessions) current() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur != nil && p.cur.usable() && p.cur.ref() {
		return p.cur
	}
	return nil
}

// get returns the session, made if need be, with a reference for the caller.
func (p *sessions) get(ctx context.Context) (*session, error) {
	if s := p.current(); s != nil {
		return s, nil
	}
	select {
	case p.making <- struct{}{}:
		defer func() { <-p.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if s := p.current(); s != nil {
		return s, nil
	}
	var s *session
	err := p.c.retryMany(ctx, 2, func(ctx context.Context) (err error) {
		s, err = p.make(ctx)
		if errors.Is(err, errNoSession) {
			err = fmt.Errorf("new lease: %v", err) // expired already: once more
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make session: %w", err)
	}
	return s, nil
}

// make grants a lease and puts the session key, which Publish compares.
func (p *sessions) make(ctx context.Context) (*session, error) {
	sent := time.Now()
	gctx, cancel := context.WithTimeout(ctx, requestTime)
	id, ttl, err := p.c.kv.grant(gctx, p.c.o.TTL)
	cancel()
	if err != nil {
		return nil, err
	}
	took := time.Since(sent)
	p.answered(ttl, took)
	p.mu.Lock()
	p.made++
	token := fmt.Sprintf("%s.%d", p.c.id, p.made)
	p.mu.Unlock()
	s := &session{id: id, token: token, ttl: ttl, until: sent.Add(ttl), refs: 1, stop: make(chan struct{})}
	s.live, s.lose = context.WithCancelCause(context.Background())
	// Its key may take as long as the grant took: it is kept alive meanwhile.
	if !p.c.spawn(func() { p.keep(s, max(0, min(ttl/3-took, s.left()-p.patienceFor(ttl)))) }) {
		return nil, &refusedError{ErrClosed}
	}
	put := op{kind: opPut, key: p.c.keys.session(token), value: []byte(p.c.o.Node), lease: id}
	res, err := p.c.kv.txn(ctx, txn{name: "session", then: []op{put}})
	if err != nil {
		p.retire(s)
		p.unref(s)
		return nil, err
	}
	s.keyRev = res.rev
	p.mu.Lock()
	p.cur = s
	p.mu.Unlock()
	p.c.o.Log.Info("session made", "session", token, "ttl", ttl)
	return s, nil
}

// keep sends heartbeats until s ends, the first one after a pause, and gives the
// lease up then.
func (p *sessions) keep(s *session, pause time.Duration) {
	for p.rest(s, pause) {
		err := p.beat(s)
		// The next answer has to come in time, too.
		pause = max(0, min(s.ttl/3, s.left()-p.patienceFor(s.ttl)))
		switch {
		case errors.Is(err, errNoSession):
			p.drop(s, err)
			return
		case s.expired():
			p.drop(s, fmt.Errorf("no heartbeat was answered for %v: %w", s.ttl, err))
			p.revoke(s)
			return
		case err != nil:
			pause = jitter(s.ttl/20, s.ttl/20, 0)
		}
	}
	s.lose(fmt.Errorf("%w: %w", ErrLeaseLost, ErrClosed))
	p.revoke(s)
}

// rest waits for the next heartbeat, or until s would be lost; false once s
// or the Client has ended.
func (p *sessions) rest(s *session, pause time.Duration) bool {
	t := time.NewTimer(min(pause, s.left()))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	case <-p.c.ctx.Done():
		return false
	}
}

// beat sends one heartbeat.
func (p *sessions) beat(s *session) error {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	sent := time.Now()
	limit := sent.Add(p.patienceFor(s.ttl))
	if until.Before(limit) {
		limit = until
	}
	ctx, cancel := context.WithDeadline(p.c.ctx, limit)
	defer cancel()
	ttl, err := p.c.kv.keepAlive(ctx, s.id)
	if err != nil {
		if ctx.Err() != nil {
			p.answered(s.ttl, time.Since(sent)) // not yet, but it may have been about to
		}
		return err
	}
	p.answered(s.ttl, time.Since(sent))
	s.mu.Lock()
	defer s.mu.Unlock()
	// An answer that came too late doesn't bring s back: its loss may have
	// been seen already.
	if time.Now().Before(s.until) {
		s.until = sent.Add(ttl)
	}
	return nil
}

// answered takes note of how long etcd took. A heartbeat waits for twice that: one
// that is swallowed must leave time for others, one that is slow must not be taken
// for swallowed.
func (p *sessions) answered(ttl, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience = min(max(ttl/6, 2*took), ttl/2)
}

func (p *sessions) patienceFor(ttl time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(max(ttl/6, p.patience), ttl/2)
}

// drop ends s because it is lost.
func (p *sessions) drop(s *session, why error) {
	s.mu.Lock()
	known := s.live.Err() != nil || s.retired && s.ended
	s.endLocked()
	s.mu.Unlock()
	if known {
		return
	}
	s.lose(fmt.Errorf("%w: %w", ErrLeaseLost, why))
	p.mu.Lock()
	p.lost++
	if p.cur == s {
		p.cur = nil
	}
	p.mu.Unlock()
	p.c.o.Log.Warn("session lost", "session", s.token, "err", why)
}

func (s *session) endLocked() {
	if !s.ended {
		s.ended = true
		close(s.stop)
	}
}

// retire ends s once no lock hangs on it.
func (p *sessions) retire(s *session) {
	p.mu.Lock()
	if p.cur == s {
		p.cur = nil
	}
	p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = true
	if s.refs == 0 {
		s.endLocked()
	}
}

// unref takes back a ref.
func (p *sessions) unref(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refs--
	if s.refs == 0 && s.retired {
		s.endLocked()
	}
}

// revoke tells etcd that s has ended, so that its locks are free before their
// time. It runs at Close too, when Client.ctx has ended.
func (p *sessions) revoke(s *session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.c.ctx), min(s.ttl, closeTime))
	defer cancel()
	for n := 0; ctx.Err() == nil; n++ {
		if err := p.c.kv.revoke(ctx, s.id); err == nil || settled(err) {
			return
		}
		sleep(ctx, backoff(n))
	}
}
