package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vcsd/outgoing"
)

// A bundleMaker makes bundles ahead, for one repository of the process at a
// time. A nil one makes none.
type bundleMaker struct {
	least int // see outgoing.MakeOptions
	log   *slog.Logger
	stop  context.CancelFunc
	done  chan struct{} // closed when run has ended
	wake  chan struct{} // has room for one

	mu     sync.Mutex
	due    []*repository      // to look at, each once; guarded by mu
	busy   *repository        // being looked at; guarded by mu
	cancel context.CancelFunc // ends that; guarded by mu
	idle   sync.Cond          // busy changed; its L is mu
}

// makerNice is the priority of the thread that makes bundles.
const makerNice = 10

func newBundleMaker(least int, log *slog.Logger) *bundleMaker {
	ctx, stop := context.WithCancel(context.Background())
	m := &bundleMaker{least: least, log: log, stop: stop, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	m.idle.L = &m.mu
	go m.run(ctx)
	return m
}

// close ends what is being made.
func (m *bundleMaker) close() {
	if m == nil {
		return
	}
	m.stop()
	<-m.done
}

// poke has a repository looked at that may have grown.
func (m *bundleMaker) poke(r *repository) {
	if m == nil {
		return
	}
	m.mu.Lock()
	for _, d := range m.due {
		if d == r {
			m.mu.Unlock()
			return
		}
	}
	m.due = append(m.due, r)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// forget makes sure that a repository is not looked at any more.
func (m *bundleMaker) forget(r *repository) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, d := range m.due {
		if d == r {
			m.due = append(m.due[:i], m.due[i+1:]...)
			break
		}
	}
	for m.busy == r {
		m.cancel()
		m.idle.Wait()
	}
}

// next takes the repository that waits longest, nil if none does, and a context
// for looking at it. That is over for the one before.
func (m *bundleMaker) next(ctx context.Context) (context.Context, *repository) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy != nil {
		m.cancel()
		m.busy = nil
		m.idle.Broadcast()
	}
	if len(m.due) == 0 || ctx.Err() != nil {
		return ctx, nil
	}
	m.busy, m.due = m.due[0], m.due[1:]
	ctx, m.cancel = context.WithCancel(ctx)
	return ctx, m.busy
}

func (m *bundleMaker) run(ctx context.Context) {
	defer close(m.done)
	// The thread ends with this goroutine, since it is never unlocked. Without
	// the right to it, its priority stays as it is.
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, makerNice)
	for {
		for c, r := m.next(ctx); r != nil; c, r = m.next(ctx) {
			m.look(c, r)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
	}
}

// look makes a bundle for a repository if it is time.
func (m *bundleMaker) look(ctx context.Context, r *repository) {
	start := time.Now()
	made := 0
	err := guarded(func() (err error) {
		made, err = m.refresh(ctx, r)
		return err
	})
	switch {
	case made > 0:
		m.log.InfoContext(ctx, "bundle made ahead", "repo", r.path, "changesets", made, "duration", time.Since(start))
	case err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrPermission):
		m.log.WarnContext(ctx, "no bundle made ahead", "repo", r.path, "error", err)
	}
}

func (m *bundleMaker) refresh(ctx context.Context, r *repository) (made int, err error) {
	s, err := r.settings()
	if err != nil || len(s.engines) == 0 {
		return 0, err
	}
	v, err := r.repo.View(ctx)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	return r.prepared.Refresh(ctx, v, outgoing.MakeOptions{
		Engine: s.engines[0], Level: s.levels()[s.engines[0]], Least: m.least, Publishing: s.exchange.Publish,
	})
}
