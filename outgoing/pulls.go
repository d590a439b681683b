package outgoing

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/compression"
)

// A Sink takes the answer to a pull; *wire.Stream is one.
type Sink interface {
	io.Writer
	io.ReaderFrom

	// Engine returns what will be written is going to be compressed with, and
	// the level; ok is false if bytes in that form can't be written.
	Engine() (e compression.Engine, level int, ok bool)
	// Encoded declares that what will be written is in that form already.
	Encoded(e compression.Engine) bool
	// SetSize tells how many bytes will be written.
	SetSize(n int64)
}

// Pulls answers getbundle for all repositories of a process. Its methods may be
// called by several goroutines at once.
type Pulls struct {
	spools *spools
	least  int // changesets that an answer must have to be worth sharing

	computed, joined, prepared, single atomic.Uint64
}

// NewPulls returns a Pulls whose spools hold at most maxSpoolBytes together; 0
// means 4 GiB.
func NewPulls(maxSpoolBytes int64) *Pulls {
	return &Pulls{spools: newSpools(maxSpoolBytes), least: shareLeast}
}

// Close ends what is computed for others, and waits for that.
func (p *Pulls) Close() { p.spools.close() }

// PullStats counts answers since NewPulls, by how they came about.
type PullStats struct {
	Computed uint64 // for everyone who might ask for the same
	Joined   uint64 // by reading what was computed for another request
	Prepared uint64 // for the most part from bundles made ahead
	Single   uint64 // for one request, because it was small or there is no place for a spool
}

// Stats returns what happened so far.
func (p *Pulls) Stats() PullStats {
	return PullStats{Computed: p.computed.Load(), Joined: p.joined.Load(), Prepared: p.prepared.Load(), Single: p.single.Load()}
}

// A Pull is a request for a bundle. It holds nothing once it was answered.
type Pull struct {
	View *store.View
	Args Args
	Keys KeyLister
	// Prepared are the bundles made ahead of the repository; may be nil.
	Prepared *Prepared
}

// shareLeast is how many changesets an answer must have to be worth a spool.
const shareLeast = 256

// Answer writes a bundle to a sink. Errors are those of GetBundle.
func (p *Pulls) Answer(ctx context.Context, q Pull, to Sink) error {
	if err := q.Args.check(); err != nil {
		return err
	}
	if err := q.Args.checkStream(q.View); err != nil {
		return err
	}
	sel, heads, err := q.Args.selection(q.View)
	if err != nil {
		return err
	}
	return q.Args.betweenHooks(ctx, sel, func() error {
		b, err := q.Args.newWriter(ctx, sel, heads, q.Keys)
		if err != nil {
			return err
		}
		return p.answer(ctx, &q, b, to)
	})
}

// answer writes the bundle of b in whichever way costs least.
func (p *Pulls) answer(ctx context.Context, q *Pull, b *bundleWriter, to Sink) error {
	engine, level, ok := to.Engine()
	if len(b.sel.revs) < p.least || !ok || q.Args.Stream {
		p.single.Add(1)
		return b.writeTo(ctx, to)
	}
	if c := q.Prepared.chainFor(q, b.sel, b.heads, engine, p.least); c != nil {
		p.prepared.Add(1)
		return errors.Join(p.answerPrepared(ctx, q, b, c, level, to), c.close())
	}
	to.Encoded(engine)
	return p.share(ctx, q, b.key("whole", engine, level), to, func(ctx context.Context, view *store.View, w io.Writer) error {
		return encoded(func() (compression.Writer, error) { return compression.NewWriter(engine, level, w) }, func(w io.Writer) error {
			return b.on(view).writeTo(ctx, w)
		})
	})
}

// encoded runs f on an encoder. What a failing f has written is passed on, as it
// ends with what the client is told, but the stream is not ended.
func encoded(start func() (compression.Writer, error), f func(io.Writer) error) error {
	enc, err := start()
	if err != nil {
		return err
	}
	if err := f(enc); err != nil {
		return errors.Join(err, enc.Flush())
	}
	return enc.Close()
}

// share writes what make makes of a View to w, together with all who want the
// same.
func (p *Pulls) share(ctx context.Context, q *Pull, key spoolKey, w io.Writer, make func(context.Context, *store.View, io.Writer) error) error {
	// The computation may outlive this request and its View.
	view := q.View.Again()
	fsys := view.Repo().FS()
	f, joined, err := p.spools.join(ctx, key, func() (vfs.File, error) { return createSpool(fsys) },
		func(ctx context.Context, w io.Writer) error {
			defer view.Close()
			return make(ctx, view, w)
		})
	if joined || err != nil {
		view.Close()
	}
	if err != nil {
		p.single.Add(1)
		return make(ctx, q.View, w)
	}
	defer f.leave()
	if joined {
		p.joined.Add(1)
	} else {
		p.computed.Add(1)
	}
	r := &follower{f: f}
	err = r.copyTo(ctx, w)
	var failed *flightError
	if !errors.As(err, &failed) {
		return err
	}
	var spool *spoolError
	if r.off > 0 && !errors.As(err, &spool) {
		return failed.err
	}
	// The error may not concern this client, or can be told to it in full.
	return make(ctx, q.View, r.resume(w))
}

// spoolDir holds spools, relative to .hg. They have no name once they are open.
const spoolDir = "vcsd/cache/spool"

func createSpool(fsys vfs.FS) (vfs.File, error) {
	if err := fsys.MkdirAll(spoolDir); err != nil {
		return nil, err
	}
	name := vfs.TempName(spoolDir + "/pull")
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	if err := fsys.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// key returns the digest of all that a bundle depends on. what tells apart
// different answers to the same arguments.
func (b *bundleWriter) key(what string, e compression.Engine, level int) spoolKey {
	a := b.args
	a.Heads, a.Common, a.Hooks = sorted(a.Heads), sorted(a.Common), nil
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %d %v %+v %+v", what, b.view.State(), e, level, a.Heads == nil, a, b.keys)
	return spoolKey(h.Sum(nil))
}

func sorted(nodes []hg.Node) []hg.Node {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, hg.Node.Compare)
	return nodes
}
