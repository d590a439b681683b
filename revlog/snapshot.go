package revlog

import (
	"fmt"
	"slices"
	"sync/atomic"

	"vcsd/hg"
)

// A Snapshot is a log at one length. It may be used by several goroutines
// until Close. A rev that the methods without an error are given must be below
// Len (or NullRev where that is said); they panic otherwise.
type Snapshot struct {
	state  // a copy: one step less to the index
	closed atomic.Bool
}

// Close lets go of what the snapshot reads. Slices that it returned from a
// mapped index are not valid any more. A second Close does nothing.
func (s *Snapshot) Close() {
	if !s.closed.Swap(true) {
		// Files that were only read: nothing is lost if closing fails.
		_ = s.src.release()
	}
}

// Name returns the radix given to Open.
func (s *Snapshot) Name() string { return s.log.radix }

// Len returns the number of revisions.
func (s *Snapshot) Len() int { return int(s.n) }

// Size returns how much of the files the snapshot covers.
func (s *Snapshot) Size() Size { return s.size }

// GeneralDelta reports whether the log's deltas may be against any revision
// before them, and not only against the previous one.
func (s *Snapshot) GeneralDelta() bool { return s.hdr.generalDelta() }

// DataEnd returns the offset that the chunk of the next revision gets: the
// length of the data file, or in an inline log the sum of the chunks' lengths.
func (s *Snapshot) DataEnd() int64 { return s.dataEnd() }

// Node returns the node of rev; of NullRev it is NullNode.
func (s *Snapshot) Node(rev hg.Rev) hg.Node {
	if rev == hg.NullRev {
		return hg.NullNode
	}
	return *s.entry(rev).node()
}

// Rev returns the rev of node. NullNode is known in every log, as NullRev.
// It does not allocate, but for the first lookup in a log that is not mapped.
//
// It is small so that it is inlined: the node need not be copied then.
func (s *Snapshot) Rev(node hg.Node) (hg.Rev, bool) { return s.rev(wordsOf(&node)) }

func (s *Snapshot) rev(node words) (rev hg.Rev, ok bool) {
	if t := s.nodes.ready(&s.state); t != nil {
		rev, ok = t.find(&s.state, node)
	} else {
		rev, ok = s.nodes.revUnready(&s.state, node)
	}
	// No entry has the null node, so the question can wait until now.
	return rev, ok || node.isNull()
}

// Revs appends the revs of nodes to dst, NullRev for those that are unknown.
// It takes a third of the time that as many calls of Rev take.
func (s *Snapshot) Revs(dst []hg.Rev, nodes []hg.Node) []hg.Rev {
	dst = slices.Grow(dst, len(nodes))
	revs := dst[len(dst) : len(dst)+len(nodes)]
	s.nodes.revs(&s.state, nodes, revs)
	return dst[:len(dst)+len(nodes)]
}

// Parents returns the parents of rev, NullRev where there is none. They are
// always below rev.
func (s *Snapshot) Parents(rev hg.Rev) (p1, p2 hg.Rev) {
	if rev == hg.NullRev {
		return hg.NullRev, hg.NullRev
	}
	e := s.entry(rev)
	return e.p1(), e.p2()
}

// LinkRev returns the changelog rev that introduced rev.
func (s *Snapshot) LinkRev(rev hg.Rev) hg.Rev { return s.entry(rev).link() }

// Flags returns the storage flags of rev.
func (s *Snapshot) Flags(rev hg.Rev) hg.RevFlags { return s.entry(rev).flags() }

// TextLen returns the length of the full text of rev in bytes, or -1 if the
// index doesn't tell it, as in logs that were made before Mercurial 0.9.
func (s *Snapshot) TextLen(rev hg.Rev) int64 { return int64(max(s.entry(rev).textLen(), -1)) }

// ChunkLen returns the length of the stored chunk of rev in bytes.
func (s *Snapshot) ChunkLen(rev hg.Rev) int64 { return int64(max(s.entry(rev).chunkLen(), 0)) }

// DeltaBase returns the revision that the chunk of rev is a delta against: rev
// itself if the chunk is a full text, NullRev if it is a delta against the
// empty text. In a damaged index it may be anything; reading rev tells.
func (s *Snapshot) DeltaBase(rev hg.Rev) hg.Rev {
	base := s.entry(rev).base()
	if base == rev || s.hdr.generalDelta() {
		return base
	}
	return rev - 1
}

// ChainLen returns how many deltas lie between the text of rev and the full
// text that its chain begins with.
func (s *Snapshot) ChainLen(rev hg.Rev) (int, error) {
	chain, err := s.chain(nil, rev, hg.NullRev)
	if err != nil || len(chain) == 0 {
		return 0, err
	}
	if s.DeltaBase(chain[len(chain)-1]) == hg.NullRev {
		return len(chain), nil
	}
	return len(chain) - 1, nil
}

// ChainBytes returns the stored bytes of all chunks that rev is rebuilt from.
func (s *Snapshot) ChainBytes(rev hg.Rev) (int64, error) {
	chain, err := s.chain(nil, rev, hg.NullRev)
	var sum int64
	for _, r := range chain {
		sum += s.ChunkLen(r)
	}
	return sum, err
}

// checkRev tells whether the snapshot has rev.
func (s *Snapshot) checkRev(rev hg.Rev) error {
	if rev < 0 || rev >= s.n {
		return fmt.Errorf("rev %d of %q: %w", rev, s.log.radix, ErrNoRev)
	}
	return nil
}
