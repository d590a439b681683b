package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// growBytes is the first step in which a piece is read; each further step is
// as large as what has arrived, so memory is at most twice the bytes received.
const growBytes = 64 << 10

// A Reader reads exact pieces of a stream and counts them.
type Reader struct {
	// Stream names the stream in errors. It may be changed at any time.
	Stream string

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

// Swap makes r go on with another source, as after the header that announces
// compression. Offsets count on.
func (r *Reader) Swap(src io.Reader) { r.r = src }

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

// Next returns the next n bytes in buf, which is grown as bytes arrive and
// not for the promise of them.
func (r *Reader) Next(buf []byte, n int) ([]byte, error) {
	buf = buf[:0]
	for len(buf) < n {
		have := len(buf)
		step := min(n-have, max(growBytes, have, cap(buf)-have))
		buf = grow(buf, step)[:have+step]
		got, err := io.ReadFull(r.r, buf[have:])
		r.off += int64(got)
		if err != nil {
			return buf[:0], r.fail(err, " ", int64(have+got), int64(n))
		}
	}
	return buf, nil
}

// grow makes room for step more bytes in buf, exactly.
func grow(buf []byte, step int) []byte {
	if cap(buf)-len(buf) >= step {
		return buf
	}
	return append(make([]byte, 0, len(buf)+step), buf...)
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
