package revlog

import (
	"fmt"
	"io"

	"vcsd/hg"
)

// Before returns how much of the files the log takes up without the revisions
// at its end that changeset limit or a later one introduced.
func (s *Snapshot) Before(limit hg.Rev) Size {
	n := s.n
	for n > 0 && s.entry(n-1).link() >= limit {
		n--
	}
	return s.sizeAt(n)
}

// sizeAt returns the size of the log's first n revisions.
func (s *state) sizeAt(n hg.Rev) Size {
	if n == s.n {
		return s.size
	}
	size := Size{Revs: int(n), Inline: s.hdr.inline(), IndexBytes: int64(n) * entrySize}
	if s.pos != nil {
		size.IndexBytes = int64(s.pos[n])
	} else if n > 0 {
		size.DataBytes = s.offset(n-1) + int64(s.entry(n-1).chunkLen())
	}
	return size
}

// WriteIndex writes the index file of the log as it was at size, which Before
// of this snapshot or of an earlier one returned. It does so even if the log
// was split since.
func (s *Snapshot) WriteIndex(w io.Writer, size Size) error {
	if size.Revs > s.Len() || !size.Inline && s.hdr.inline() {
		return s.corrupt(hg.NullRev, fmt.Errorf("%w: %+v is not within %+v", errSize, size, s.size))
	}
	if size.Inline && !s.hdr.inline() {
		return s.writeInline(w, size)
	}
	return s.guard(func() error {
		_, err := w.Write(s.index[:size.IndexBytes])
		return err
	})
}

// writeInline writes a split log in the form that it had before.
func (s *Snapshot) writeInline(w io.Writer, size Size) error {
	read := s.Reader(0)
	for r := hg.Rev(0); int(r) < size.Revs; r++ {
		e := *s.entry(r)
		if r == 0 {
			putHeader(e[:], s.hdr|headerInline)
		}
		c, err := read.Chunk(r)
		if err != nil {
			return err
		}
		for _, b := range [][]byte{e[:], c} {
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteData writes the data file of the log as it was at size.
func (s *Snapshot) WriteData(w io.Writer, size Size) error {
	if size.Inline || size.DataBytes == 0 {
		return nil
	}
	f, err := s.src.data.open()
	if err != nil {
		return err
	}
	n, err := io.Copy(w, io.NewSectionReader(f, 0, size.DataBytes))
	if err == nil && n != size.DataBytes {
		return s.dataError(hg.Rev(size.Revs-1), io.ErrUnexpectedEOF)
	}
	return err
}
