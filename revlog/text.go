package revlog

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

const (
	// maxGapBytes is how much that nobody asked for is read along, so that a
	// chain's chunks come with one read: less work than another call.
	maxGapBytes = 32 << 10

	// maxPendingBytes is how much decoded deltas may take up, in addition to
	// twice the text, before they are applied: it bounds what a hostile chain
	// can make us hold.
	maxPendingBytes = 4 << 20
)

// A Reader reads revisions one after the other. It reads ahead in the data
// file and builds a text on the last one where that is in its chain. It belongs
// to one goroutine and is used up with its snapshot.
type Reader struct {
	s *Snapshot

	// ahead is how many bytes to read beyond what was asked for, when reads
	// follow one another.
	ahead int64

	// win has the bytes of the data file from winOff on.
	win    []byte
	winOff int64

	// lastText is the text of lastRev; nil if there is none.
	lastRev  hg.Rev
	lastText []byte

	chain  []hg.Rev
	chunks [][]byte
	deltas [][]byte
}

// defaultAhead suits a walk over a whole log.
const defaultAhead = 256 << 10

// Reader returns a Reader of s. readAhead is in bytes; 0 means 256 KiB, a
// negative one none.
func (s *Snapshot) Reader(readAhead int64) *Reader {
	if readAhead == 0 {
		readAhead = defaultAhead
	}
	return &Reader{s: s, ahead: max(readAhead, 0), lastRev: hg.NullRev}
}

// readers are those of the methods of Snapshot.
var readers = sync.Pool{New: func() any { return new(Reader) }}

// once runs f with a Reader that reads nothing ahead.
func (s *Snapshot) once(f func(*Reader) ([]byte, error)) ([]byte, error) {
	r := readers.Get().(*Reader)
	*r = Reader{s: s, lastRev: hg.NullRev, chain: r.chain[:0]}
	b, err := f(r)
	*r = Reader{chain: r.chain}
	readers.Put(r)
	return b, err
}

// Chunk returns the stored bytes of rev, still compressed. The slice is
// read-only and valid until s is closed. Errors are ErrNoRev, *CorruptError if
// the index points past the data, and those of the file system.
func (s *Snapshot) Chunk(rev hg.Rev) ([]byte, error) {
	return s.once(func(r *Reader) ([]byte, error) { return r.Chunk(rev) })
}

// Delta returns the chunk of rev decompressed: a delta against DeltaBase(rev),
// or the full text if that is rev itself. Nothing but its length is verified.
// The slice is read-only and valid until s is closed.
func (s *Snapshot) Delta(rev hg.Rev) ([]byte, error) {
	return s.once(func(r *Reader) ([]byte, error) { return r.Delta(rev) })
}

// Text returns the full text of rev; that of NullRev is empty. The text is
// proved by its hash, except where the flags say that the hash is not its own:
// a censored revision's text is the tombstone, an externally stored one's is
// the pointer. The slice is read-only and valid until s is closed.
func (s *Snapshot) Text(rev hg.Rev) ([]byte, error) {
	return s.once(func(r *Reader) ([]byte, error) { return r.Text(rev) })
}

// Chunk is as Snapshot.Chunk; the slice is valid until the next call of r.
func (r *Reader) Chunk(rev hg.Rev) (b []byte, err error) {
	return r.guarded(rev, func() ([]byte, error) { return r.chunk(rev) })
}

// Delta is as Snapshot.Delta; the slice is valid until the next call of r.
func (r *Reader) Delta(rev hg.Rev) (b []byte, err error) {
	return r.guarded(rev, func() ([]byte, error) {
		c, err := r.chunk(rev)
		if err != nil {
			return nil, err
		}
		return r.decode(rev, c)
	})
}

// Text is as Snapshot.Text. The text is read-only and stays valid until the
// snapshot is closed.
func (r *Reader) Text(rev hg.Rev) ([]byte, error) {
	if rev == hg.NullRev {
		return nil, nil
	}
	return r.guarded(rev, func() ([]byte, error) {
		text, err := r.rebuild(rev)
		if err != nil {
			return nil, err
		}
		if err := r.s.verify(rev, text); err != nil {
			return nil, err
		}
		r.lastRev, r.lastText = rev, text
		return text, nil
	})
}

// guarded checks rev and runs f; a fault in the mapped index is its error.
func (r *Reader) guarded(rev hg.Rev, f func() ([]byte, error)) (b []byte, err error) {
	if err := r.s.checkRev(rev); err != nil {
		return nil, err
	}
	err = r.s.guard(func() error {
		b, err = f()
		return err
	})
	return b, err
}

// verify proves that text is what the index promises for rev.
func (s *state) verify(rev hg.Rev, text []byte) error {
	e := s.entry(rev)
	if n := e.textLen(); n >= 0 && int(n) != len(text) {
		return s.corrupt(rev, fmt.Errorf("%w: %d bytes, want %d", errTextLen, len(text), n))
	}
	if e.flags()&(hg.FlagCensored|hg.FlagExtStored) != 0 {
		return nil
	}
	var p1, p2 hg.Node
	if p := e.p1(); p >= 0 {
		p1 = *s.entry(p).node()
	}
	if p := e.p2(); p >= 0 {
		p2 = *s.entry(p).node()
	}
	if got := hg.HashText(p1, p2, text); got != *e.node() {
		return s.corrupt(rev, fmt.Errorf("%w: hash is %v, want %v", errHash, got, e.node()))
	}
	return nil
}

// chain appends to buf the revisions whose chunks make the text of rev, rev
// first. It stops before known, whose text the caller has; NullRev is none.
func (s *state) chain(buf []hg.Rev, rev, known hg.Rev) ([]hg.Rev, error) {
	for rev != known {
		buf = append(buf, rev)
		base := s.entry(rev).base()
		switch {
		case base == rev:
			return buf, nil
		case base < hg.NullRev || base > rev:
			return nil, s.corrupt(rev, fmt.Errorf("%w: %d", errBase, base))
		case s.hdr.generalDelta():
			rev = base
		case rev == 0:
			return nil, s.corrupt(rev, errNoBase)
		default:
			rev--
		}
		if rev == hg.NullRev {
			return buf, nil
		}
	}
	return buf, nil
}

// rebuild makes the text of rev out of its chain.
func (r *Reader) rebuild(rev hg.Rev) ([]byte, error) {
	s := r.s
	if n := int64(s.entry(rev).textLen()); n > s.log.o.MaxTextBytes {
		return nil, fmt.Errorf("text of rev %d of %q, %d bytes: %w", rev, s.log.radix, n, hg.ErrTooLarge)
	}
	if r.lastText != nil && r.lastRev == rev {
		return r.lastText, nil
	}
	known := hg.NullRev
	if r.lastText != nil && r.lastRev < rev {
		known = r.lastRev
	}
	chain, err := s.chain(r.chain[:0], rev, known)
	if err != nil {
		return nil, err
	}
	r.chain = chain
	slices.Reverse(chain)
	chunks, err := r.readChain(chain)
	if err != nil {
		return nil, err
	}
	return r.assemble(chain, chunks)
}

// assemble decodes chunks, those of the ascending chain, and applies them.
func (r *Reader) assemble(chain []hg.Rev, chunks [][]byte) ([]byte, error) {
	text, first, err := r.start(chain[0], chunks[0])
	if err != nil {
		return nil, err
	}
	limit := r.s.log.o.MaxTextBytes
	deltas, pending := r.deltas[:0], 0
	defer func() { clear(deltas); r.deltas = deltas[:0] }()
	for i := first; i < len(chain); i++ {
		d, err := r.decode(chain[i], chunks[i])
		if err != nil {
			return nil, err
		}
		deltas = append(deltas, d)
		pending += len(d)
		if pending < 2*len(text)+maxPendingBytes && i+1 < len(chain) {
			continue
		}
		if text, err = delta.ApplyChain(nil, text, deltas, limit); err != nil {
			return nil, r.s.dataError(chain[i], err)
		}
		deltas, pending = deltas[:0], 0
	}
	return text, nil
}

// start returns the text that the chain's deltas apply to, and where in the
// chain they begin.
func (r *Reader) start(rev hg.Rev, chunk []byte) (text []byte, first int, err error) {
	switch base := r.s.DeltaBase(rev); {
	case base == rev:
		text, err = r.decode(rev, chunk)
		return text, 1, err
	case base == hg.NullRev:
		return nil, 0, nil
	default:
		return r.lastText, 0, nil
	}
}

// decodedLimit is how many bytes the chunk of rev may decompress to. A delta
// may be somewhat longer than the text that it makes.
func (s *Snapshot) decodedLimit(rev hg.Rev) int64 {
	limit := s.log.o.MaxTextBytes
	if s.DeltaBase(rev) == rev {
		return limit
	}
	return limit + limit/4 + 4096
}

// decode decompresses the chunk of rev.
func (r *Reader) decode(rev hg.Rev, stored []byte) ([]byte, error) {
	b, err := chunk.Decode(nil, stored, r.s.decodedLimit(rev))
	if err != nil {
		return nil, r.s.dataError(rev, err)
	}
	return b, nil
}

// dataError places an error in the file that has the chunks. One that tells of
// a limit stays what it is.
func (s *state) dataError(rev hg.Rev, err error) error {
	if errors.Is(err, hg.ErrTooLarge) {
		return fmt.Errorf("rev %d of %q: %w", rev, s.log.radix, err)
	}
	if errors.Is(err, hg.ErrMalformed) {
		// That is for what clients send; these bytes are ours.
		err = errors.New(err.Error())
	}
	name := s.log.dataName()
	if s.hdr.inline() {
		name = s.log.indexName()
	}
	return &CorruptError{name, rev, err}
}
