package quarantine

import (
	"errors"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"

	"vcsd/internal/vfs"
)

// entry is a payload's directory, which several Dirs may share.
type entry struct {
	a      *Area  // constant
	digest Digest // constant
	size   int64  // constant: of the payload
	path   string // constant
	refs   int    // guarded by a.mu

	held atomic.Int64 // bytes of the payload and its segments
}

// A Dir is one receiver's hold on a payload's directory. Until Release, and as
// long as a function that Do runs for the digest, the directory stays.
type Dir struct {
	e        *entry
	segment  string // path of the last segment made
	released sync.Once
}

// Digest returns the payload's digest.
func (d *Dir) Digest() Digest { return d.e.digest }

// Size returns the payload's length in bytes.
func (d *Dir) Size() int64 { return d.e.size }

// Path returns the directory, as the area's file system names it.
func (d *Dir) Path() string { return d.e.path }

// OpenPayload opens the payload for reading from its beginning.
func (d *Dir) OpenPayload() (vfs.File, error) {
	return d.e.a.fs.Open(path.Join(d.e.path, payloadName))
}

// CreateSegment makes a new file in the directory for staged bytes. What is
// written to it counts for the quota.
func (d *Dir) CreateSegment() (vfs.File, error) {
	name := path.Join(d.e.path, d.e.a.newName("segment-"))
	f, err := d.e.a.fs.Create(name)
	if err != nil {
		return nil, err
	}
	d.segment = name
	return &segmentFile{File: f, e: d.e}, nil
}

// OpenSegment opens the segment that CreateSegment made last, for reading.
func (d *Dir) OpenSegment() (vfs.File, error) {
	if d.segment == "" {
		return nil, &fs.PathError{Op: "open segment", Path: d.e.path, Err: fs.ErrNotExist}
	}
	return d.e.a.fs.Open(d.segment)
}

// SegmentPath returns the name of the segment that CreateSegment made last, as
// the area's file system knows it. It is empty if there is none.
func (d *Dir) SegmentPath() string { return d.segment }

// Release gives up the directory; the last one to do so removes it. More calls
// do nothing.
func (d *Dir) Release() (err error) {
	d.released.Do(func() { err = d.e.a.release(d.e) })
	return err
}

// release drops one reference.
func (a *Area) release(e *entry) error {
	gone, err := a.detach(e)
	if gone == "" || err != nil {
		return err
	}
	return a.fs.RemoveAll(gone)
}

// detach drops one reference. If it was the last, the directory is moved aside,
// so that an equal payload can take its name while it is being removed.
func (a *Area) detach(e *entry) (gone string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.refs--
	if e.refs > 0 || a.closed {
		return "", nil
	}
	delete(a.entries, e.digest)
	a.held.Add(-e.held.Load())
	gone = path.Join(a.dir, a.newName("gone-"))
	if err := a.fs.Rename(e.path, gone); err != nil {
		return "", errors.Join(err, a.fs.RemoveAll(e.path))
	}
	return gone, nil
}

// segmentFile counts what a segment takes of the quota.
type segmentFile struct {
	vfs.File
	e   *entry
	pos int64 // of Write
	end int64 // bytes accounted for
}

// Unwrap returns the file inside.
func (f *segmentFile) Unwrap() vfs.File { return f.File }

func (f *segmentFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *segmentFile) WriteAt(b []byte, off int64) (int, error) {
	if more := off + int64(len(b)) - f.end; more > 0 {
		if err := f.e.a.hold(more); err != nil {
			return 0, err
		}
		f.e.held.Add(more)
		f.end += more
	}
	return f.File.WriteAt(b, off)
}

func (f *segmentFile) Seek(off int64, whence int) (int64, error) {
	at, err := f.File.Seek(off, whence)
	if err == nil {
		f.pos = at
	}
	return at, err
}
