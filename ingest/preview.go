package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"vcsd/hook/overlay"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/store"
)

// previewSegment is the name, in a record for hooks to look at, of the segment
// of the one push that it holds. No segment of a journal has it.
const previewSegment = "00000000000000000000000000000000.seg"

// previews are the directories in which hooks see a push that is not
// published.
type previews struct {
	root, store string // absolute; see Options

	mu         sync.Mutex
	pool       *overlay.Pool // guarded by mu; nil until wanted
	generation uint64        // guarded by mu; of what the pool keeps
	closed     bool          // guarded by mu
}

// poolFor returns the pool to take a directory from, for a repository of some
// generation. dir is where the pool is, relative to the .hg that has the store.
func (s *previews) poolFor(generation uint64, dir string) (*overlay.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, unavailable(errStopped)
	case s.pool == nil:
		s.pool = overlay.New(overlay.Options{Root: s.root, Shared: s.store, Dir: filepath.Join(s.store, dir)})
	case s.generation != generation:
		// Somebody rewrote files.
		if err := s.pool.Reset(); err != nil {
			return nil, err
		}
	}
	s.generation = generation
	return s.pool, nil
}

func (s *previews) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pool == nil {
		return nil
	}
	return s.pool.Close()
}

// shown is a directory that hooks are shown.
type shown struct {
	view    *overlay.View
	changes int // how many ops of the push changed something that it shows
}

// showTries is how often a directory is made anew because the repository moved
// on meanwhile.
const showTries = 20

// show returns the root of a directory that has the push up to its op at work;
// empty if there is nothing to be seen of it.
func (v *vetoes) show() (root string, err error) {
	for range showTries {
		changes := v.d.changesBefore(v.op)
		if changes == 0 {
			return "", nil
		}
		if v.shown != nil && v.shown.changes == changes {
			return v.shown.view.Root(), nil
		}
		v.hide()
		var view *overlay.View
		if view, err = v.makePreview(); err == nil {
			v.shown = &shown{view, changes}
			return view.Root(), nil
		}
		var conflict *journal.ConflictError
		if !errors.Is(err, overlay.ErrMoved) && !errors.As(err, &conflict) {
			return "", err
		}
		if err := v.look(); err != nil {
			return "", err
		}
	}
	return "", unavailable(err)
}

// hide gives back the directory that hooks were shown.
func (v *vetoes) hide() {
	if v.shown == nil {
		return
	}
	if err := v.shown.view.Release(); err != nil {
		v.p.log.Warn("preview not removed", "error", err)
	}
	v.shown = nil
}

// makePreview applies the record that would publish the push so far to a
// directory that stands for the repository.
func (v *vetoes) makePreview() (*overlay.View, error) {
	var rec *journal.Record
	err := guarded(func() (err error) {
		rec, err = v.p.previewRecord(v.ctx, v.view, v.r, v.op)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("preview of the push %v: %w", v.r.id, err)
	}
	pool, err := v.p.previews.poolFor(v.view.Generation(), v.p.quarantine.Scratch("views"))
	if err != nil {
		return nil, err
	}
	view, err := pool.Acquire(previewFiles(rec, v.view))
	if err != nil {
		return nil, err
	}
	segment := func(string) (vfs.File, error) { return v.r.dir.OpenSegment() }
	if _, err := v.p.journal.Apply(rec, view.FS(), journal.ApplyOptions{Segment: segment}); err != nil {
		return nil, errors.Join(err, view.Discard())
	}
	return view, nil
}

// previewRecord returns a record of what the first ops of a push change.
func (p *Pipeline) previewRecord(ctx context.Context, view *store.View, r *readyPush, ops int) (*journal.Record, error) {
	st := *r.staged
	st.ops = st.ops[:ops]
	st.hooked = &hooked{vetoed: r.staged.hooked.vetoed}
	push := &readyPush{staged: &st, id: r.id, dir: r.dir, who: r.who}
	b := &decided{view: view, pending: newPending(view), pushes: []*readyPush{push}, tip: p.knownTip(), preview: true}
	var err error
	if push.decision, err = decide(b.pending, &st, p.policy()); err != nil {
		return nil, err
	}
	rec, _, _, err := p.record(ctx, b)
	return rec, err
}

// previewFiles lists the files that a record writes, as they are before it.
func previewFiles(rec *journal.Record, view *store.View) []overlay.File {
	var files []overlay.File
	seen := make(map[string]bool)
	add := func(f overlay.File) {
		if !seen[f.Path] {
			seen[f.Path] = true
			files = append(files, f)
		}
	}
	for _, w := range rec.Writes {
		switch w.Op {
		case journal.Replace:
			add(overlay.File{Path: w.Path})
		case journal.Split:
			add(overlay.File{Path: w.Path, Keep: w.Length, Inline: true})
			add(overlay.File{Path: w.DataPath})
		default:
			add(overlay.File{Path: w.Path, Keep: w.Offset, Inline: w.Op == journal.AppendInline})
		}
	}
	size := view.Changelog().Size()
	add(overlay.File{Path: changelogIndex, Keep: size.IndexBytes, Inline: size.Inline})
	return files
}

// changelogIndex must not be seen to grow while hooks look.
const changelogIndex = "store/00changelog.i"
