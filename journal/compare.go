package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// Compare reports where target does not hold the bytes that the record appended,
// and what of the record can't be read. Files that are replaced whole are left
// out, as later records replace them, and so are appends to what skip names and to
// logs that were split since. An error is one of reading target.
func (j *Journal) Compare(r *Record, target vfs.FS, skip func(path string) bool, report func(error)) (err error) {
	a := j.newApplier(target, ApplyOptions{})
	defer func() { err = errors.Join(err, a.close()) }()
	for i := range r.Writes {
		w := &r.Writes[i]
		if w.Op == Split {
			continue
		}
		if err := a.checkSum(w); err != nil {
			report(fmt.Errorf("bytes for %q: %w", w.Path, err))
			continue
		}
		if w.Op == Replace || skip(w.Path) {
			continue
		}
		if err := a.compareWhole(w, report); err != nil {
			return err
		}
	}
	return nil
}

// compareWhole compares the bytes of an append with those of its file.
func (a *applier) compareWhole(w *Write, report func(error)) error {
	info, err := a.fs.Stat(w.Path)
	if errors.Is(err, fs.ErrNotExist) {
		report(&CorruptError{w.Path, err})
		return nil
	}
	if err != nil {
		return err
	}
	if w.Op == AppendInline {
		if split, err := a.isSplit(w.Path); err != nil || split {
			return err
		}
	}
	end := w.Offset + w.Length
	if info.Size < end {
		report(&ConflictError{w.Path, info.Size, ErrGap})
		return nil
	}
	from, err := a.compare(w, w.Length)
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		report(conflict)
	case err != nil:
		return err
	case from < end:
		report(&ConflictError{w.Path, from, ErrDiffers})
	}
	return nil
}
