package server

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/outgoing"
	"vcsd/refs"
	"vcsd/store"
)

// A process is what all repositories of a process share.
type process struct {
	refs     refs.Store
	configs  *configs
	log      *slog.Logger
	filelogs *store.FilelogCache
	limits   ingest.Limits
	admit    *admission
	counters *counters
	pulls    *outgoing.Pulls
	maker    *bundleMaker // nil: no bundles are made ahead
	node     string
	bootID   string

	maxOpen  int           // repositories, beside those in use
	idleTime time.Duration // how long one stays open that nobody uses
}

// A registry opens repositories when they are asked for, and closes those that
// nobody has used for a while, or that are too many.
type registry struct {
	process

	closing sync.WaitGroup // of repositories; counted with mu held

	mu    sync.Mutex
	open  map[string]*opening // by path; guarded by mu
	old   map[*opening]bool   // that others took the place of, and that are in use; guarded by mu
	going map[string]*opening // that are being closed, by path; guarded by mu
	idle  list.List           // of *opening that nobody uses, longest idle first; guarded by mu
	timer *time.Timer         // for the first of idle; nil if there is none; guarded by mu
	ended bool                // guarded by mu
}

func newRegistry(p process) *registry {
	return &registry{
		process: p,
		open:    make(map[string]*opening), old: make(map[*opening]bool), going: make(map[string]*opening),
	}
}

// An opening is a repository that is open or about to be.
type opening struct {
	path string
	dir  vfs.Info      // of .hg when it was opened
	done chan struct{} // closed when repo or err is set
	repo *repository
	err  error

	opened time.Time     // set before done is closed
	gone   chan struct{} // closed when it was closed

	// Guarded by registry.mu.
	users    int
	place    *list.Element // in idle; nil if it isn't there
	since    time.Time     // when its last user left
	detached bool          // another one has taken its place
}

// use returns the repository at path, which is absolute, and what to call when
// the caller needs it no more. What is no repository is fs.ErrNotExist.
func (g *registry) use(ctx context.Context, path string) (r *repository, release func(), err error) {
	info, err := vfs.NewOS(path).Stat(".hg")
	if err != nil {
		return nil, nil, err
	}
	o, mine, err := g.claim(ctx, path, info)
	if err != nil {
		return nil, nil, err
	}
	if mine {
		g.fill(context.WithoutCancel(ctx), o)
	}
	select {
	case <-o.done:
		err = o.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		g.release(o)
		return nil, nil, err
	}
	return o.repo, sync.OnceFunc(func() { g.release(o) }), nil
}

// fill opens the repository that o was claimed for.
func (g *registry) fill(ctx context.Context, o *opening) {
	o.err = hg.ErrUnavailable // should opening it panic
	defer func() {
		if o.err != nil {
			g.detach(o)
		}
		close(o.done)
	}()
	o.repo, o.err = g.openRepository(ctx, o.path)
	o.opened = time.Now()
}

// reopenAfter is how long a repository refuses pushes for a reason that may
// pass, such as etcd being away, before it is opened anew.
const reopenAfter = 5 * time.Second

// stale tells whether it is worth the try to open a repository anew: it takes
// no pushes, and that need not stay so.
func (o *opening) stale() bool {
	select {
	case <-o.done:
	default:
		return false
	}
	r := o.repo
	return r != nil && r.pipeline == nil && !errors.Is(r.readOnly, hg.ErrReadOnly) && time.Since(o.opened) > reopenAfter
}

// claim returns the opening of a path, with the caller as one of its users, and
// whether the caller has to open it. It waits for one that is being closed.
func (g *registry) claim(ctx context.Context, path string, info vfs.Info) (o *opening, mine bool, err error) {
	for {
		o, mine, going, err := g.tryClaim(path, info)
		if going == nil {
			return o, mine, err
		}
		select {
		case <-going.gone:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// tryClaim is claim, but returns what is being closed. A directory that was
// replaced is opened anew.
func (g *registry) tryClaim(path string, info vfs.Info) (o *opening, mine bool, going *opening, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false, nil, hg.ErrUnavailable
	}
	if going := g.going[path]; going != nil {
		return nil, false, going, nil
	}
	if o := g.open[path]; o != nil {
		if o.dir.Ino == info.Ino && o.dir.Dev == info.Dev && !o.stale() {
			g.enterLocked(o)
			return o, false, nil, nil
		}
		g.detachLocked(o)
	}
	o = &opening{path: path, dir: info, done: make(chan struct{}), gone: make(chan struct{})}
	g.open[path] = o
	g.enterLocked(o)
	g.closeExcessLocked()
	return o, true, nil, nil
}

func (g *registry) enterLocked(o *opening) {
	o.users++
	if o.place != nil {
		g.idle.Remove(o.place)
		o.place = nil
	}
}

// release takes a user off an opening. The last one makes it idle.
func (g *registry) release(o *opening) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o.users--
	if o.users > 0 || g.ended {
		return
	}
	if o.detached {
		delete(g.old, o)
		g.closeLocked(o)
		return
	}
	o.since = time.Now()
	o.place = g.idle.PushBack(o)
	g.closeExcessLocked()
	g.setTimerLocked()
}

func (g *registry) detach(o *opening) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.detachLocked(o)
}

// detachLocked lets go of an opening that is to be used by nobody any more: it
// is closed when those who use it have left.
func (g *registry) detachLocked(o *opening) {
	if o.detached {
		return
	}
	o.detached = true
	if g.open[o.path] == o {
		delete(g.open, o.path)
	}
	if o.users > 0 {
		g.old[o] = true
		return
	}
	g.closeLocked(o)
}

// closeExcessLocked closes those that have been idle for longest while too many
// are open.
func (g *registry) closeExcessLocked() {
	for len(g.open) > g.maxOpen && g.idle.Len() > 0 {
		g.closeIdleLocked(g.idle.Front().Value.(*opening))
	}
}

// closeIdleLocked closes an opening that nobody uses. Whoever wants the
// repository meanwhile waits: it is open once only.
func (g *registry) closeIdleLocked(o *opening) {
	delete(g.open, o.path)
	g.going[o.path] = o
	g.closeLocked(o)
}

// closeLocked starts to close an opening without users.
func (g *registry) closeLocked(o *opening) {
	if o.place != nil {
		g.idle.Remove(o.place)
		o.place = nil
	}
	g.closing.Go(func() {
		o.close(g.log)
		g.mu.Lock()
		if g.going[o.path] == o {
			delete(g.going, o.path)
		}
		g.mu.Unlock()
		close(o.gone)
	})
}

// setTimerLocked makes closeIdle run when the first of those idle is due.
func (g *registry) setTimerLocked() {
	if g.timer != nil || g.idle.Len() == 0 || g.ended {
		return
	}
	first := g.idle.Front().Value.(*opening)
	g.timer = time.AfterFunc(time.Until(first.since.Add(g.idleTime)), g.closeIdle)
}

func (g *registry) closeIdle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = nil
	for e := g.idle.Front(); e != nil && time.Since(e.Value.(*opening).since) >= g.idleTime; e = g.idle.Front() {
		g.closeIdleLocked(e.Value.(*opening))
	}
	g.setTimerLocked()
}

// count returns how many repositories are open.
func (g *registry) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}

// close ends all pipelines and closes all repositories, in use or not: who is
// left by then was cut off.
func (g *registry) close() {
	g.mu.Lock()
	g.ended = true
	if g.timer != nil {
		g.timer.Stop()
	}
	for _, o := range g.open {
		g.closeIdleLocked(o)
	}
	for o := range g.old {
		g.closeLocked(o)
	}
	g.mu.Unlock()
	g.maker.close()
	g.pulls.Close()
	g.closing.Wait()
}

// close closes the repository once it is open.
func (o *opening) close(log *slog.Logger) {
	<-o.done
	if o.repo == nil {
		return
	}
	o.repo.maker.forget(o.repo)
	var err error
	if o.repo.pipeline != nil {
		err = errors.Join(o.repo.pipeline.Close(), o.repo.repo.SaveBranches(true))
	}
	if err = errors.Join(err, o.repo.repo.Close()); err != nil {
		log.Error("repository not closed in order", "repo", o.repo.path, "error", err)
	}
}
