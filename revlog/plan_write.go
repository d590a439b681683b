package revlog

import (
	"fmt"

	"vcsd/hg"
)

// maxInlineBytes is the length of an inline log's chunks at which hg splits it.
const maxInlineBytes = 131072

// A Plan is what to write to append revisions to a log.
type Plan struct {
	// Writes are to be done in order. Chunks come before the entries that point
	// to them, so that a reader who sees an entry finds its chunk.
	Writes []Write
	// Size is that of the log afterwards, for Log.Extend.
	Size Size
}

// WriteKind tells what a Write does.
type WriteKind uint8

const (
	// Append writes the bytes of Parts at Offset, where the file ends.
	Append WriteKind = iota
	// Split turns an inline log into one with a data file, as SplitInline says.
	// Path is its index, of which the first Offset bytes are the log. Nothing
	// is to be done where the log is split already.
	Split
)

func (k WriteKind) String() string {
	if k == Split {
		return "split"
	}
	return "append"
}

// A Write is one change of a file.
type Write struct {
	Path   string // of the index or the data file, as Open was told
	Data   string // of a Split: the data file that it makes
	Kind   WriteKind
	Offset int64
	Parts  []Part
}

// Len returns how many bytes the parts have.
func (w *Write) Len() int64 {
	var n int64
	for _, p := range w.Parts {
		n += p.Len()
	}
	return n
}

// A Part is a run of bytes: Data, or if that is nil a range of a segment.
type Part struct {
	Data    []byte
	Segment SegmentID
	Offset  int64
	Length  int64
}

// Len returns how many bytes the part has.
func (p *Part) Len() int64 {
	if p.Data != nil {
		return int64(len(p.Data))
	}
	return p.Length
}

// Plan returns what to write for the revisions added so far. Without any it is
// empty.
func (p *Planner) Plan() (Plan, error) {
	if len(p.revs) == 0 {
		return Plan{Size: p.s.Size()}, nil
	}
	if p.end >= 1<<48 {
		return Plan{}, fmt.Errorf("data of %q, %d bytes: %w", p.s.Name(), p.end, hg.ErrTooLarge)
	}
	if p.s.hdr.inline() && p.end < maxInlineBytes {
		return p.inlinePlan()
	}
	return p.splitPlan(), nil
}

// inlinePlan appends entries and chunks in turn.
func (p *Planner) inlinePlan() (Plan, error) {
	var b []byte
	for i := range p.revs {
		r := &p.revs[i]
		b = p.appendEntry(b, i, p.s.hdr)
		c, err := p.chunk(r)
		if err != nil {
			return Plan{}, err
		}
		b = append(b, c...)
	}
	old := p.s.Size().IndexBytes
	return Plan{
		Writes: []Write{{Path: p.s.log.indexName(), Offset: old, Parts: []Part{{Data: b}}}},
		Size:   Size{Revs: p.Len(), Inline: true, IndexBytes: old + int64(len(b))},
	}, nil
}

func (p *Planner) chunk(r *planned) ([]byte, error) {
	if r.own != nil || r.ChunkLen == 0 {
		return r.own, nil
	}
	c, err := p.o.Chunk(r.seg, r.at, int(r.ChunkLen))
	if err == nil && len(c) != int(r.ChunkLen) {
		err = fmt.Errorf("chunk of %d bytes, want %d", len(c), r.ChunkLen)
	}
	return c, err
}

// splitPlan appends the chunks to the data file and the entries to the index.
// A log that was inline is split before, unless it is new.
func (p *Planner) splitPlan() Plan {
	old := p.s.Size()
	hdr := p.s.hdr &^ headerInline
	var writes []Write
	if old.Inline && old.Revs > 0 {
		writes = append(writes, Write{
			Path: p.s.log.indexName(), Data: p.s.log.dataName(), Kind: Split, Offset: old.IndexBytes,
		})
	}
	if parts := p.dataParts(); len(parts) > 0 {
		writes = append(writes, Write{Path: p.s.log.dataName(), Offset: p.s.DataEnd(), Parts: parts})
	}
	index := make([]byte, 0, len(p.revs)*entrySize)
	for i := range p.revs {
		index = p.appendEntry(index, i, hdr)
	}
	offset := int64(old.Revs) * entrySize
	writes = append(writes, Write{Path: p.s.log.indexName(), Offset: offset, Parts: []Part{{Data: index}}})
	return Plan{writes, Size{Revs: p.Len(), IndexBytes: offset + int64(len(index)), DataBytes: p.end}}
}

// appendEntry appends the entry of the i-th planned revision.
func (p *Planner) appendEntry(b []byte, i int, hdr header) []byte {
	start := len(b)
	b = p.revs[i].append(b)
	if p.s.Len()+i == 0 {
		putHeader(b[start:], hdr)
	}
	return b
}

// dataParts returns where the chunks are; neighbours in a segment are one part.
func (p *Planner) dataParts() []Part {
	var parts []Part
	for i := range p.revs {
		r := &p.revs[i]
		if r.ChunkLen == 0 {
			continue
		}
		if r.own != nil {
			parts = append(parts, Part{Data: r.own})
			continue
		}
		if n := len(parts); n > 0 {
			last := &parts[n-1]
			if last.Data == nil && last.Segment == r.seg && last.Offset+last.Length == r.at {
				last.Length += int64(r.ChunkLen)
				continue
			}
		}
		parts = append(parts, Part{Segment: r.seg, Offset: r.at, Length: int64(r.ChunkLen)})
	}
	return parts
}

// SplitInline divides the bytes of an inline log into those of an index and of
// a data file, as hg does when a log outgrows the inline form. Both are new.
// Nothing is known of the entries but their order and the chunks' lengths; a
// log that is not inline, or ends inside a revision, is a *CorruptError.
func SplitInline(inline []byte) (index, data []byte, err error) {
	if len(inline) < headerSize {
		return nil, nil, &CorruptError{"", hg.NullRev, errNotInline}
	}
	hdr := readHeader(inline)
	if hdr.unsupported() != "" || !hdr.inline() {
		return nil, nil, &CorruptError{"", hg.NullRev, errNotInline}
	}
	for rev := hg.Rev(0); len(inline) > 0; rev++ {
		if len(inline) < entrySize {
			return nil, nil, &CorruptError{"", rev, errOffset}
		}
		n := int64((*entry)(inline).chunkLen())
		if n < 0 || n > int64(len(inline)-entrySize) {
			return nil, nil, &CorruptError{"", rev, errOffset}
		}
		index = append(index, inline[:entrySize]...)
		data = append(data, inline[entrySize:entrySize+n]...)
		inline = inline[entrySize+n:]
	}
	putHeader(index, hdr&^headerInline)
	return index, data, nil
}

var errNotInline = fmt.Errorf("log is not inline")
