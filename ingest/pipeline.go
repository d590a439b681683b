package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/quarantine"
	"vcsd/refs"
	"vcsd/store"
)

// Options are what a Pipeline needs from its surroundings.
type Options struct {
	Refs   refs.Store
	RepoID refs.RepoID
	Node   string // name of this server, for the records
	Log    *slog.Logger
	Limits Limits
	BootID string // of this run of the machine, see BootID

	// Policy tells what the repository's configuration says. It is asked for
	// each batch of pushes.
	Policy func() Policy

	// Hooks returns the hooks to be run in a push, nil if there are none. It is
	// asked for each push; its error refuses the push. A nil function means that
	// there never are any.
	Hooks func() (*Hooks, error)
	// Root is the absolute path of the directory that holds .hg, StoreDir that of
	// the .hg directory that has the store. They matter to hooks alone.
	Root, StoreDir string
}

// A Pipeline takes the pushes of one repository.
type Pipeline struct {
	fs     vfs.FS      // rooted at .hg
	repo   *store.Repo // nil while Recover is at work
	refs   refs.Store
	id     refs.RepoID
	node   string
	log    *slog.Logger
	limits Limits
	policy func() Policy

	hooks    func() (*Hooks, error) // may be nil
	previews previews

	journal    *journal.Journal
	quarantine *quarantine.Area

	ready   chan *readyPush // pushes that hold their leases
	stop    context.CancelFunc
	stopped chan struct{} // closed when the sequencer has ended
	behind  chan struct{} // wakes keepUp; has room for one
	keptUp  chan struct{} // closed when keepUp has ended
	closing atomic.Bool   // set by Close

	// failed is set once when applying or syncing went wrong: nothing is
	// published any more, reads go on (I8).
	failed atomic.Pointer[error]

	checkpoint *checkpointer
	bootID     string

	// tip is what was last known to be published. The store holds it once
	// readLinked says so.
	tipMu sync.Mutex
	tip   refs.Tip // guarded by tipMu

	// markersAt is the file of markers as this process left it; nil if another
	// one may have linked records since. Guarded by the store's lock.
	markersAt *markerFile
}

// JournalDir is where the journal of a repository is, relative to .hg.
const JournalDir = "vcsd/journal"

// Where vcsd keeps its own files, relative to .hg.
const (
	vcsdDir       = "vcsd"
	quarantineDir = vcsdDir + "/quarantine"
	journalDir    = JournalDir
)

// Recover brings the files of a repository up to the published tip, before
// anybody reads them: after a power cut they may be in pieces, and the journal
// has what they lack. Before that it rolls back a transaction in which a local hg
// was killed. fsys is rooted at .hg. It is called before store.Open. While a local
// hg holds the store's lock, or the tip is not to be had, nothing is done; if the
// files may be in pieces then, the error is an *IncompleteError.
func Recover(ctx context.Context, fsys vfs.FS, o Options) error {
	p := newPipeline(fsys, o)
	if err := p.rollBack(ctx); err != nil {
		return err
	}
	there, err := vfs.Exists(fsys, journalDir)
	if err != nil || !there {
		return err
	}
	if p.journal, err = journal.Open(fsys, journalDir, journal.Options{}); err != nil {
		return err
	}
	switch err := p.catchUpSoon(ctx); {
	case isLockHeld(err):
		p.log.WarnContext(ctx, "not recovered: a local hg is at work")
	case errors.Is(err, ErrNoAnswer):
		return p.checkWhole(err)
	default:
		return err
	}
	return nil
}

func newPipeline(fsys vfs.FS, o Options) *Pipeline {
	return &Pipeline{
		fs: fsys, refs: o.Refs, id: o.RepoID, node: o.Node, log: o.Log, limits: o.Limits.withDefaults(),
		policy: o.Policy, bootID: o.BootID,
		hooks: o.Hooks, previews: previews{root: o.Root, store: o.StoreDir},
		ready: make(chan *readyPush), stopped: make(chan struct{}), checkpoint: newCheckpointer(),
		behind: make(chan struct{}, 1), keptUp: make(chan struct{}),
	}
}

// Open brings the repository up to the published tip and starts its pipeline.
// While a local hg holds the store's lock, or the tip is not to be had, that is
// left for later, as readers must not wait. The caller closes the Pipeline.
func Open(ctx context.Context, repo *store.Repo, o Options) (*Pipeline, error) {
	p := newPipeline(repo.FS(), o)
	p.repo = repo
	if err := p.openDirs(ctx); err != nil {
		return nil, err
	}
	if err := p.catchUpSoon(ctx); isLockHeld(err) || errors.Is(err, ErrNoAnswer) {
		p.log.WarnContext(ctx, "not at the tip yet", "error", Cause(err))
		p.fallBehind()
	} else if err != nil {
		return nil, errors.Join(err, p.quarantine.Close())
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	go p.checkpoint.run(run, p)
	go p.sequence(run)
	go p.keepUp(run)
	return p, nil
}

// openDirs opens the journal and the quarantine.
//
// Order: the journal's directories are durable before anything is published.
// Somebody else may have made the upper one and not synced it.
func (p *Pipeline) openDirs(ctx context.Context) (err error) {
	fsys := p.fs
	if p.journal, err = journal.Open(fsys, journalDir, journal.Options{}); err != nil {
		return err
	}
	for _, dir := range []string{"", vcsdDir} {
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := vfs.MkdirAllSync(fsys, quarantineDir); err != nil {
		return err
	}
	p.quarantine, err = quarantine.Open(fsys, quarantineDir, quarantine.Options{
		MaxBytes: p.limits.MaxPushBytes, QuotaBytes: p.limits.QuarantineBytes,
	})
	if err != nil {
		return err
	}
	if err := p.quarantine.Sweep(ctx); err != nil {
		return errors.Join(err, p.quarantine.Close())
	}
	return nil
}

// Close waits for the pushes in flight and lets go of everything. A push that
// waits for a local hg is given up.
func (p *Pipeline) Close() error {
	p.closing.Store(true)
	p.stop()
	<-p.stopped
	<-p.keptUp
	return errors.Join(p.checkpoint.wait(), p.previews.close(), p.quarantine.Close())
}

// fail stops publishing for good.
func (p *Pipeline) fail(err error) error {
	err = hide(err, noPushes, logTells)
	if p.failed.CompareAndSwap(nil, &err) {
		p.log.Error("publishing stopped", "error", Cause(err))
	}
	return err
}

func (p *Pipeline) failure() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// viewAt returns a view of at least seq.
func (p *Pipeline) viewAt(ctx context.Context, seq uint64) (*store.View, error) {
	view, err := p.repo.View(ctx)
	if err != nil || view.Seq() >= seq {
		return view, err
	}
	view.Close()
	if err := p.catchUp(ctx, p.limits.LockWait); err != nil {
		return nil, err
	}
	return p.repo.View(ctx)
}

// Pushkey compares and sets one key, as a push that holds nothing else. It
// reports whether the key now has the new value, and what the client is told
// beside that or beside the error.
func (p *Pipeline) Pushkey(ctx context.Context, namespace, key, oldValue, newValue string, who Who) (ok bool, output string, err error) {
	st := &staged{ops: []op{pushkey{namespace: namespace, key: key, old: oldValue, new: newValue}}}
	d, late, err := p.publish(ctx, &readyPush{staged: st, who: who})
	if d != nil {
		ok, output = err == nil && d.result == 1, d.output.String()+late
	}
	return ok, output, p.tell(ctx, err)
}

// tell logs what a client is not told of an error, and returns it.
func (p *Pipeline) tell(ctx context.Context, err error) error {
	err = classify(err)
	if cause := Cause(err); cause != nil && !errors.Is(err, context.Canceled) {
		p.log.WarnContext(ctx, "push not answered in full", "told", err.Error(), "error", cause)
	}
	return err
}

// waitError is what a client is told whose push could not get its turn.
func waitError(err error) error {
	switch {
	case errors.Is(err, hg.ErrUnavailable):
		return noAnswer(err)
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(fmt.Errorf("%w: %w", errWaited, err))
	}
	return err
}
