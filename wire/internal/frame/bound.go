package frame

import (
	"bufio"
	"io"
)

// Bounded is a reader that knows how much it can still yield at most, in bytes;
// -1 if it doesn't. A file is one, a connection is not.
type Bounded interface {
	io.Reader
	Remaining() int64
}

// Remaining returns what r can still yield at most, -1 if nobody knows. Of a
// file it is what is left of it.
func Remaining(r io.Reader) int64 {
	if b, ok := r.(Bounded); ok {
		return b.Remaining()
	}
	if s, ok := r.(io.Seeker); ok {
		return left(s)
	}
	return -1
}

// left returns how far the end is from the present place.
func left(s io.Seeker) int64 {
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return -1
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return -1
	}
	if _, err := s.Seek(at, io.SeekStart); err != nil {
		return -1
	}
	return max(end-at, 0)
}

// NewBuffered returns a Reader of r that asks it for size bytes at a time and
// for no more than it can yield.
func NewBuffered(r io.Reader, stream string, size int) *Reader {
	buf := bufio.NewReaderSize(r, size)
	f := NewReader(buf, stream)
	if b, ok := r.(Bounded); ok {
		f.Bound = func() int64 {
			n := b.Remaining()
			if n < 0 {
				return -1
			}
			return n + int64(buf.Buffered())
		}
	}
	return f
}
