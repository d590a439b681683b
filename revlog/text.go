package revlog

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"vcsd/hg"
	"vcsd/internal/bigbuf"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

const (
	// maxGapBytes is how much that nobody asked for is read along, so that a
	// chain's chunks come with one read: less work than another call.
	maxGapBytes = 32 << 10

	// Decoded deltas may take up minPendingBytes, or twice the text if that is
	// more, up to maxPendingBytes, before they are applied: it bounds what a
	// hostile chain can make us hold.
	minPendingBytes = 4 << 20
	maxPendingBytes = 32 << 20

	// longChunk is the length of a chunk from which on memory is made for what
	// it should hold, and given back at once.
	longChunk = bigbuf.Min
)

// pendingLimit is how many bytes of deltas may be decoded before they are
// applied to a text of that length.
func pendingLimit(textLen int) int { return minPendingBytes + min(2*textLen, maxPendingBytes) }

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

	chain  []hg.Rev // scratch, as all below
	chunks [][]byte
	deltas [][]byte
	arena  []byte // decoded deltas, one after the other
	ends   []int  // where each of them ends
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

// maxKeptBytes is the largest scratch memory that waits in the pool.
const maxKeptBytes = 1 << 20

// once runs f with a Reader that reads nothing ahead.
func (s *Snapshot) once(f func(*Reader) ([]byte, error)) ([]byte, error) {
	r := readers.Get().(*Reader)
	r.s, r.lastRev = s, hg.NullRev
	b, err := f(r)
	// What was read belongs to the caller now.
	r.s, r.win, r.winOff, r.lastText = nil, nil, 0, nil
	clear(r.chunks[:cap(r.chunks)])
	clear(r.deltas[:cap(r.deltas)])
	if cap(r.arena) <= maxKeptBytes {
		readers.Put(r)
	}
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
		if data, ok := chunk.Raw(c); ok && r.s.pos == nil {
			return data, nil // of the window, not of a mapping that may fault
		}
		return r.decode(nil, rev, c)
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
		r.giveBack()
		return text, nil
	})
}

// giveBack drops what was needed for a long text and may not be needed again.
func (r *Reader) giveBack() {
	if r.ahead == 0 && len(r.win) > longChunk {
		r.win, r.winOff = nil, 0
	}
	if cap(r.arena) > minPendingBytes+maxPendingBytes {
		r.arena = nil
		clear(r.deltas[:cap(r.deltas)])
	}
	clear(r.chunks)
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
	chain, chunks = chain[first:], chunks[first:]
	for len(chain) > 0 {
		n, err := r.decodeDeltas(chain, chunks, pendingLimit(len(text)))
		if err != nil {
			return nil, err
		}
		text, err = delta.ApplyChain(nil, text, r.deltas, r.s.log.o.MaxTextBytes)
		if err != nil {
			return nil, r.s.dataError(chain[n-1], err)
		}
		chain, chunks = chain[n:], chunks[n:]
	}
	return text, nil
}

// decodeDeltas puts the first n of the deltas in r.deltas: all, or as many as
// there are until they exceed limit bytes.
func (r *Reader) decodeDeltas(chain []hg.Rev, chunks [][]byte, limit int) (n int, err error) {
	r.arena, r.ends, r.deltas = r.arena[:0], r.ends[:0], r.deltas[:0]
	for n < len(chain) && len(r.arena) <= limit {
		arena := withRoom(r.arena, r.room(chain[n], chunks[n]))
		b, err := r.decode(arena, chain[n], chunks[n])
		if err != nil {
			return 0, err
		}
		if cap(b) < cap(arena) {
			// A decoder that stayed in place cut the capacity to its limit.
			b = arena[:len(b)]
		}
		r.arena = b
		r.ends = append(r.ends, len(r.arena))
		n++
	}
	// Only now: the arena moves while it grows.
	from := 0
	for _, to := range r.ends {
		r.deltas = append(r.deltas, r.arena[from:to])
		from = to
	}
	return n, nil
}

// room is how many bytes the chunk of rev is likely to decompress to. A long one
// hardly holds more than the text.
func (r *Reader) room(rev hg.Rev, stored []byte) int {
	if len(stored) <= longChunk {
		return 8 * len(stored)
	}
	textLen := min(max(r.s.TextLen(rev), 0), r.s.log.o.MaxTextBytes)
	return int(min(max(textLen, int64(len(stored))), maxZlibRatio*int64(len(stored)))) + delta.HeaderLen + chunk.Slack
}

// maxZlibRatio bounds how much a chunk of zlib can hold. A length that damage
// made up must not cost memory.
const maxZlibRatio = 1030

// withRoom returns b with a capacity for n bytes more at least. A decoder that
// has to make room by itself makes just as much as it needs, and would copy b
// for every delta.
func withRoom(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	return slices.Grow(b, max(n, len(b), 4096))
}

// start returns the text that the chain's deltas apply to, and where in the
// chain they begin.
func (r *Reader) start(rev hg.Rev, chunk []byte) (text []byte, first int, err error) {
	switch base := r.s.DeltaBase(rev); {
	case base == rev:
		text, err = r.fullText(rev, chunk)
		return text, 1, err
	case base == hg.NullRev:
		return nil, 0, nil
	default:
		return r.lastText, 0, nil
	}
}

// fullText returns the text in the chunk of rev. A long one that is stored as
// it is becomes the text with the window around it.
func (r *Reader) fullText(rev hg.Rev, stored []byte) ([]byte, error) {
	if data, ok := chunk.Raw(stored); ok && len(data) > longChunk && r.s.pos == nil {
		r.win, r.winOff = nil, 0
		return data, nil
	}
	hint := min(max(int64(r.s.entry(rev).textLen()), 0), r.s.log.o.MaxTextBytes, maxZlibRatio*int64(len(stored)))
	return r.decode(bigbuf.Make(int(hint) + chunk.Slack)[:0], rev, stored)
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

// decode appends to dst what the chunk of rev decompresses to.
func (r *Reader) decode(dst []byte, rev hg.Rev, stored []byte) ([]byte, error) {
	if dst == nil && len(stored) > longChunk {
		dst = bigbuf.Make(r.room(rev, stored))[:0]
	}
	b, err := chunk.Decode(dst, stored, r.s.decodedLimit(rev))
	if err != nil {
		return dst, r.s.dataError(rev, err)
	}
	return b, nil
}

// dataError places an error in the file that has the chunks. One that tells of
// a limit stays what it is.
func (s *state) dataError(rev hg.Rev, err error) error {
	if errors.Is(err, hg.ErrTooLarge) {
		return fmt.Errorf("rev %d of %q: %w", rev, s.log.radix, err)
	}
	name := s.log.dataName()
	if s.hdr.inline() {
		name = s.log.indexName()
	}
	return Corrupt(name, rev, err)
}
