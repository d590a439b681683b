package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"vcsd/internal/bigbuf"
)

// growBytes is the least that a piece grows by while its end is not known to
// come. Beyond that it grows by a quarter of what has arrived.
const growBytes = 64 << 10

// A Reader reads exact pieces of a stream and counts them.
type Reader struct {
	// Stream names the stream in errors. It may be changed at any time.
	Stream string

	// Bound returns how many bytes the source can still yield at most, -1 if
	// nobody knows. Nil is as if it always returned -1. A piece that can come is
	// read into memory of its size.
	Bound func() int64

	r       io.Reader // buffered: pieces may be as small as 4 bytes
	off     int64     // bytes read so far
	scratch [4]byte   // for Int32; here, so that it doesn't escape each time
}

// NewReader returns a Reader of r, which ought to be buffered.
func NewReader(r io.Reader, stream string) *Reader {
	return &Reader{Stream: stream, r: r}
}

// Offset returns the number of bytes read so far.
func (r *Reader) Offset() int64 { return r.off }

// Source returns what r reads from.
func (r *Reader) Source() io.Reader { return r.r }

// Swap makes r go on with another source, as after the header that announces
// compression. Offsets count on; Bound is forgotten.
func (r *Reader) Swap(src io.Reader) { r.r, r.Bound = src, nil }

// Full fills p. A stream that ends before that is an *Error.
func (r *Reader) Full(p []byte) error {
	n, err := io.ReadFull(r.r, p)
	r.off += int64(n)
	if err != nil {
		return r.fail(err, " ", int64(n), int64(len(p)))
	}
	return nil
}

// Int32 reads a big-endian signed integer.
func (r *Reader) Int32() (int32, error) {
	if err := r.Full(r.scratch[:]); err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(r.scratch[:])), nil
}

// Next returns the next n bytes, in buf if there is room. Memory is made for
// bytes that have arrived or that Bound allows, not for the promise of them: a
// stream that ends inside the piece has cost 5/4 of what came, and a step.
func (r *Reader) Next(buf []byte, n int) ([]byte, error) {
	if cap(buf) > bigbuf.Cap(bigbuf.Min) && n < cap(buf)/4 {
		buf = nil // once it was needed; that may never be again
	}
	if cap(buf) >= n || n <= growBytes || r.comes(n) {
		return r.whole(room(buf, n), n)
	}
	return r.grown(buf[:cap(buf)], n)
}

// comes tells whether n bytes may still come, for all that is known.
func (r *Reader) comes(n int) bool {
	return r.Bound != nil && int64(n) <= r.Bound()
}

// room returns buf if it holds n bytes, or a new one.
func room(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf
	}
	if n < bigbuf.Min {
		return make([]byte, n, n+n/4) // the next one may be somewhat longer
	}
	return bigbuf.Make(n)
}

// whole reads n bytes into buf.
func (r *Reader) whole(buf []byte, n int) ([]byte, error) {
	got, err := io.ReadFull(r.r, buf[:n])
	r.off += int64(got)
	if err != nil {
		return buf[:0], r.fail(err, " ", int64(got), int64(n))
	}
	return buf[:n], nil
}

// grown reads n bytes step by step, the first into buf, and joins them when all
// are there. Growing one buffer would hold two of them while it is copied.
func (r *Reader) grown(buf []byte, n int) ([]byte, error) {
	var steps [][]byte
	for have := 0; have < n; {
		if len(buf) == 0 {
			buf = make([]byte, max(growBytes, have/4))
		}
		buf = buf[:min(len(buf), n-have)]
		got, err := io.ReadFull(r.r, buf)
		r.off += int64(got)
		have += got
		if err != nil {
			return nil, r.fail(err, " ", int64(have), int64(n))
		}
		steps, buf = append(steps, buf), nil
	}
	whole := room(nil, n)[:0]
	for _, step := range steps {
		whole = append(whole, step...)
	}
	return whole, nil
}

// Some reads up to len(p) bytes of a piece of want bytes of which got have
// been read. The end of the stream is an *Error.
func (r *Reader) Some(p []byte, got, want int64) (int, error) {
	n, err := r.r.Read(p[:min(int64(len(p)), want-got)])
	r.off += int64(n)
	if err == nil || n > 0 && err == io.EOF {
		return n, nil
	}
	return n, r.fail(err, "  ", got+int64(n), want)
}

// fail makes err one that names the place; the end of the stream becomes
// hg's sentence about it. An Error of a stream that encloses this one stays as
// it is: it knows better what ended.
func (r *Reader) fail(err error, gap string, got, want int64) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return truncated(r.Stream, r.off, gap, got, want)
	}
	if outer := (*Error)(nil); errors.As(err, &outer) {
		return err
	}
	return fmt.Errorf("%s, byte %d: %w", r.Stream, r.off, err)
}

// Malformed returns an Error at the present place.
func (r *Reader) Malformed(format string, args ...any) error {
	return Malformed(r.Stream, r.off, format, args...)
}

// TooLarge returns an Error at the present place, about a thing whose name is
// followed by its size and the limit.
func (r *Reader) TooLarge(what string, n, limit int64) error {
	return TooLarge(r.Stream, r.off, what, n, limit)
}
