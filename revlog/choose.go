package revlog

import (
	"math"

	"vcsd/hg"
	"vcsd/internal/bigbuf"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// What a log may cost to read is bounded when it is written. The limits are
// hg's, so that a log that both have written stays within them; they were read
// off its stores (hg debugdeltachain, hg debugrevlog).
const (
	// maxChainPerText bounds the stored bytes that a text is rebuilt from, in
	// multiples of its length.
	maxChainPerText = 2

	// maxSpanPerText and minMaxSpan bound the distance in the data from the
	// start of a chain to its end, where the log isn't sparse.
	maxSpanPerText = 4
	minMaxSpan     = 4 << 20

	// A base that is this many times shorter than the text makes no delta worth
	// having.
	maxTextPerBase = 500

	// manifestGain is the most that compressing a manifest's delta may be hoped
	// to gain: half of its lines are hashes.
	manifestGain = 3

	// maxTries bounds how many deltas are made for one revision, since a client
	// can make a log of any shape.
	maxTries = 32

	// maxTriedBytes bounds the texts that deltas are made of, in the same way.
	// One delta is made however long they are.
	maxTriedBytes = 256 << 20

	// A delta's chunk longer than 1/fullIfOver of the text is compared with that
	// of the full text.
	fullIfOver = 4

	// bytesToChain weighs a byte of the log against a byte of a chain. A chain
	// has room for about as much as four snapshots take up. Measured on replayed
	// pushes; hg, which takes the first delta within the limits, needs up to a
	// tenth more.
	bytesToChain = 4
)

// A pick is a way to store a revision.
type pick struct {
	base  hg.Rev // the revision itself: as a full text
	chunk []byte
	chain chainInfo
}

// score is what a pick costs: its bytes, and its part of the next snapshot,
// which comes the sooner the more bytes the chain has. Without general delta
// the next revision may have nothing in common with the chain.
func (st *Stager) score(p pick) int64 {
	if !st.s.GeneralDelta() {
		return int64(len(p.chunk))
	}
	return bytesToChain*int64(len(p.chunk)) + p.chain.bytes
}

// trialBuffers are what picks are made in.
type trialBuffers struct {
	best, next []byte // chunks; best is that of the best pick so far
	read       []byte
	chain      []hg.Rev
}

// stored returns a buffer of n bytes for a chunk to be read into.
func (t *trialBuffers) stored(n int) []byte {
	if cap(t.read) < n {
		// The next one may be somewhat longer.
		t.read = make([]byte, n, max(bigbuf.Cap(n), min(n+n/4, longChunk)))
	}
	return t.read[:n]
}

// A search is the choice of the base for one revision.
type search struct {
	st     *Stager
	r      *revision
	len    int64 // of the text
	tested map[hg.Rev]bool
	tries  int
	best   pick
	found  bool

	triedBytes int64 // of both texts of each try
}

// choose returns how to store r: by the delta that came with it, if that is
// short, since somebody chose it with care already; else by a delta against a
// parent, a snapshot, or as a full text, whichever has the lowest score.
func (st *Stager) choose(r *revision) (pick, error) {
	s := &search{st: st, r: r, len: int64(len(r.text))}
	if s.len > 0 && st.next() > 0 && st.o.Kind != Changelog && r.in.Flags&rawFlags == 0 {
		if err := s.run(); err != nil {
			return pick{}, err
		}
	}
	if s.found && int64(len(s.best.chunk)) <= s.len/fullIfOver {
		return s.best, nil
	}
	if s.huge() {
		st.forget() // what deltas were made from has served
	}
	full := s.full()
	if s.found && st.score(s.best) <= st.score(full) {
		return s.best, nil
	}
	return full, nil
}

// run tries groups of bases, those that cost the least to try first.
func (s *search) run() error {
	s.tested = make(map[hg.Rev]bool, 8)
	if !s.st.s.GeneralDelta() {
		return s.try(s.st.next() - 1)
	}
	if err := s.try(s.r.incoming); err != nil || s.settled() {
		return err
	}
	if err := s.tryAll(s.r.p1, s.r.p2); err != nil || s.settled() {
		return err
	}
	if !s.st.o.Sparse {
		return s.try(s.st.next() - 1)
	}
	return s.trySnapshots()
}

func (s *search) tryAll(bases ...hg.Rev) error {
	for _, b := range bases {
		if err := s.try(b); err != nil {
			return err
		}
	}
	return nil
}

// full returns r as a full text.
func (s *search) full() pick {
	st := s.st
	st.trial.next = chunk.Encode(st.trial.next[:0], s.r.text, st.o.Engine, st.o.Level)
	rev := st.next()
	return pick{rev, st.trial.next, chainInfo{rev, 0, int64(len(st.trial.next))}}
}

// try makes the delta against base and makes it the best if it is good, and
// scores better than the one before.
func (s *search) try(base hg.Rev) error {
	st := s.st
	base, info, ok, err := s.promising(base)
	if err != nil || !ok || s.tries == maxTries || s.triedBytes > maxTriedBytes {
		return err
	}
	s.tries++
	s.triedBytes += s.len + st.textLen(base)
	depth := s.depth(base, info)
	d, ok, err := s.delta(base)
	if err != nil || !ok {
		return err
	}
	if least := int64(len(d)) / manifestGain; st.o.Kind == Manifest && depth > 0 && !s.fits(base, depth, least) {
		return nil
	}
	st.trial.next = chunk.Encode(st.trial.next[:0], d, st.o.Engine, st.o.Level)
	size := int64(len(st.trial.next))
	p := pick{base, st.trial.next, chainInfo{info.start, info.deltas + 1, info.bytes + size}}
	if s.found && st.score(p) >= st.score(s.best) || !s.good(base, info, depth, size) {
		return nil
	}
	st.trial.best, st.trial.next = st.trial.next, st.trial.best
	s.found, s.best = true, p
	return nil
}

// promising returns the base to try in place of base, if it may make a good
// delta: empty deltas are left out of chains.
func (s *search) promising(base hg.Rev) (hg.Rev, chainInfo, bool, error) {
	st := s.st
	if st.s.GeneralDelta() {
		base = st.skipEmpty(base)
	}
	if base == hg.NullRev || s.tested[base] {
		return base, chainInfo{}, false, nil
	}
	s.tested[base] = true
	if st.flags(base)&rawFlags != 0 || st.o.Sparse && st.textLen(base) < s.len/maxTextPerBase {
		return base, chainInfo{}, false, nil
	}
	info, err := st.chain(base)
	if err != nil {
		return base, info, false, err
	}
	ok := int(info.deltas) < st.o.MaxChain && info.bytes <= maxChainPerText*s.len
	if ok && st.o.Kind == Manifest {
		// A text that is longer than its base needs a delta of the difference.
		least := max(s.len-st.textLen(base), 0) / manifestGain
		depth := s.depth(base, info)
		ok = depth == 0 || s.fits(base, depth, least)
	}
	return base, info, ok, nil
}

// skipEmpty returns the revision closest to rev in its chain that has bytes
// stored. Its text is the same.
func (st *Stager) skipEmpty(rev hg.Rev) hg.Rev {
	for rev != hg.NullRev && st.chunkLen(rev) == 0 {
		base := st.base(rev)
		if base == rev {
			return hg.NullRev // an empty text
		}
		rev = base
	}
	return rev
}

// depth returns how many snapshots there would be below a delta against base
// if that is one, else 0: what is against a parent, or against a revision that
// is no snapshot, is not.
func (s *search) depth(base hg.Rev, info chainInfo) int {
	if !s.st.o.Sparse || s.isParent(base) || !s.st.isSnapshot(base) {
		return 0
	}
	return int(info.deltas) + 1
}

// settled tells whether the best delta needs no rival.
func (s *search) settled() bool {
	if !s.found || !s.st.o.Sparse {
		return s.found
	}
	return s.short() || s.isParent(s.best.base) && int64(len(s.best.chunk)) <= s.len/fullIfOver
}

func (s *search) isParent(base hg.Rev) bool {
	return base == s.st.skipEmpty(s.r.p1) || base == s.st.skipEmpty(s.r.p2)
}

// fits tells whether a snapshot of size bytes is short enough at depth: the
// limit halves from one level to the next, and none is longer than its base.
func (s *search) fits(base hg.Rev, depth int, size int64) bool {
	return size <= s.len>>min(depth, 62) && size <= s.st.chunkLen(base)
}

// good tells whether a delta against base that takes size bytes keeps the
// limits.
func (s *search) good(base hg.Rev, info chainInfo, depth int, size int64) bool {
	if size > s.len || info.bytes+size > maxChainPerText*s.len {
		return false
	}
	if depth > 0 {
		return s.fits(base, depth, size)
	}
	if s.st.o.Sparse {
		// A long delta is worth its bytes where others can start from it too.
		return s.isParent(base) || size <= s.len/shortDelta
	}
	span := s.st.end + size - s.st.offset(info.start)
	return span <= max(minMaxSpan, maxSpanPerText*s.len)
}

// delta returns the delta against base: the one that came, where it applies. Of
// a long text it returns none that is as long as the text.
func (s *search) delta(base hg.Rev) (d []byte, ok bool, err error) {
	most := math.MaxInt // a short one may compress better than the text
	if s.len > longChunk {
		most = len(s.r.text)
	}
	came := s.st.sameText(s.r.incoming, base)
	if s.huge() {
		if came && len(s.r.delta) > most {
			return nil, false, nil // whoever made it found nothing in common either
		}
		if !s.st.texts.has(base) {
			s.st.forget()
		}
	}
	text, err := s.st.text(base)
	if err != nil {
		return nil, false, err
	}
	if came && len(s.r.delta) <= len(s.r.text)+delta.HeaderLen &&
		delta.AlignedToLines(text, s.r.delta) {
		return s.r.delta, true, nil
	}
	d, ok = delta.DiffWithin(text, s.r.text, most)
	return d, ok, nil
}

// huge tells whether the text is too long for others to be kept beside it. What
// is kept for the next revision is the text itself.
func (s *search) huge() bool { return s.len > s.st.o.CacheBytes }

// sameText tells whether only empty deltas lie between rev and base.
func (st *Stager) sameText(rev, base hg.Rev) bool {
	for rev != base {
		if rev == hg.NullRev || st.chunkLen(rev) != 0 || st.base(rev) == rev {
			return false
		}
		rev = st.base(rev)
	}
	return true
}
