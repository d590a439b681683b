package revlog

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// A state is a log at one length: what its snapshots consist of. It is
// constant once published.
type state struct {
	log   *Log
	nodes *nodeIndex // shared by all states of the log
	src   *source

	hdr  header
	n    hg.Rev // number of revisions
	size Size

	// index has the bytes of the first n revisions: their entries, in an
	// inline log with their chunks.
	index []byte
	// pos has the place of each entry of an inline log in index. It is nil in
	// a split one, whose entry r is at r*entrySize.
	pos []uint32
}

func (s *state) setHeader(h header) {
	s.hdr = h
	s.size.Inline = h.inline()
}

// guard runs f; a fault in the mapped index becomes its error.
func (s *state) guard(f func() error) error {
	if s.src.mapping == nil {
		return f()
	}
	var err error
	fault := vfs.Guard(func() { err = f() })
	if fault != nil {
		return &CorruptError{s.log.indexName(), hg.NullRev, fault}
	}
	return err
}

// entry returns the entry of rev, which must be below n.
func (s *state) entry(rev hg.Rev) *entry {
	if s.pos != nil {
		return (*entry)(s.index[s.pos[rev]:])
	}
	return (*entry)(s.index[int(rev)*entrySize:])
}

// offset returns where the chunk of rev begins in the data, as the entry says.
func (s *state) offset(rev hg.Rev) int64 {
	if rev == 0 {
		return 0
	}
	return s.entry(rev).offset()
}

// dataEnd returns where the chunk of the next revision is to begin: in a split
// log the length of the data file, in an inline log the sum of the chunks.
func (s *state) dataEnd() int64 {
	if s.n == 0 {
		return 0
	}
	if s.pos != nil {
		return int64(len(s.index)) - int64(s.n)*entrySize
	}
	return s.offset(s.n-1) + int64(s.entry(s.n-1).chunkLen())
}

// corrupt reports damage in the index at rev.
func (s *state) corrupt(rev hg.Rev, err error) error {
	return &CorruptError{s.log.indexName(), rev, err}
}

// parse reads the header and finds and checks the entries of a fresh index.
func (s *state) parse() error {
	if len(s.index) < headerSize {
		s.index = s.index[:0]
		s.setHeader(makeHeader(s.log.o.Inline, s.log.o.GeneralDelta))
		return nil
	}
	h := readHeader(s.index)
	if what := h.unsupported(); what != "" {
		return &UnsupportedError{s.log.indexName(), hg.NullRev, what}
	}
	s.setHeader(h)
	if err := s.locate(); err != nil {
		return err
	}
	return s.check(0)
}

// locate finds the entries that stand in index beyond the first n, and cuts
// index after the last whole revision.
func (s *state) locate() error {
	if s.hdr.inline() {
		return s.locateInline()
	}
	whole := len(s.index) / entrySize
	if whole > math.MaxInt32 {
		return s.corrupt(hg.NullRev, fmt.Errorf("%d revisions", whole))
	}
	s.setLen(hg.Rev(whole), whole*entrySize)
	return nil
}

// locateInline walks from entry to entry over the chunks.
func (s *state) locateInline() error {
	end := s.size.IndexBytes
	n, stop, err := s.countInline(end)
	if err != nil {
		return err
	}
	// Older states share the array; none looks beyond its own length.
	s.pos = slices.Grow(s.pos, int(n-s.n))
	for range n - s.n {
		s.pos = append(s.pos, uint32(end))
		end += entrySize + int64((*entry)(s.index[end:]).chunkLen())
	}
	s.setLen(n, int(stop))
	return nil
}

// countInline returns how many whole revisions there are, s.n of which end at
// end, and where the last one ends.
func (s *state) countInline(end int64) (n hg.Rev, stop int64, err error) {
	for n = s.n; int64(len(s.index))-end >= entrySize; n++ {
		size := (*entry)(s.index[end:]).chunkLen()
		if size < 0 {
			return 0, 0, s.corrupt(n, errChunkLen)
		}
		next := end + entrySize + int64(size)
		if next > int64(len(s.index)) {
			break
		}
		if end > math.MaxUint32 {
			return 0, 0, s.corrupt(n, errors.New("inline log of more than 4 GiB"))
		}
		end = next
	}
	return n, end, nil
}

// setLen makes s end after n revisions, which take up the first indexLen bytes
// of the index.
func (s *state) setLen(n hg.Rev, indexLen int) {
	s.n = n
	s.index = s.index[:indexLen]
	if s.pos != nil {
		s.pos = s.pos[:n]
	}
	s.size = Size{Revs: int(n), Inline: s.hdr.inline(), IndexBytes: int64(indexLen)}
	if !s.size.Inline {
		s.size.DataBytes = s.dataEnd()
	}
}

// hideFrom cuts the revisions at the end that limit or a later changeset
// introduced. 0 is no limit.
func (s *state) hideFrom(limit hg.Rev) {
	n := s.n
	for limit > 0 && n > 0 && s.entry(n-1).link() >= limit {
		n--
	}
	switch {
	case n == s.n:
	case s.pos != nil:
		s.setLen(n, int(s.pos[n]))
	default:
		s.setLen(n, int(n)*entrySize)
	}
}

// check refuses entries from rev from on that would lead a walk astray, or
// that vcsd does not honour. What only concerns the text of a revision is
// checked when that is read.
func (s *state) check(from hg.Rev) error {
	for rev := from; rev < s.n; rev++ {
		if err := s.checkEntry(rev, s.entry(rev)); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) checkEntry(rev hg.Rev, e *entry) error {
	p1, p2 := e.p1(), e.p2()
	if p1 < hg.NullRev || p1 >= rev || p2 < hg.NullRev || p2 >= rev {
		return s.corrupt(rev, fmt.Errorf("%w: %d, %d", errParent, p1, p2))
	}
	if wordsOf(e.node()).isNull() {
		return s.corrupt(rev, errNullNode)
	}
	if e.flags()&^(hg.FlagsKnown&^hg.FlagEllipsis) != 0 {
		return &UnsupportedError{s.log.indexName(), rev, unsupportedFlags(e.flags())}
	}
	return nil
}

// reaches reports whether the source of s can serve size too.
func (s *state) reaches(size Size) bool {
	switch {
	case size.Inline != s.size.Inline || s.n == 0 || size.IndexBytes < s.size.IndexBytes:
		return false // another file by the same name, or none yet
	case s.src.mapping != nil:
		return size.IndexBytes <= int64(len(s.src.mapping.Bytes()))
	}
	return !s.log.o.Mapped
}

// checkSize tells whether s has the size that it was to have.
func (s *state) checkSize(want Size) error {
	if s.size != want {
		return s.corrupt(hg.NullRev, fmt.Errorf("%w: found %+v, want %+v", errSize, s.size, want))
	}
	return nil
}

// abandon gives up s, which was not published in place of cur.
func (s *state) abandon(cur *state) error {
	if s.src == cur.src {
		return nil
	}
	return s.src.release()
}

// appendRange appends the bytes of f from offset from up to to, or up to the
// end of the file.
func appendRange(b []byte, f vfs.File, from, to int64) ([]byte, error) {
	n := max(0, to-from)
	b = slices.Grow(b, int(n))
	got, err := f.ReadAt(b[len(b):len(b)+int(n)], from)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:len(b)+got], err
}
