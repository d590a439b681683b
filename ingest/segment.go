package ingest

import (
	"errors"
	"fmt"
	"io"

	"vcsd/internal/vfs"
)

// segmentBufBytes is how much of a segment's tail is gathered before it is
// written.
const segmentBufBytes = 256 << 10

// A segment is the file in a push's quarantine directory that holds the
// chunks of its staged revisions, one after the other. It belongs to the
// goroutine that stages the push.
type segment struct {
	f    vfs.File
	size int64  // bytes appended, written or not
	tail []byte // the last bytes appended, not yet written
}

func newSegment(f vfs.File) *segment {
	return &segment{f: f, tail: make([]byte, 0, segmentBufBytes)}
}

// Append adds b and returns the offset of its first byte.
func (s *segment) Append(b []byte) (int64, error) {
	off := s.size
	if len(s.tail)+len(b) > cap(s.tail) {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if len(b) > cap(s.tail) {
		if _, err := s.f.WriteAt(b, off); err != nil {
			return 0, fmt.Errorf("write segment: %w", err)
		}
	} else {
		s.tail = append(s.tail, b...)
	}
	s.size += int64(len(b))
	return off, nil
}

// ReadAt implements io.ReaderAt over all bytes appended.
func (s *segment) ReadAt(b []byte, off int64) (int, error) {
	written := s.size - int64(len(s.tail))
	n := 0
	if off < written {
		want := min(int64(len(b)), written-off)
		m, err := s.f.ReadAt(b[:want], off)
		n += m
		if err != nil && !(errors.Is(err, io.EOF) && int64(m) == want) {
			return n, err
		}
	}
	if rest := off + int64(n) - written; n < len(b) && rest >= 0 && rest <= int64(len(s.tail)) {
		n += copy(b[n:], s.tail[rest:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// flush hands the tail to the file system. It does not sync.
func (s *segment) flush() error {
	if len(s.tail) == 0 {
		return nil
	}
	if _, err := s.f.WriteAt(s.tail, s.size-int64(len(s.tail))); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	s.tail = s.tail[:0]
	return nil
}
