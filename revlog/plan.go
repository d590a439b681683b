package revlog

import (
	"fmt"
	"math"

	"vcsd/hg"
	"vcsd/revlog/chunk"
)

// SegmentID names a segment among those whose revisions are planned together.
// The caller chooses it.
type SegmentID int32

// PlanOptions give a Planner access to what was staged.
type PlanOptions struct {
	// Chunk returns n bytes of a segment at off. It is asked for the chunks
	// that go into an inline log. The Planner keeps the slice.
	Chunk func(seg SegmentID, off int64, n int) ([]byte, error)

	// Text returns the full text of a revision that was staged in seg. It is
	// asked where a staged delta can't be used: in a log without general delta
	// whose previous revision is another one now. The Planner doesn't keep the
	// slice. Without it such a revision is an error.
	Text func(seg SegmentID, node hg.Node) ([]byte, error)

	// Engine and Level compress such texts; see StageOptions.
	Engine chunk.Engine
	Level  int
}

// A Planner numbers staged revisions of one or more pushes and says which
// bytes to write where to append them to a log. It changes nothing. The same
// revisions in the same order, on a log of the same size, make the same plan.
// It belongs to one goroutine and is used up with its snapshot.
type Planner struct {
	s *Snapshot
	o PlanOptions

	revs  []planned
	index map[hg.Node]hg.Rev
	end   int64 // of the data with the planned revisions

	// replaced holds nodes that were staged with a text other than the one that
	// the log has (a tombstone on one side): deltas against them are void.
	replaced map[hg.Node]bool
}

// A planned revision is an entry and its chunk.
type planned struct {
	entryFields
	seg SegmentID
	at  int64  // of the chunk in seg
	own []byte // the chunk, if it isn't that of the segment
}

// NewPlanner returns a Planner of revisions to come after those of s.
func NewPlanner(s *Snapshot, o PlanOptions) *Planner {
	return &Planner{s: s, o: o, end: s.DataEnd(), index: make(map[hg.Node]hg.Rev)}
}

// Rev returns the rev of a node in the log or planned. NullNode is known as
// NullRev.
func (p *Planner) Rev(node hg.Node) (hg.Rev, bool) {
	if rev, ok := p.index[node]; ok {
		return rev, true
	}
	return p.s.Rev(node)
}

// Len returns the number of revisions with the planned ones.
func (p *Planner) Len() int { return p.s.Len() + len(p.revs) }

// Add plans the next revision, whose chunk is in seg. A node that is in the
// log or planned already is skipped: added is false and rev is the one it has.
// Parents and delta base must be known by then; *MissingError names what isn't.
func (p *Planner) Add(seg SegmentID, st Staged, linkrev hg.Rev) (rev hg.Rev, added bool, err error) {
	err = p.s.guard(func() (err error) {
		rev, added, err = p.add(seg, st, linkrev)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("plan revision %v of %q: %w", st.Node, p.s.Name(), err)
	}
	return rev, added, nil
}

func (p *Planner) add(seg SegmentID, st Staged, linkrev hg.Rev) (hg.Rev, bool, error) {
	if rev, ok := p.Rev(st.Node); ok {
		if p.flags(rev)&rawFlags != st.Flags&rawFlags {
			p.replace(st.Node)
		}
		return rev, false, nil
	}
	n := p.Len()
	if n == math.MaxInt32 || st.TextLen > maxChunkLen || st.Length > maxChunkLen {
		return 0, false, fmt.Errorf("rev %d, text of %d bytes, chunk of %d: %w", n, st.TextLen, st.Length, hg.ErrTooLarge)
	}
	r := planned{seg: seg, at: st.Offset, entryFields: entryFields{
		Offset: p.end, Flags: st.Flags, ChunkLen: int32(st.Length), TextLen: int32(st.TextLen),
		Link: linkrev, Node: st.Node,
	}}
	if err := p.link(&r, st); err != nil {
		return 0, false, err
	}
	rev := hg.Rev(n)
	p.revs = append(p.revs, r)
	p.index[st.Node] = rev
	p.end += int64(r.ChunkLen)
	return rev, true, nil
}

func (p *Planner) replace(node hg.Node) {
	if p.replaced == nil {
		p.replaced = make(map[hg.Node]bool)
	}
	p.replaced[node] = true
}

func (p *Planner) flags(rev hg.Rev) hg.RevFlags {
	if i := int(rev) - p.s.Len(); i >= 0 {
		return p.revs[i].Flags
	}
	if rev == hg.NullRev {
		return 0
	}
	return p.s.Flags(rev)
}

// link fills in the revisions that the entry of r refers to.
func (p *Planner) link(r *planned, st Staged) error {
	var ok bool
	if r.P1, ok = p.Rev(st.P1); !ok {
		return &MissingError{p.s.Name(), st.P1, "unknown parent"}
	}
	if r.P2, ok = p.Rev(st.P2); !ok {
		return &MissingError{p.s.Name(), st.P2, "unknown parent"}
	}
	rev := hg.Rev(p.Len())
	if st.Base == st.Node {
		r.Base = rev
		return nil
	}
	base, ok := p.Rev(st.Base)
	if !ok {
		return &MissingError{p.s.Name(), st.Base, "unknown delta base"}
	}
	if p.replaced[st.Base] || !p.s.GeneralDelta() && base != rev-1 {
		return p.makeFull(r, rev)
	}
	if !p.s.GeneralDelta() {
		base = p.storedBase(base)
	}
	r.Base = base
	return nil
}

// storedBase returns what the entry of rev says as its base. Without general
// delta that is where its chain starts.
func (p *Planner) storedBase(rev hg.Rev) hg.Rev {
	if i := int(rev) - p.s.Len(); i >= 0 {
		return p.revs[i].Base
	}
	return p.s.entry(rev).base()
}

// makeFull turns r into a full text.
func (p *Planner) makeFull(r *planned, rev hg.Rev) error {
	if p.o.Text == nil {
		return fmt.Errorf("delta against another revision than %d: its text is needed", rev-1)
	}
	text, err := p.o.Text(r.seg, r.Node)
	if err != nil {
		return err
	}
	if len(text) != int(r.TextLen) {
		return fmt.Errorf("text of %d bytes, staged were %d", len(text), r.TextLen)
	}
	r.own = chunk.Encode(nil, text, p.o.Engine, p.o.Level)
	r.ChunkLen = int32(len(r.own))
	r.Base = rev
	return nil
}
