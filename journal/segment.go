package journal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"vcsd/internal/vfs"
)

// segmentIDBytes are the random bytes in a segment's name.
const segmentIDBytes = 16

func newSegmentName() string {
	var b [segmentIDBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:]) + segmentSuffix
}

// validSegmentName checks a name before it becomes part of a path.
func validSegmentName(name string) error {
	id, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(id) != 2*segmentIDBytes || strings.Trim(id, "0123456789abcdef") != "" {
		return fmt.Errorf("segment name %q is malformed", name)
	}
	return nil
}

// AdoptSegment takes the file from, a name in the journal's file system, into
// the journal, and returns the segment's name. The file stays where it is and
// must not be written any more. Records may name the segment at once; Prune
// removes it if none does.
//
// Order: sync the file, then link it. Where it can't be linked, as the journal
// is on another file system, it is copied and the copy synced. The name is
// durable after the Put of the record that uses it.
func (j *Journal) AdoptSegment(from string) (string, error) {
	if err := j.Err(); err != nil {
		return "", err
	}
	name := newSegmentName()
	if err := j.adopt(from, name); err != nil {
		return "", fmt.Errorf("adopt segment %q: %w", from, err)
	}
	return name, nil
}

func (j *Journal) adopt(from, name string) (err error) {
	f, err := j.fs.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := j.synced(from, f.Sync()); err != nil {
		return err
	}
	err = j.fs.Link(from, j.path(name))
	if !cantLink(err) {
		return err
	}
	w, err := j.CreateSegment()
	if err != nil {
		return err
	}
	w.name = name
	if _, err := io.Copy(w, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return errors.Join(err, w.Abort())
	}
	_, err = w.Finish()
	return err
}

func cantLink(err error) bool {
	for _, e := range []error{syscall.EXDEV, syscall.EPERM, syscall.EMLINK, syscall.ENOTSUP, syscall.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A SegmentWriter writes a new segment from front to back. It belongs to one
// goroutine.
type SegmentWriter struct {
	j         *Journal
	f         vfs.File
	tmp, name string
	n         int64
}

// CreateSegment begins a segment. Finish or Abort must follow.
func (j *Journal) CreateSegment() (*SegmentWriter, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	name := newSegmentName()
	tmp := vfs.TempName(j.path(name))
	f, err := j.fs.Create(tmp)
	if err != nil {
		return nil, err
	}
	return &SegmentWriter{j: j, f: f, tmp: tmp, name: name}, nil
}

// Write appends to the segment.
func (w *SegmentWriter) Write(b []byte) (int, error) {
	n, err := w.f.WriteAt(b, w.n)
	w.n += int64(n)
	return n, err
}

// Size returns the segment's length so far.
func (w *SegmentWriter) Size() int64 { return w.n }

// Finish syncs the segment and gives it its name, which it returns. As with
// AdoptSegment, Put makes the name durable.
func (w *SegmentWriter) Finish() (string, error) {
	err := w.j.synced(w.tmp, w.f.Sync())
	err = errors.Join(err, w.f.Close())
	if err == nil {
		err = w.j.fs.Rename(w.tmp, w.j.path(w.name))
	}
	if err != nil {
		return "", errors.Join(err, removeIfThere(w.j.fs, w.tmp))
	}
	return w.name, nil
}

// Abort removes the segment.
func (w *SegmentWriter) Abort() error {
	return errors.Join(w.f.Close(), removeIfThere(w.j.fs, w.tmp))
}

// OpenSegment opens a segment for reading. A missing one is fs.ErrNotExist.
func (j *Journal) OpenSegment(name string) (vfs.File, error) {
	if err := validSegmentName(name); err != nil {
		return nil, err
	}
	return j.fs.Open(j.path(name))
}

// checkSegments refuses a record whose segments don't hold what it names.
func (j *Journal) checkSegments(r *Record) error {
	need := make(map[string]int64)
	for i := range r.Writes {
		for _, p := range r.Writes[i].Parts {
			if p.Segment != "" {
				need[p.Segment] = max(need[p.Segment], p.Offset+p.Length)
			}
		}
	}
	for name, size := range need {
		in, err := j.fs.Stat(j.path(name))
		if err != nil {
			return err
		}
		if in.Size < size {
			return fmt.Errorf("segment %s has %d bytes, want %d", name, in.Size, size)
		}
	}
	return nil
}

// spillPartBytes is the shortest literal that is worth a range in a segment.
const spillPartBytes = 256

// spill returns r, or if it carries too many literal bytes a copy of it that
// has them in a segment of its own.
func (j *Journal) spill(r *Record) (*Record, error) {
	var literal int64
	for i := range r.Writes {
		for k := range r.Writes[i].Parts {
			literal += int64(len(r.Writes[i].Parts[k].Data))
		}
	}
	if literal <= j.o.MaxInlineBytes {
		return r, nil
	}
	w, err := j.CreateSegment()
	if err != nil {
		return nil, err
	}
	moved, err := moveLiterals(r, w)
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	_, err = w.Finish()
	return moved, err
}

// moveLiterals copies a record, with its longer literals written to w.
func moveLiterals(r *Record, w *SegmentWriter) (*Record, error) {
	moved := *r
	moved.Writes = make([]Write, len(r.Writes))
	for i, wr := range r.Writes {
		parts := make([]Part, len(wr.Parts))
		for k, p := range wr.Parts {
			if len(p.Data) >= spillPartBytes {
				at := w.Size()
				if _, err := w.Write(p.Data); err != nil {
					return nil, err
				}
				p = Part{Segment: w.name, Offset: at, Length: int64(len(p.Data))}
			}
			parts[k] = p
		}
		wr.Parts = parts
		moved.Writes[i] = wr
	}
	return &moved, nil
}
