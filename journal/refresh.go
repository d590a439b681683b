package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// Refresh writes again what target holds of the record's writes, with the same
// bytes. After a sync that failed, or whose result nobody saw, the pages of a
// file count as clean though they may not be on the disk: a further sync of them
// succeeds and saves nothing, until they have been written anew. The caller holds
// the store's lock. It returns the files and directories to sync, also with an
// error.
//
// What is missing in target, and what differs from the record otherwise than by
// zeros, stays as it is: it was not written yet, or a local hg changed it since.
// The halves of a split revlog were synced before they got their names.
func (j *Journal) Refresh(r *Record, target vfs.FS) (*Touched, error) {
	a := j.newApplier(target, ApplyOptions{})
	err := a.refresh(r)
	err = errors.Join(err, a.close())
	if err != nil {
		err = fmt.Errorf("write record %d again: %w", r.Seq, err)
	}
	a.touched.Merge(TouchedFiles(r.Files()...))
	return a.touched, err
}

func (a *applier) refresh(r *Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	for i := range r.Writes {
		w := &r.Writes[i]
		n, err := a.held(w)
		if err == nil && n > 0 {
			err = a.rewrite(w, n)
		}
		if err != nil {
			return fmt.Errorf("%v %q: %w", w.Op, w.Path, err)
		}
	}
	return nil
}

// held returns how many bytes of w, from its first on, stand in the file, of
// which some may be zeros. It is 0 if the place holds something else.
func (a *applier) held(w *Write) (int64, error) {
	in, err := a.fs.Stat(w.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil || w.Op == Split {
		return 0, err
	}
	if w.Op == AppendInline {
		if done, err := a.isSplit(w.Path); err != nil || done {
			return 0, err
		}
	}
	n := min(in.Size-w.Offset, w.Length)
	if n <= 0 {
		return 0, nil
	}
	_, err = a.compare(w, n)
	// Nothing but the conflict: what else went wrong is joined to it.
	if _, differs := err.(*ConflictError); differs {
		return 0, nil
	}
	return n, err
}

// rewrite writes the first n bytes of w where they stand already. Readers see no
// difference, so that a file that was replaced whole needs no second replacement.
func (a *applier) rewrite(w *Write, n int64) (err error) {
	if err := a.checkSum(w); err != nil {
		return err
	}
	f, err := a.fs.OpenWrite(w.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a.buf = atLeast(a.buf, n)
	g := gather{f: f, at: w.Offset, buf: a.buf[:0]}
	err = a.sources.walk(w.Parts, 0, func(b []byte) error {
		if n == 0 {
			return errStop
		}
		b = b[:min(int64(len(b)), n)]
		n -= int64(len(b))
		return g.add(b)
	})
	if err != nil && err != errStop {
		return err
	}
	return g.flush()
}

// RefreshFiles writes all bytes of files again where they stand, for those that
// no record has; see Refresh. A file that is gone is passed over. The caller holds
// the store's lock.
func RefreshFiles(target vfs.FS, names []string) error {
	a := &applier{fs: target}
	for _, name := range names {
		if err := a.rewriteFile(name); err != nil {
			return fmt.Errorf("write %q again: %w", name, err)
		}
	}
	return nil
}

func (a *applier) rewriteFile(name string) (err error) {
	in, err := a.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := a.fs.OpenWrite(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return a.copyBytes(f, f, in.Size)
}
