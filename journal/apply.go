package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// ApplyOptions tells in which situation a record is applied.
type ApplyOptions struct {
	// Redo is set at recovery: the record may have been applied before, in
	// whole or in part, by a process that died. Leftovers of that one are
	// removed, and all files and directories of the record count as touched.
	Redo bool
	// Superseded reports whether a record that is applied afterwards replaces
	// path again, so that its old content need not come back for a moment. nil
	// means never.
	Superseded func(path string) bool
	// Before is called before each write that is made, with its path. nil
	// means that nobody wants to know.
	Before func(path string)
	// Segment opens the segments of a record that the journal doesn't have. nil
	// means that it has them.
	Segment func(name string) (vfs.File, error)
}

// Apply makes the record's writes in target, which is rooted at .hg. It may be
// repeated, after a crash at any moment too, with the same result. The caller
// holds the store's lock; readers may go on. It returns what it touched, also
// with an error: the record counts as applied for good after SyncTouched.
//
// Order: first every write is checked against its checksum and against the
// file, so that a conflict or damage is found before anything is written. Then
// the writes are made in the record's order, each complete before the next.
// They are not synced here, as the record itself is durable. Only what replaces
// a file whose old bytes are in no record (the copy of a hard-linked file, the
// halves of a split revlog) is synced before it is renamed.
//
// A store written by a power cut in between may hold zeros in place of the
// record's bytes, which are then filled in. Any other byte that differs is a
// *ConflictError. A failed sync is a *SyncError.
func (j *Journal) Apply(r *Record, target vfs.FS, o ApplyOptions) (*Touched, error) {
	a := j.newApplier(target, o)
	err := a.run(r)
	err = errors.Join(err, a.close())
	if err != nil {
		err = fmt.Errorf("apply record %d: %w", r.Seq, err)
	}
	return a.touched, err
}

// Check tells whether the record's writes have all been made in target, and
// whether they can be: it returns the errors that Apply finds before it writes.
func (j *Journal) Check(r *Record, target vfs.FS) (done bool, err error) {
	a := j.newApplier(target, ApplyOptions{})
	steps, err := a.plan(r)
	err = errors.Join(err, a.close())
	if err != nil {
		return false, fmt.Errorf("check record %d: %w", r.Seq, err)
	}
	for _, s := range steps {
		if !s.skip {
			return false, nil
		}
	}
	return true, nil
}

// applier applies one record. It belongs to one goroutine.
type applier struct {
	j       *Journal
	fs      vfs.FS
	o       ApplyOptions
	touched *Touched
	sources sources
	modes   modes
	buf     []byte
}

func (j *Journal) newApplier(target vfs.FS, o ApplyOptions) *applier {
	a := &applier{
		j:       j,
		fs:      target,
		o:       o,
		touched: NewTouched(),
		sources: sources{j: j, open: j.OpenSegment},
	}
	if o.Segment != nil {
		a.sources.open = o.Segment
	}
	return a
}

func (a *applier) close() error { return a.sources.close() }

func (a *applier) run(r *Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	steps, err := a.plan(r)
	if err != nil {
		return err
	}
	if a.modes, err = modesOf(a.fs); err != nil {
		return err
	}
	if a.o.Redo {
		if err := a.recoverDirs(r); err != nil {
			return err
		}
	}
	for i := range r.Writes {
		if err := a.step(&r.Writes[i], steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// step makes one write. What is skipped counts as touched: that it can be read
// doesn't mean that it is on the disk.
func (a *applier) step(w *Write, s step) error {
	if err := a.make(w, s); err != nil {
		return fmt.Errorf("%v %q: %w", w.Op, w.Path, err)
	}
	if !s.absent {
		a.touched.addFile(w.Path)
		if w.Op == Split {
			a.touched.addFile(w.DataPath)
		}
	}
	return nil
}

func (a *applier) make(w *Write, s step) error {
	if s.skip {
		return nil
	}
	if a.o.Before != nil {
		a.o.Before(w.Path)
	}
	switch {
	case w.Op == Replace:
		return a.replace(w)
	case w.Op == Split:
		return a.split(w)
	default:
		return a.append(w, s.from)
	}
}

// append writes the bytes of w from the absolute offset from on; those before
// are there.
func (a *applier) append(w *Write, from int64) (err error) {
	f, err := a.openWrite(w.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := f.Stat()
	if err != nil {
		return err
	}
	if in.Size < from {
		return &ConflictError{w.Path, in.Size, ErrGap}
	}
	if in.Nlink <= 1 {
		return a.write(f, w, from)
	}
	own, err := a.copyUp(w.Path, f, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	return a.write(own, w, from)
}

// openWrite opens a file, or makes it and the directories above it.
func (a *applier) openWrite(name string) (vfs.File, error) {
	_, err := a.fs.Lstat(name)
	if err == nil {
		return a.fs.OpenWrite(name)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := a.makeParents(name, nil); err != nil {
		return nil, err
	}
	f, err := a.fs.Create(name)
	if err != nil {
		return nil, err
	}
	a.touched.addDir(vfs.Dir(name))
	if err := a.modes.fixFile(a.fs, name, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeParents makes the directories above name; made may be nil.
func (a *applier) makeParents(name string, made func(dir string) error) error {
	_, err := vfs.MakeDirs(a.fs, vfs.Dir(name), func(dir string) error {
		a.touched.addDir(dir)
		a.touched.addDir(vfs.Dir(dir))
		if err := a.modes.fixDir(a.fs, dir); err != nil || made == nil {
			return err
		}
		return made(dir)
	})
	return err
}

// copyUp gives name a file of its own in place of f, which other names share,
// and returns it open. A local clone links the files of its source: writing
// into them would damage the clone.
//
// Order: write the copy to a temporary file, sync it, rename it.
func (a *applier) copyUp(name string, f vfs.File, in vfs.Info) (vfs.File, error) {
	tmp := vfs.TempName(name)
	own, err := a.fs.Create(tmp)
	if err != nil {
		return nil, err
	}
	if err := a.fillCopy(own, f, in, tmp, name); err != nil {
		return nil, errors.Join(err, own.Close(), removeIfThere(a.fs, tmp))
	}
	a.touched.addReplaced(name)
	return own, nil
}

func (a *applier) fillCopy(own, f vfs.File, in vfs.Info, tmp, name string) error {
	if err := a.copyBytes(own, f, in.Size); err != nil {
		return err
	}
	if err := a.fs.Chmod(tmp, in.Mode.Perm()); err != nil {
		return err
	}
	return a.rename(own, tmp, name)
}

// rename syncs f, which is open as tmp, and gives it its name.
func (a *applier) rename(f vfs.File, tmp, name string) error {
	if err := f.Sync(); err != nil {
		return &SyncError{name, err}
	}
	if err := a.fs.Rename(tmp, name); err != nil {
		return err
	}
	a.touched.addDir(vfs.Dir(name))
	return nil
}

// replace gives a file its new content by rename. Without a sync: the content
// is in the record, and what a power cut leaves is replaced again.
func (a *applier) replace(w *Write) (err error) {
	if err := a.makeParents(w.Path, nil); err != nil {
		return err
	}
	tmp := vfs.TempName(w.Path)
	if err := a.writeReplacement(tmp, w); err != nil {
		return errors.Join(err, removeIfThere(a.fs, tmp))
	}
	if err := a.fs.Rename(tmp, w.Path); err != nil {
		return errors.Join(err, removeIfThere(a.fs, tmp))
	}
	a.touched.addDir(vfs.Dir(w.Path))
	a.touched.addReplaced(w.Path)
	return nil
}

func (a *applier) writeReplacement(tmp string, w *Write) (err error) {
	f, err := a.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := a.write(f, w, 0); err != nil {
		return err
	}
	return a.keepMode(w.Path, tmp, f)
}

// keepMode gives tmp the mode of the file that it will replace, or that of a
// new file.
func (a *applier) keepMode(name, tmp string, f vfs.File) error {
	was, err := a.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return a.modes.fixFile(a.fs, tmp, f)
	}
	if err != nil {
		return err
	}
	return a.fs.Chmod(tmp, was.Mode.Perm())
}
