package journal

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"vcsd/internal/vfs"
)

// Touched names the files and directories below .hg that are to be synced
// before a record counts as applied for good.
type Touched struct {
	files, dirs, replaced map[string]bool
}

// NewTouched returns an empty set.
func NewTouched() *Touched {
	return &Touched{
		files:    make(map[string]bool),
		dirs:     make(map[string]bool),
		replaced: make(map[string]bool),
	}
}

// Files returns the files, sorted.
func (t *Touched) Files() []string { return slices.Sorted(maps.Keys(t.files)) }

// Dirs returns the directories in which a name appeared or changed, sorted.
func (t *Touched) Dirs() []string { return slices.Sorted(maps.Keys(t.dirs)) }

// Replaced returns the files whose name now leads to another inode, sorted.
// Who has them open or mapped sees the old one.
func (t *Touched) Replaced() []string { return slices.Sorted(maps.Keys(t.replaced)) }

// Merge adds all of u to t.
func (t *Touched) Merge(u *Touched) {
	maps.Copy(t.files, u.files)
	maps.Copy(t.dirs, u.dirs)
	maps.Copy(t.replaced, u.replaced)
}

func (t *Touched) addFile(name string)     { t.files[name] = true }
func (t *Touched) addDir(name string)      { t.dirs[name] = true }
func (t *Touched) addReplaced(name string) { t.replaced[name] = true }

// syncWorkers is how many files are synced at once: a file system that has a
// journal of its own then commits it once for several of them.
const syncWorkers = 8

// SyncTouched makes what t names durable in target. Files that are gone count
// as done. A failed sync is a *SyncError, whatever else went wrong.
//
// Order: all files, then all directories.
func SyncTouched(ctx context.Context, target vfs.FS, t *Touched) error {
	if err := syncAll(ctx, t.Files(), func(name string) error { return syncFile(target, name) }); err != nil {
		return err
	}
	return syncAll(ctx, t.Dirs(), func(name string) error { return syncDir(target, name) })
}

func syncAll(ctx context.Context, names []string, sync func(string) error) error {
	var failed atomic.Pointer[SyncError]
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(syncWorkers)
	for _, name := range names {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := sync(name)
			var se *SyncError
			if errors.As(err, &se) {
				failed.CompareAndSwap(nil, se)
			}
			return err
		})
	}
	err := g.Wait()
	if se := failed.Load(); se != nil {
		return se // no other error tells that nothing more may be published
	}
	return err
}

func syncFile(target vfs.FS, name string) (err error) {
	f, err := target.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return &SyncError{name, err}
	}
	return nil
}

func syncDir(target vfs.FS, name string) error {
	err := target.SyncDir(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &SyncError{name, err}
}

// recoverDirs removes the temporary files of a process that died from the
// directories of the record's files, and has those directories synced up to
// the root: that process may have made them.
func (a *applier) recoverDirs(r *Record) error {
	swept := make(map[string]bool)
	for i := range r.Writes {
		for _, name := range []string{r.Writes[i].Path, r.Writes[i].DataPath} {
			if dir := vfs.Dir(name); name != "" && !swept[dir] {
				swept[dir] = true
				if err := a.sweepTemps(dir); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a *applier) sweepTemps(dir string) error {
	entries, err := a.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for d := dir; ; d = vfs.Dir(d) {
		a.touched.addDir(d)
		if d == "" {
			break
		}
	}
	for _, e := range entries {
		if vfs.IsTempName(e.Name()) {
			if err := removeIfThere(a.fs, path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// isRecordTemp reports whether a file of the journal's directory is one that
// is being written.
func isRecordTemp(name string) bool {
	return vfs.IsTempName(name) &&
		(strings.Contains(name, recordSuffix+".") || strings.Contains(name, segmentSuffix+"."))
}
