package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"vcsd/internal/vfs"
)

// ampleBytes is how much free space makes it needless to claim any.
const ampleBytes = 256 << 20

// Reserve makes sure, before the record is published, that target has space for
// its writes: it returns syscall.ENOSPC, wrapped, if not, and syscall.EFBIG if a
// file would get larger than this process may write. It changes no length and
// makes no file. On a disk with plenty of space it claims none.
func (j *Journal) Reserve(r *Record, target vfs.FS) error {
	if err := checkFileSizes(r); err != nil {
		return fmt.Errorf("reserve space for record %d: %w", r.Seq, err)
	}
	ends, fresh, err := growth(r, target)
	if err != nil {
		return fmt.Errorf("reserve space for record %d: %w", r.Seq, err)
	}
	need := fresh
	for _, e := range ends {
		need += e.more
	}
	free, err := target.Free("")
	if err != nil {
		return fmt.Errorf("reserve space for record %d: %w", r.Seq, err)
	}
	if free < need {
		return fmt.Errorf("reserve space for record %d: %d bytes free, want %d: %w", r.Seq, free, need, syscall.ENOSPC)
	}
	if free-need >= ampleBytes {
		return nil
	}
	for name, e := range ends {
		if err := claim(target, name, e.end); err != nil {
			return fmt.Errorf("reserve space for record %d: %w", r.Seq, err)
		}
	}
	return nil
}

// checkFileSizes refuses what would fail only when the record is published.
func checkFileSizes(r *Record) error {
	limit, err := vfs.MaxFileBytes()
	if err != nil {
		return err
	}
	for i := range r.Writes {
		if w := &r.Writes[i]; w.Offset+w.Length > limit {
			return fmt.Errorf("%q, %d bytes, limit %d: %w", w.Path, w.Offset+w.Length, limit, syscall.EFBIG)
		}
	}
	return nil
}

// fileEnd is an existing file that grows.
type fileEnd struct{ end, more int64 }

// blockBytes is what a new file takes at least, its name included.
const blockBytes = 8 << 10

// growth returns how far existing files grow, and how many bytes go to files
// that are made anew.
func growth(r *Record, target vfs.FS) (ends map[string]fileEnd, fresh int64, err error) {
	ends = make(map[string]fileEnd)
	for i := range r.Writes {
		w := &r.Writes[i]
		in, err := target.Stat(w.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, 0, err
		}
		if err != nil || w.Op == Replace || w.Op == Split || in.Nlink > 1 {
			fresh += w.Length + in.Size + blockBytes
			continue
		}
		if end := w.Offset + w.Length; end > max(in.Size, ends[w.Path].end) {
			ends[w.Path] = fileEnd{end, end - in.Size}
		}
	}
	return ends, fresh, nil
}

func claim(target vfs.FS, name string, size int64) (err error) {
	f, err := target.OpenWrite(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Reserve(size)
}
