package changegroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"vcsd/hg"
)

var emptyChunk [lengthLen]byte

var (
	errOpenGroup = errors.New("a group is open")
	errNoGroup   = errors.New("no group is open")
	errOrder     = errors.New("groups out of order")
	errClosed    = errors.New("writer is closed")
)

// A Writer writes a changegroup: StartChangelog, WriteDelta..., EndGroup, the
// same with StartManifest and then StartFile for each file, Close. Groups of
// changelog and manifest that were left out are written empty. Any error is
// final. A header, its length before it, is one Write; each part of a delta
// another: give it a buffered writer.
type Writer struct {
	w io.Writer
	v Version

	kind    Kind // of the group written last
	inGroup bool
	first   bool    // no delta has been written to the group
	prev    hg.Node // the revision written last to the group
	err     error   // sticky
	head    [lengthLen + headerLen03]byte
}

// NewWriter returns a Writer of a changegroup to w.
func NewWriter(w io.Writer, v Version) *Writer { return &Writer{w: w, v: v} }

// StartChangelog starts the changelog's group. It must be the first.
func (w *Writer) StartChangelog() error { return w.start(Changelog) }

// StartManifest starts the manifest's group.
func (w *Writer) StartManifest() error { return w.start(Manifest) }

// StartFile starts the group of a file, which must get a delta.
func (w *Writer) StartFile(path string) error {
	if err := w.start(File); err != nil {
		return err
	}
	if path == "" || len(path) > math.MaxInt32-lengthLen {
		return w.fail(fmt.Errorf("path of %d bytes", len(path)))
	}
	b := binary.BigEndian.AppendUint32(w.head[:0], uint32(lengthLen+len(path)))
	w.write(b)
	w.writeString(path)
	return w.err
}

// start opens a group, after ending the segments before it.
func (w *Writer) start(k Kind) error {
	switch {
	case w.err != nil:
		return w.err
	case w.inGroup:
		return w.fail(errOpenGroup)
	case k < w.kind || k == w.kind && k != File:
		return w.fail(errOrder)
	}
	w.advance(k)
	w.kind, w.inGroup, w.first = k, true, true
	return w.err
}

// advance writes what lies between the groups written and those of kind k:
// groups left out, and the empty segment of trees.
func (w *Writer) advance(k Kind) {
	for next := w.kind + 1; next < k; next++ {
		if next != Tree || w.v == V03 {
			w.write(emptyChunk[:])
		}
	}
}

// WriteDelta writes a revision, whose delta is the concatenation of parts. In
// version 01, h.Base must be the base that the reader will assume; flags can
// be sent in version 03 only.
func (w *Writer) WriteDelta(h Header, parts ...[]byte) error {
	if err := w.check(&h); err != nil {
		return w.fail(err)
	}
	n := int64(lengthLen + w.v.headerLen())
	for _, p := range parts {
		n += int64(len(p))
	}
	if n > math.MaxInt32 {
		return w.fail(fmt.Errorf("delta to %s of %d bytes: %w", h.Node, n, hg.ErrTooLarge))
	}
	b := binary.BigEndian.AppendUint32(w.head[:0], uint32(n))
	w.write(h.append(w.v, b))
	for _, p := range parts {
		w.write(p)
	}
	w.prev, w.first = h.Node, false
	return w.err
}

// check tells whether the version can express h here.
func (w *Writer) check(h *Header) error {
	if w.err == nil && !w.inGroup {
		return errNoGroup
	}
	if w.v != V03 && h.Flags != 0 {
		return fmt.Errorf("flags %#x of %s in changegroup version %s", h.Flags, h.Node, w.v)
	}
	if w.v != V01 {
		return nil
	}
	want := w.prev
	if w.first {
		want = h.P1
	}
	if h.Base != want {
		return fmt.Errorf("base %s of %s in changegroup version 01, want %s", h.Base, h.Node, want)
	}
	return nil
}

// EndGroup ends the open group.
func (w *Writer) EndGroup() error {
	switch {
	case w.err != nil:
		return w.err
	case !w.inGroup:
		return w.fail(errNoGroup)
	case w.first && w.kind == File:
		return w.fail(errors.New("group of a file has no delta"))
	}
	w.inGroup = false
	w.write(emptyChunk[:])
	return w.err
}

// Close ends the changegroup. It doesn't close or flush the writer below.
func (w *Writer) Close() error {
	switch {
	case w.err == errClosed:
		return nil
	case w.err != nil:
		return w.err
	case w.inGroup:
		return w.fail(errOpenGroup)
	}
	w.advance(File)
	w.write(emptyChunk[:])
	if w.err != nil {
		return w.err
	}
	w.err = errClosed
	return nil
}

func (w *Writer) write(b []byte) {
	if w.err == nil && len(b) > 0 {
		_, w.err = w.w.Write(b)
	}
}

func (w *Writer) writeString(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

// fail makes err final, unless there was one before.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write changegroup: %w", err)
	}
	return w.err
}
