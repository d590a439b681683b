package overlay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vcsd/internal/vfs"
)

const (
	// keepBytes is from which size on a copy is kept for the next use.
	keepBytes = 256 << 10

	// tailBytes are compared to find out whether a copy still has the bytes of
	// the real file.
	tailBytes = 4096
)

// A kept file is a copy of the first common bytes of a real one. What follows
// is of an earlier use.
type kept struct {
	dev, ino uint64 // of the real file
	own      uint64 // inode of the copy
	common   int64
}

func (v *View) keptDir() string { return filepath.Join(v.dir, "kept") }

// keptName is where a large copy waits for its next use.
func (v *View) keptName(k kept) string {
	return filepath.Join(v.keptDir(), strconv.FormatUint(k.own, 16))
}

// provide gives the View a file of its own in place of the link.
func (v *View) provide(f File) error {
	if !validPath(f.Path) || f.Keep < 0 {
		return fmt.Errorf("%q with %d bytes can't be part of a view", f.Path, f.Keep)
	}
	in, err := v.fs.Lstat(v.hg(f.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v.provided[f.Path] = err == nil && in.Mode&fs.ModeSymlink != 0
	if err := v.removeIfThere(v.hg(f.Path)); err != nil {
		return err
	}
	if f.Keep == 0 {
		return nil
	}
	if err := v.copy(f); err != nil {
		return fmt.Errorf("%q: %w", f.Path, err)
	}
	return nil
}

func validPath(name string) bool {
	return filepath.IsLocal(name) && name == path.Clean(name) && name != storeLock &&
		(strings.HasPrefix(name, store+"/") || name == "bookmarks")
}

// copy makes the View's own copy of the first f.Keep bytes of a real file.
func (v *View) copy(f File) (err error) {
	src, err := v.fs.Open(v.shared(f.Path))
	if err != nil {
		return err
	}
	defer src.Close() // read only
	in, err := src.Stat()
	if err != nil {
		return err
	}
	if in.Size < f.Keep {
		return fmt.Errorf("%w: it has %d bytes instead of %d", ErrMoved, in.Size, f.Keep)
	}
	if err := checkInline(f, src); err != nil {
		return err
	}
	k, dst, err := v.start(f, src, in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := fill(dst, src, k.common, f.Keep); err != nil {
		return err
	}
	k.common = f.Keep
	v.copies[f.Path] = k
	return nil
}

// start opens the View's copy of a file, and tells which of its bytes are
// right already.
func (v *View) start(f File, src vfs.File, in vfs.Info) (k kept, dst vfs.File, err error) {
	k, ok := v.kept[f.Path]
	delete(v.kept, f.Path)
	if ok {
		k.common = min(k.common, f.Keep)
		if ok, err = v.reuse(f, k, src, in); err != nil {
			return k, nil, err
		}
	}
	if ok {
		dst, err = v.fs.OpenWrite(v.hg(f.Path))
		return k, dst, err
	}
	if dst, err = v.fs.Create(v.hg(f.Path)); err != nil {
		return k, nil, err
	}
	own, err := dst.Stat()
	return kept{dev: in.Dev, ino: in.Ino, own: own.Ino}, dst, err
}

// reuse puts a kept copy in place, or removes it if it isn't of this file.
func (v *View) reuse(f File, k kept, src vfs.File, in vfs.Info) (bool, error) {
	name := v.keptName(k)
	same := k.dev == in.Dev && k.ino == in.Ino
	if same {
		var err error
		if same, err = v.sameTail(name, src, k.common); err != nil {
			return false, err
		}
	}
	if !same {
		return false, v.removeIfThere(name)
	}
	return true, v.fs.Rename(name, v.hg(f.Path))
}

// sameTail compares the last bytes below end of a copy and its source.
func (v *View) sameTail(name string, src vfs.File, end int64) (bool, error) {
	dst, err := v.fs.Open(name)
	if err != nil {
		return false, err
	}
	defer dst.Close() // read only
	n := min(end, tailBytes)
	a, b := make([]byte, n), make([]byte, n)
	for _, r := range []struct {
		f vfs.File
		b []byte
	}{{dst, a}, {src, b}} {
		if _, err := r.f.ReadAt(r.b, end-n); err != nil && err != io.EOF {
			return false, err
		}
	}
	return bytes.Equal(a, b), nil
}

// fill makes dst, whose first from bytes are right, the first end bytes of src.
// Where the file system can, a whole copy shares the blocks.
func fill(dst, src vfs.File, from, end int64) error {
	to, of := vfs.OSFile(dst), vfs.OSFile(src)
	if to == nil || of == nil {
		return errors.New("no file of the operating system")
	}
	if from == 0 && unix.IoctlFileClone(int(to.Fd()), int(of.Fd())) == nil {
		return to.Truncate(end)
	}
	if err := to.Truncate(from); err != nil {
		return err
	}
	for _, f := range []io.Seeker{to, of} {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.Copy(to, io.LimitReader(of, end-from))
	if err == nil && n < end-from {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// The header of a revlog, big-endian, in the first 4 bytes of its index. Source:
// hg help internals.revlogs.
const (
	headerSize = 4
	flagInline = 1 << 16
)

// checkInline tells whether a revlog's index still is of the kind that the
// pushed writes are for.
func checkInline(f File, src io.ReaderAt) error {
	if !strings.HasSuffix(f.Path, ".i") || f.Keep < headerSize {
		return nil
	}
	var h [headerSize]byte
	if _, err := src.ReadAt(h[:], 0); err != nil {
		return err
	}
	if inline := binary.BigEndian.Uint32(h[:])&flagInline != 0; inline != f.Inline {
		return fmt.Errorf("%w: the revlog was split or rewritten", ErrMoved)
	}
	return nil
}

// keep puts large copies aside, unless they have been replaced.
func (v *View) keep() error {
	for name, k := range v.copies {
		in, err := v.fs.Lstat(v.hg(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if in.Ino != k.own || k.common < keepBytes {
			continue
		}
		if err := v.fs.Rename(v.hg(name), v.keptName(k)); err != nil {
			return err
		}
		v.kept[name] = k
	}
	clear(v.copies)
	return nil
}

// restore puts the links back in place of the View's own files.
func (v *View) restore() error {
	for name, wasLink := range v.provided {
		if err := v.removeIfThere(v.hg(name)); err != nil {
			return err
		}
		dir, base := path.Split(name)
		if dir = path.Clean(dir); !v.has(dir) {
			v.soil(dir)
		} else if wasLink {
			if err := v.pool.link(realLink+"/"+base, v.hg(name)); err != nil {
				return err
			}
		}
	}
	clear(v.provided)
	return nil
}

// soil notes that something was made in dir, which the real store lacks, so
// that the directory above it has to be listed again.
func (v *View) soil(dir string) {
	for ; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if v.has(dir) {
			v.dirs[dir] = time.Time{}
			return
		}
	}
}
