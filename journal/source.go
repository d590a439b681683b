package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"vcsd/internal/vfs"
)

// chunkBytes is how much is read or written at once.
const chunkBytes = 256 << 10

func updateSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// sources reads the parts of writes, and keeps the last segment open.
type sources struct {
	j    *Journal
	open func(name string) (vfs.File, error)
	name string
	file vfs.File
	buf  []byte
}

func (s *sources) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.name = nil, ""
	return f.Close()
}

func (s *sources) segment(name string) (vfs.File, error) {
	if s.name == name {
		return s.file, nil
	}
	if err := s.close(); err != nil {
		return nil, err
	}
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	s.file, s.name = f, name
	return f, nil
}

// walk calls f with the bytes of parts from skip on, in order, in pieces that
// are valid during the call.
func (s *sources) walk(parts []Part, skip int64, f func(b []byte) error) error {
	for i := range parts {
		p := &parts[i]
		n := p.size()
		if skip >= n {
			skip -= n
			continue
		}
		if err := s.walkPart(p, skip, f); err != nil {
			return err
		}
		skip = 0
	}
	return nil
}

func (s *sources) walkPart(p *Part, skip int64, f func(b []byte) error) error {
	if p.Segment == "" {
		return f(p.Data[skip:])
	}
	file, err := s.segment(p.Segment)
	if err != nil {
		return err
	}
	at, end := p.Offset+skip, p.Offset+p.Length
	s.buf = atLeast(s.buf, end-at)
	for at < end {
		b := s.buf[:min(chunkBytes, end-at)]
		if err := readFullAt(file, b, at); err != nil {
			return &CorruptError{s.j.path(p.Segment), fmt.Errorf("read %d bytes at %d: %w", len(b), at, err)}
		}
		if err := f(b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// write writes the bytes of w from the absolute offset from on.
func (a *applier) write(f vfs.File, w *Write, from int64) error {
	a.buf = atLeast(a.buf, w.Offset+w.Length-from)
	g := gather{f: f, at: from, buf: a.buf[:0]}
	if err := a.sources.walk(w.Parts, from-w.Offset, g.add); err != nil {
		return err
	}
	return g.flush()
}

// atLeast returns a buffer of n bytes or more, but no more than chunkBytes: b
// if it is long enough.
func atLeast(b []byte, n int64) []byte {
	if n = min(n, chunkBytes); int64(len(b)) >= n {
		return b
	}
	return make([]byte, n)
}

// gather makes few large writes of many small ones.
type gather struct {
	f   vfs.File
	at  int64 // where buf goes
	buf []byte
}

func (g *gather) add(b []byte) error {
	if len(g.buf)+len(b) > cap(g.buf) {
		if err := g.flush(); err != nil {
			return err
		}
	}
	if len(b) < cap(g.buf) {
		g.buf = append(g.buf, b...)
		return nil
	}
	return g.put(b)
}

func (g *gather) flush() error {
	b := g.buf
	g.buf = g.buf[:0]
	return g.put(b)
}

func (g *gather) put(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := g.f.WriteAt(b, g.at)
	g.at += int64(n)
	return err
}

// copyBytes copies the first n bytes of src to the new file dst.
func (a *applier) copyBytes(dst io.WriterAt, src io.ReaderAt, n int64) error {
	buf := make([]byte, min(n, chunkBytes))
	for at := int64(0); at < n; {
		b := buf[:min(int64(len(buf)), n-at)]
		if err := readFullAt(src, b, at); err != nil {
			return err
		}
		if _, err := dst.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// readFullAt fills b; a file that ends before is io.ErrUnexpectedEOF.
func readFullAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
