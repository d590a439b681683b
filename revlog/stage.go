package revlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// Incoming is a revision as a changegroup carries it.
type Incoming struct {
	Node, P1, P2 hg.Node
	Link         hg.Node // the changeset that introduces it
	Base         hg.Node // what its delta applies to; NullNode is the empty text
	Flags        hg.RevFlags
}

// Staged is a revision that was verified and waits in a segment for a number.
// All others are named by node, so it can be numbered at any later time.
type Staged struct {
	Node, P1, P2 hg.Node
	Link         hg.Node
	Base         hg.Node // what the chunk is a delta against; Node itself if it is a full text
	Flags        hg.RevFlags
	TextLen      int64 // of the full text, in bytes
	Offset       int64 // of the chunk in the segment
	Length       int   // of the chunk, in bytes
}

// Segment is where a Stager puts chunks, and finds them again.
type Segment interface {
	io.ReaderAt
	// Append adds b at the end and returns where it begins. b is the
	// caller's again afterwards.
	Append(b []byte) (off int64, err error)
}

// Kind tells the logs of a store apart where their rules differ.
type Kind uint8

const (
	// Filelog revisions may be censored or externally stored.
	Filelog Kind = iota
	// Manifest texts compress badly, so their snapshots are judged sooner.
	Manifest
	// Changelog revisions are always stored as full texts.
	Changelog
)

// StageOptions tell how revisions are checked and stored.
type StageOptions struct {
	Kind Kind

	// Sparse stores by the rules of sparse-revlog: a chain may span the whole
	// file, and begins with snapshots of falling size. It is the requirement
	// of that name of the repository, and counts in logs with general delta.
	Sparse bool

	// Engine and Level compress chunks. Level 0 means hg's default.
	Engine chunk.Engine
	Level  int

	// MaxTextBytes is the longest full text to accept; a longer one is refused
	// with hg.ErrTooLarge. 0 means 2 GiB - 1, the limit of the format.
	MaxTextBytes int64

	// MaxChain is the longest chain to make, in deltas. 0 means 1000 with
	// Sparse, and no limit without, as in hg.
	MaxChain int

	// CacheBytes is how many bytes of full texts to keep, so that revisions of
	// several branches can alternate cheaply. 0 means 16 MiB. The last two
	// texts are kept in any case.
	CacheBytes int64
}

const (
	defaultMaxChain   = 1000
	defaultCacheBytes = 16 << 20
)

func (o StageOptions) withDefaults(generalDelta bool) StageOptions {
	o.Sparse = o.Sparse && generalDelta
	if o.MaxTextBytes == 0 || o.MaxTextBytes > maxChunkLen {
		o.MaxTextBytes = maxChunkLen
	}
	if o.MaxChain == 0 {
		o.MaxChain = math.MaxInt
		if o.Sparse {
			o.MaxChain = defaultMaxChain
		}
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	return o
}

// A MissingError means that a revision refers to one that is neither in the
// log nor came before it.
type MissingError struct {
	Log  string // as given to Open
	Node hg.Node
	What string // "unknown parent" or "unknown delta base"
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s@%v: %s", e.Log, e.Node, e.What)
}

// Unwrap returns hg.ErrMalformed: it was a client that sent the revision.
func (e *MissingError) Unwrap() error { return hg.ErrMalformed }

var (
	errNoNode      = fmt.Errorf("node can't be stored: %w", hg.ErrMalformed)
	errIntegrity   = fmt.Errorf("integrity check failed: %w", hg.ErrMalformed)
	errNotCensored = fmt.Errorf("flagged as censored, but is not: %w", hg.ErrMalformed)
	// Whoever receives such a text takes it for a tombstone, and refuses it
	// because its hash is right: nobody could clone the repository any more.
	errLooksCensored = fmt.Errorf("looks censored, but is not: %w", hg.ErrMalformed)
	errCensorBase    = fmt.Errorf("delta is not a full replacement of a censored base: %w", hg.ErrMalformed)
)

// A Stager verifies the revisions of one push for one log and stores them in a
// segment. It belongs to one goroutine and is used up with its snapshot and
// segment. It holds some texts (see StageOptions.CacheBytes) and about 250
// bytes for each revision.
//
// Within a Stager the revisions that it staged are numbered as if they were
// appended to the snapshot: that is what hg.Rev means in its methods.
type Stager struct {
	s   *Snapshot
	seg Segment
	o   StageOptions

	reader *Reader
	staged []Staged
	links  []links // of staged
	revs   map[hg.Node]hg.Rev
	end    int64 // of the data, if the staged chunks were appended

	texts     textCache
	snapshots snapshotIndex
	trial     trialBuffers
}

// links is what a Stager remembers of a staged revision, by number.
type links struct {
	p1, p2, base hg.Rev // base is the revision itself if the chunk is a full text
	chain        chainInfo
	offset       int64 // in the data, if it were appended
}

// NewStager returns a Stager of revisions to come after those of s.
func NewStager(s *Snapshot, seg Segment, o StageOptions) *Stager {
	return &Stager{
		s: s, seg: seg, o: o.withDefaults(s.GeneralDelta()),
		reader: s.Reader(-1),
		end:    s.DataEnd(),
	}
}

// Staged returns the staged revisions in order. The slice is read-only and
// valid until the next Add.
func (st *Stager) Staged() []Staged { return st.staged }

// HasNode reports whether node is in the log or staged. NullNode is.
func (st *Stager) HasNode(node hg.Node) bool {
	_, ok := st.rev(node)
	return ok
}

// Text returns the full text of a revision in the log or staged. It is
// read-only and valid until the next call of Add or Text.
func (st *Stager) Text(node hg.Node) ([]byte, error) {
	rev, ok := st.rev(node)
	if !ok {
		return nil, st.missing(node, "unknown revision")
	}
	var text []byte
	err := st.s.guard(func() (err error) {
		text, err = st.text(rev)
		return err
	})
	return text, err
}

// Add verifies one revision and stages it. delta is its delta against in.Base
// and not used after the call. text is read-only and valid until the next call
// of Add or Text. A revision that is in the log or staged already is skipped:
// known is true and text nil.
//
// What the client did wrong unwraps to hg.ErrMalformed or hg.ErrTooLarge;
// *MissingError is one such. After an error the Stager stands as before.
func (st *Stager) Add(in Incoming, delta []byte) (text []byte, known bool, err error) {
	err = st.s.guard(func() (err error) {
		if known = st.HasNode(in.Node) && !in.Node.IsNull(); !known {
			text, err = st.add(in, delta)
		}
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("revision %v of %q: %w", in.Node, st.s.Name(), err)
	}
	return text, known, nil
}

func (st *Stager) add(in Incoming, d []byte) ([]byte, error) {
	r, err := st.resolve(in, d)
	if err != nil {
		return nil, err
	}
	if r.text, err = st.rebuild(r.incoming, d); err != nil {
		return nil, err
	}
	if r.in.Flags, err = st.verify(r.in, r.text); err != nil {
		return nil, err
	}
	p, err := st.choose(r)
	if err != nil {
		return nil, err
	}
	return r.text, st.keep(r, p)
}

// A revision is one that is being added.
type revision struct {
	in       Incoming
	p1, p2   hg.Rev
	incoming hg.Rev // that in.Base is
	delta    []byte // against incoming
	text     []byte
}

// resolve finds the revisions that in refers to, and refuses what vcsd
// doesn't store.
func (st *Stager) resolve(in Incoming, d []byte) (*revision, error) {
	if in.Node.IsNull() || in.Node == hg.WorkingNode {
		return nil, errNoNode
	}
	if what := unsupportedFlags(in.Flags); what != "" {
		return nil, fmt.Errorf("unsupported %s: %w", what, hg.ErrMalformed)
	}
	if in.Flags&rawFlags != 0 && st.o.Kind != Filelog {
		return nil, fmt.Errorf("flags 0x%04x outside a file's log: %w", uint16(in.Flags), hg.ErrMalformed)
	}
	r := &revision{in: in, delta: d}
	var ok bool
	if r.p1, ok = st.rev(in.P1); !ok {
		return nil, st.missing(in.P1, "unknown parent")
	}
	if r.p2, ok = st.rev(in.P2); !ok {
		return nil, st.missing(in.P2, "unknown parent")
	}
	if r.incoming, ok = st.rev(in.Base); !ok {
		return nil, st.missing(in.Base, "unknown delta base")
	}
	return r, nil
}

func (st *Stager) missing(node hg.Node, what string) error {
	return &MissingError{st.s.Name(), node, what}
}

// rev is Snapshot.Rev with the staged revisions.
func (st *Stager) rev(node hg.Node) (hg.Rev, bool) {
	if rev, ok := st.revs[node]; ok {
		return rev, true
	}
	return st.s.Rev(node)
}

// keep writes the chosen chunk and remembers the revision.
func (st *Stager) keep(r *revision, p pick) error {
	rev := st.next()
	if rev == math.MaxInt32 {
		return fmt.Errorf("%d revisions: %w", rev, hg.ErrTooLarge)
	}
	off, err := st.seg.Append(p.chunk)
	if err != nil {
		return err
	}
	base := r.in.Node
	if p.base != rev {
		base = st.node(p.base)
	}
	st.staged = append(st.staged, Staged{
		Node: r.in.Node, P1: r.in.P1, P2: r.in.P2, Link: r.in.Link, Base: base, Flags: r.in.Flags,
		TextLen: int64(len(r.text)), Offset: off, Length: len(p.chunk),
	})
	st.links = append(st.links, links{r.p1, r.p2, p.base, p.chain, st.end})
	if st.revs == nil {
		st.revs = make(map[hg.Node]hg.Rev)
	}
	st.revs[r.in.Node] = rev
	st.end += int64(len(p.chunk))
	st.texts.put(rev, r.text, true, st.o.CacheBytes)
	st.snapshots.add(st, rev)
	st.trial.giveBack()
	return nil
}

// verify proves text by the node and returns the flags to store. It adds the
// flag to a tombstone that came without: changegroups before version 03 have
// no place for it.
func (st *Stager) verify(in Incoming, text []byte) (hg.RevFlags, error) {
	if in.Flags&hg.FlagExtStored != 0 {
		return in.Flags, nil // the hash is that of something else
	}
	matches := hg.HashText(in.P1, in.P2, text) == in.Node
	censored := in.Flags&hg.FlagCensored != 0
	switch {
	case matches && censored:
		return 0, errNotCensored
	case matches && st.o.Kind == Filelog && bytes.HasPrefix(text, tombstonePrefix):
		return 0, errLooksCensored
	case matches:
		return in.Flags, nil
	case st.o.Kind == Filelog && isTombstone(text) && (censored || in.Flags == 0):
		return in.Flags | hg.FlagCensored, nil
	}
	return 0, errIntegrity
}

// rebuild makes the text of an incoming revision.
func (st *Stager) rebuild(base hg.Rev, d []byte) ([]byte, error) {
	baseLen := st.textLen(base)
	if baseLen >= 0 {
		// A bad delta must cost no more than a look at its headers.
		if err := st.checkDelta(d, baseLen); err != nil {
			return nil, err
		}
		if text, ok := delta.IsReplace(d, int(baseLen)); ok {
			st.texts.makeRoom(st.o.CacheBytes)
			return append(st.texts.buffer(len(text)), text...), nil
		}
	}
	if st.flags(base)&hg.FlagCensored != 0 {
		return nil, errCensorBase
	}
	baseText, err := st.text(base)
	if err != nil {
		return nil, err
	}
	st.texts.makeRoom(st.o.CacheBytes)
	n, err := delta.Check(d, len(baseText))
	if err != nil || int64(n) > st.o.MaxTextBytes {
		n = 0 // Apply will refuse it
	}
	return delta.Apply(st.texts.buffer(n), baseText, d, st.o.MaxTextBytes)
}

func (st *Stager) checkDelta(d []byte, baseLen int64) error {
	n, err := delta.Check(d, int(baseLen))
	if err != nil {
		return err
	}
	if int64(n) > st.o.MaxTextBytes {
		return fmt.Errorf("text of %d bytes, limit %d: %w", n, st.o.MaxTextBytes, hg.ErrTooLarge)
	}
	return nil
}

var errShortSegment = errors.New("segment ends inside a chunk")
