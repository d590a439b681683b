package overlay

import (
	"errors"
	"path/filepath"
	"time"

	"vcsd/internal/vfs"
)

// A View is a directory that shows a repository with something pending.
type View struct {
	pool  *Pool
	fs    vfs.FS // of the system
	dir   string // absolute; holds all that belongs to the View
	root  string // absolute; what hooks run in
	epoch int
	hgrcs []string // that hg reads for the repository, in this order

	// dirs are the directories of the real store that the View has, relative to
	// .hg, with the time of their last change when they were listed; the zero
	// time means that they have to be listed again.
	dirs map[string]time.Time

	kept     map[string]kept // large copies of earlier uses, by path
	copies   map[string]kept // of this use
	provided map[string]bool // files of this use; whether links stood there
}

// newView returns a View without anything on the disk. It keeps the name of
// the real directory, as hooks may know the repository by that.
func newView(p *Pool, number string, epoch int) *View {
	dir := filepath.Join(p.o.Dir, number)
	return &View{
		pool: p, fs: p.fs, dir: dir, root: filepath.Join(dir, "view", filepath.Base(p.o.Root)), epoch: epoch,
		dirs: make(map[string]time.Time), kept: make(map[string]kept), copies: make(map[string]kept), provided: make(map[string]bool),
	}
}

// Root is the absolute path of the directory that holds the View's .hg.
func (v *View) Root() string { return v.root }

// FS is the View's .hg directory, for the writes of the push. Writing to a file
// that wasn't named to Acquire is an error, as it would be the real one.
func (v *View) FS() vfs.FS { return guarded{vfs.NewOS(v.hg(""))} }

// hg returns the absolute path of a name relative to the View's .hg.
func (v *View) hg(name string) string { return filepath.Join(v.root, ".hg", name) }

// shared returns the absolute path of a name relative to the .hg that holds
// the real store.
func (v *View) shared(name string) string { return filepath.Join(v.pool.o.Shared, name) }

// own returns the absolute path of a name relative to the real root's .hg.
func (v *View) own(name string) string { return filepath.Join(v.pool.o.Root, ".hg", name) }

// prepare brings the View into line with the repository and gives it copies of
// the files that are to be written.
func (v *View) prepare(files []File) error {
	if len(v.dirs) == 0 {
		if err := v.create(); err != nil {
			return err
		}
	}
	if err := v.mirror(); err != nil {
		return err
	}
	for _, f := range files {
		if err := v.provide(f); err != nil {
			return err
		}
	}
	return nil
}

// Release gives the View back. Nothing in it may be used any more.
func (v *View) Release() error {
	if !v.pool.keeps(v) {
		return v.remove()
	}
	err := v.keep()
	if err == nil {
		err = v.restore()
	}
	if err != nil {
		return errors.Join(err, v.remove())
	}
	if !v.pool.put(v) {
		return v.remove()
	}
	return nil
}

// Discard is Release for a View in which the writes failed, which may have
// left anything.
func (v *View) Discard() error { return v.remove() }

func (v *View) remove() error { return v.fs.RemoveAll(v.dir) }
