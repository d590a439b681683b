package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// Version 1 revlog index entry, big-endian; only what a split needs. In the
// first entry the header takes the place of the upper offset bytes. Source: hg
// help internals.revlogs.
const (
	entrySize      = 64
	offHeader      = 0 // 4 bytes, first entry only: flags and version
	offChunkLength = 8 // 4 bytes: stored length of the revision's chunk

	flagInline    = 1 << 16
	versionMask   = 0xffff
	revlogV1      = 1
	maxSplitBytes = 1 << 30 // hg and vcsd split at 128 KiB
)

var (
	errNoRevlog   = errors.New("not a version 1 revlog")
	errEntryAhead = errors.New("an index entry points past the end")
)

// isSplit reports whether the revlog at name keeps its data apart. A file that
// is too short or empty to tell is not split: a split one is complete before
// it gets its name.
func (a *applier) isSplit(name string) (split bool, err error) {
	f, err := a.fs.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := f.Stat()
	if err != nil || in.Size < entrySize {
		return false, err
	}
	var h [4]byte
	if err := readFullAt(f, h[:], offHeader); err != nil {
		return false, err
	}
	v := binary.BigEndian.Uint32(h[:])
	return v&versionMask == revlogV1 && v&flagInline == 0, nil
}

// halves are an inline revlog taken apart.
type halves struct {
	index, data []byte
	mode        fs.FileMode
}

// readInline reads the w.Length bytes of an inline revlog.
func (a *applier) readInline(w *Write) (*halves, error) {
	if w.Length > maxSplitBytes {
		return nil, &CorruptError{w.Path, fmt.Errorf("inline revlog of %d bytes", w.Length)}
	}
	b, err := vfs.ReadFile(a.fs, w.Path, w.Length)
	if err != nil {
		return nil, err
	}
	in, err := a.fs.Stat(w.Path)
	if err != nil {
		return nil, err
	}
	h, err := splitInline(b)
	if err == nil && int64(len(b)) != w.Length {
		err = errShort
	}
	if err != nil {
		return nil, &CorruptError{w.Path, err}
	}
	h.mode = in.Mode.Perm()
	return h, nil
}

// splitInline takes an inline revlog apart. The entries' offsets already count
// the data alone, so only the header changes.
func splitInline(b []byte) (*halves, error) {
	if len(b) < entrySize {
		return nil, errShort
	}
	v := binary.BigEndian.Uint32(b[offHeader:])
	if v&versionMask != revlogV1 || v&flagInline == 0 {
		return nil, errNoRevlog
	}
	h := &halves{}
	for len(b) > 0 {
		if len(b) < entrySize {
			return nil, errShort
		}
		n := int64(binary.BigEndian.Uint32(b[offChunkLength:]))
		if n > int64(len(b)-entrySize) {
			return nil, errEntryAhead
		}
		h.index = append(h.index, b[:entrySize]...)
		h.data = append(h.data, b[entrySize:entrySize+n]...)
		b = b[entrySize+n:]
	}
	binary.BigEndian.PutUint32(h.index[offHeader:], v&^flagInline)
	return h, nil
}

// split divides an inline revlog.
//
// Order: write and sync both halves under temporary names; rename the data;
// sync its directory; rename the index. An index that says "split" therefore
// always finds its data. Until then the old file is complete, and data that no
// index names are replaced when the split is done again.
func (a *applier) split(w *Write) error {
	h, err := a.readInline(w)
	if err != nil {
		return err
	}
	syncParent := func(dir string) error { return a.syncDir(vfs.Dir(dir)) }
	if err := a.makeParents(w.DataPath, syncParent); err != nil {
		return err
	}
	if err := a.installHalf(w.DataPath, h.data, h.mode); err != nil {
		return err
	}
	if err := a.syncDir(vfs.Dir(w.DataPath)); err != nil {
		return err
	}
	if err := a.installHalf(w.Path, h.index, h.mode); err != nil {
		return err
	}
	a.touched.addReplaced(w.Path)
	a.touched.addReplaced(w.DataPath)
	return nil
}

func (a *applier) installHalf(name string, b []byte, mode fs.FileMode) (err error) {
	tmp := vfs.TempName(name)
	f, err := a.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = func() error {
		if _, err := f.WriteAt(b, 0); err != nil {
			return err
		}
		if err := a.fs.Chmod(tmp, mode); err != nil {
			return err
		}
		return a.rename(f, tmp, name)
	}()
	if err != nil {
		return errors.Join(err, removeIfThere(a.fs, tmp))
	}
	return nil
}

func (a *applier) syncDir(dir string) error {
	if err := a.fs.SyncDir(dir); err != nil {
		return &SyncError{dir, err}
	}
	return nil
}
