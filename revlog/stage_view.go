package revlog

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"vcsd/hg"
	"vcsd/internal/bigbuf"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// The methods in this file see the snapshot and the staged revisions as one
// log.

// rawFlags mark texts that are not what the revision's node is the hash of.
// They are never deltas, nor what deltas apply to.
const rawFlags = hg.FlagCensored | hg.FlagExtStored

var tombstonePrefix = []byte("\x01\ncensored:")

// isTombstone reports whether a file's text stands in for a censored one: its
// metadata begins with the key that hg gives to tombstones alone.
func isTombstone(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, tombstonePrefix)
	return ok && bytes.Contains(rest, []byte("\x01\n"))
}

// next returns the rev of the next revision to be staged.
func (st *Stager) next() hg.Rev { return st.s.n + hg.Rev(len(st.staged)) }

// at returns the place of rev in staged, if it was staged.
func (st *Stager) at(rev hg.Rev) (i int, ok bool) { return int(rev - st.s.n), rev >= st.s.n }

func (st *Stager) node(rev hg.Rev) hg.Node {
	if i, ok := st.at(rev); ok {
		return st.staged[i].Node
	}
	return st.s.Node(rev)
}

func (st *Stager) parents(rev hg.Rev) (p1, p2 hg.Rev) {
	if i, ok := st.at(rev); ok {
		return st.links[i].p1, st.links[i].p2
	}
	return st.s.Parents(rev)
}

// base returns what the chunk of rev is a delta against; rev itself if it is a
// full text.
func (st *Stager) base(rev hg.Rev) hg.Rev {
	if i, ok := st.at(rev); ok {
		return st.links[i].base
	}
	base := st.s.DeltaBase(rev)
	if base < hg.NullRev || base > rev {
		return rev // damage, which reading the chain will report
	}
	return base
}

// textLen returns the length of the text of rev, -1 if it isn't known.
func (st *Stager) textLen(rev hg.Rev) int64 {
	if rev == hg.NullRev {
		return 0
	}
	if i, ok := st.at(rev); ok {
		return st.staged[i].TextLen
	}
	return st.s.TextLen(rev)
}

func (st *Stager) chunkLen(rev hg.Rev) int64 {
	if i, ok := st.at(rev); ok {
		return int64(st.staged[i].Length)
	}
	return st.s.ChunkLen(rev)
}

func (st *Stager) flags(rev hg.Rev) hg.RevFlags {
	if rev == hg.NullRev {
		return 0
	}
	if i, ok := st.at(rev); ok {
		return st.staged[i].Flags
	}
	return st.s.Flags(rev)
}

// offset returns where the chunk of rev begins in the data.
func (st *Stager) offset(rev hg.Rev) int64 {
	if i, ok := st.at(rev); ok {
		return st.links[i].offset
	}
	return st.s.offset(rev)
}

// chainInfo sums up what it takes to rebuild a revision.
type chainInfo struct {
	start  hg.Rev // whose chunk is the full text
	deltas int32  // chunks to apply to it
	bytes  int64  // stored, of all chunks
}

func (st *Stager) chain(rev hg.Rev) (chainInfo, error) {
	if i, ok := st.at(rev); ok {
		return st.links[i].chain, nil
	}
	revs, err := st.s.chain(st.trial.chain[:0], rev, hg.NullRev)
	if err != nil {
		return chainInfo{}, err
	}
	st.trial.chain = revs
	info := chainInfo{start: revs[len(revs)-1], deltas: int32(len(revs) - 1)}
	for _, r := range revs {
		info.bytes += st.s.ChunkLen(r)
	}
	return info, nil
}

// text returns the full text of rev. It is read-only, and valid until the
// cache gives it up: see textCache.
func (st *Stager) text(rev hg.Rev) ([]byte, error) {
	if rev == hg.NullRev {
		return nil, nil
	}
	if text, ok := st.texts.get(rev); ok {
		return text, nil
	}
	text, owned, err := st.build(rev)
	if err != nil {
		return nil, err
	}
	st.texts.put(rev, text, owned, st.o.CacheBytes)
	return text, nil
}

// build makes the text of rev, which is not in the cache. owned is false if
// the snapshot's reader has it too.
func (st *Stager) build(rev hg.Rev) (text []byte, owned bool, err error) {
	if _, ok := st.at(rev); !ok {
		text, err = st.reader.Text(rev)
		return text, false, err
	}
	var chain []hg.Rev // descending; all staged
	base := rev
	for {
		chain = append(chain, base)
		next := st.base(base)
		full := next == base
		base = next
		if full || base < st.s.n || st.texts.has(base) {
			break
		}
	}
	slices.Reverse(chain)
	if base == chain[0] {
		if text, err = st.decode(base); err != nil || len(chain) == 1 {
			return text, true, err
		}
		chain = chain[1:]
	} else if text, err = st.text(base); err != nil {
		return nil, false, err
	}
	text, err = st.apply(text, chain)
	return text, true, err
}

// apply applies the chunks of the staged revisions in chain to text, some at a
// time: what is decoded and not applied yet is bounded as in Reader.assemble.
func (st *Stager) apply(text []byte, chain []hg.Rev) ([]byte, error) {
	var deltas [][]byte
	pending := 0
	for i, rev := range chain {
		d, err := st.decode(rev)
		if err != nil {
			return nil, err
		}
		deltas, pending = append(deltas, d), pending+len(d)
		if pending < pendingLimit(len(text)) && i+1 < len(chain) {
			continue
		}
		if text, err = delta.ApplyChain(nil, text, deltas, st.o.MaxTextBytes); err != nil {
			return nil, err
		}
		deltas, pending = deltas[:0], 0
	}
	return text, nil
}

// decode returns the delta or full text in the chunk of a staged revision.
func (st *Stager) decode(rev hg.Rev) ([]byte, error) {
	i, _ := st.at(rev)
	g := &st.staged[i]
	stored := st.trial.stored(g.Length)
	if n, err := st.seg.ReadAt(stored, g.Offset); n < len(stored) {
		if err == nil || err == io.EOF {
			err = errShortSegment
		}
		return nil, fmt.Errorf("read staged chunk at %d: %w", g.Offset, err)
	}
	var dst []byte
	if g.Length > longChunk {
		if data, ok := chunk.Raw(stored); ok {
			st.trial.read = nil // the caller's now
			return data, nil
		}
		// It hardly holds more than the text; and it is ours, so it won't lie.
		dst = bigbuf.Make(int(g.TextLen) + delta.HeaderLen + chunk.Slack)[:0]
	}
	// Encode made the chunk out of no more than a text and a header.
	d, err := chunk.Decode(dst, stored, st.o.MaxTextBytes+delta.HeaderLen)
	st.trial.giveBack()
	return d, err
}

// giveBack drops buffers that were needed for a long text. One alone may keep a
// Stager busy for long, whose other texts are short.
func (t *trialBuffers) giveBack() {
	for _, b := range []*[]byte{&t.best, &t.next, &t.read} {
		if cap(*b) > longChunk {
			*b = nil
		}
	}
}

// forget gives up all texts, and their memory.
func (st *Stager) forget() {
	st.texts = textCache{}
	st.reader.lastText = nil
}

// A textCache holds the texts that were used last. A text that it gives up may
// be overwritten: its memory is for the next one.
type textCache struct {
	entries []cachedText // the last used is the last
	bytes   int64
	spare   []byte
}

type cachedText struct {
	rev   hg.Rev
	text  []byte
	owned bool // nobody else has it
}

const (
	// keptTexts are kept however long they are: a revision and its base.
	keptTexts = 2
	maxTexts  = 64
)

func (c *textCache) find(rev hg.Rev) int {
	return slices.IndexFunc(c.entries, func(e cachedText) bool { return e.rev == rev })
}

func (c *textCache) has(rev hg.Rev) bool { return c.find(rev) >= 0 }

func (c *textCache) get(rev hg.Rev) ([]byte, bool) {
	i := c.find(rev)
	if i < 0 {
		return nil, false
	}
	e := c.entries[i]
	c.entries = append(slices.Delete(c.entries, i, i+1), e)
	return e.text, true
}

// makeRoom is called when the text used last is all that the next one is made
// from. Where texts are long, a third one would not be worth its memory.
func (c *textCache) makeRoom(limit int64) { c.trim(limit, 1) }

// put adds a text and gives up old ones, down to limit bytes.
func (c *textCache) put(rev hg.Rev, text []byte, owned bool, limit int64) {
	c.entries = append(c.entries, cachedText{rev, text, owned})
	c.bytes += int64(len(text))
	c.trim(limit, keptTexts)
}

// trim gives up the texts used longest ago, but not the last kept.
func (c *textCache) trim(limit int64, kept int) {
	n := 0
	for len(c.entries)-n > kept && (c.bytes > limit || len(c.entries)-n > maxTexts) {
		e := c.entries[n]
		c.bytes -= int64(len(e.text))
		if e.owned && cap(e.text) > cap(c.spare) {
			c.spare = e.text
		}
		n++
	}
	c.entries = slices.Delete(c.entries, 0, n)
}

// buffer returns memory for a text of n bytes, which is the caller's.
func (c *textCache) buffer(n int) []byte {
	b := c.spare[:0]
	c.spare = nil
	switch {
	case cap(b) < n && n >= bigbuf.Min:
		return bigbuf.Make(n)[:0]
	case cap(b) > bigbuf.Cap(bigbuf.Min) && n < cap(b)/4:
		return nil // once it was needed; that may never be again
	}
	return b
}
