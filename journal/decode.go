package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"vcsd/hg"
)

var (
	errMagic    = errors.New("not a record of a version that is known")
	errShort    = errors.New("ends too early")
	errTrailing = errors.New("bytes after the end")
	errChecksum = errors.New("wrong checksum")
	errVarint   = errors.New("number not in its shortest form")
	errRange    = errors.New("number out of range")
	errSegments = errors.New("segment table doesn't match its use")
)

// Decode reads a record from its encoding. The record's data are parts of b,
// which must not change afterwards. Memory is bounded by the length of b.
func Decode(b []byte) (*Record, error) {
	r, h, d, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	for i := range h.pushes {
		if err := r.decodePush(d.section(sectionPush)); err != nil {
			return nil, fmt.Errorf("push %d: %w", i, err)
		}
	}
	segs := &segmentTable{names: h.segments}
	for i := range h.writes {
		if err := r.decodeWrite(d.section(sectionWrite), segs); err != nil {
			return nil, fmt.Errorf("write %d: %w", i, err)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if segs.used != len(segs.names) {
		return nil, errSegments
	}
	return r, r.Validate()
}

// header is what the header section says about the rest.
type header struct {
	segments       []string
	pushes, writes int
}

// decodeHeader reads the magic and the header section; b may end after them.
// The decoder it returns stands at the next section.
func decodeHeader(b []byte) (*Record, header, *decoder, error) {
	var h header
	if len(b) < len(magic) || string(b[:len(magic)]) != magic {
		return nil, h, nil, errMagic
	}
	rest := &decoder{b: b[len(magic):]}
	d := rest.section(sectionHeader)
	r := &Record{Seq: d.uvarint()}
	d.fixed(r.Prev[:])
	r.Time = d.time()
	r.Node = d.string()
	r.Kind = Kind(d.byte())
	r.ChangelogLen = d.int()
	d.fixed(r.Tip[:])
	n := d.count(1)
	seen := make(map[string]bool, n)
	for range n {
		s := d.string()
		if seen[s] {
			d.fail(errSegments)
		}
		seen[s] = true
		h.segments = append(h.segments, s)
	}
	h.pushes, h.writes = d.int(), d.int()
	if err := d.end(); err != nil {
		return nil, h, nil, fmt.Errorf("header: %w", err)
	}
	return r, h, rest, nil
}

func (r *Record) decodePush(d *decoder) error {
	var p Push
	d.fixed(p.ID[:])
	p.User, p.Remote, p.Source = d.string(), d.string(), d.string()
	p.Time = d.time()
	for range d.count(3) {
		h := BranchHeads{Branch: d.string()}
		h.Old, h.New = d.nodes(), d.nodes()
		p.Heads = append(p.Heads, h)
	}
	for range d.count(1 + 2*hg.NodeLen) {
		m := BookmarkMove{Name: d.string()}
		d.fixed(m.Old[:])
		d.fixed(m.New[:])
		p.Bookmarks = append(p.Bookmarks, m)
	}
	for range d.count(2) {
		p.Phases = append(p.Phases, PhaseMove{Phase: hg.Phase(d.byte()), Nodes: d.nodes()})
	}
	p.ObsMarkers = d.int()
	p.FirstRev = d.rev()
	p.Changesets = d.int()
	r.Pushes = append(r.Pushes, p)
	return d.end()
}

func (r *Record) decodeWrite(d *decoder, segs *segmentTable) error {
	w := Write{Op: Op(d.byte()), Path: d.string(), DataPath: d.string()}
	w.Offset, w.Length = d.int64(), d.int64()
	w.Sum = d.uint32()
	if n := d.count(2); n > 0 {
		w.Parts = make([]Part, n)
	}
	for i := range w.Parts {
		w.Parts[i] = d.part(segs)
	}
	r.Writes = append(r.Writes, w)
	return d.end()
}

func (d *decoder) part(segs *segmentTable) Part {
	switch d.byte() {
	case partLiteral:
		return Part{Data: d.bytes()}
	case partRange:
		name, ok := segs.name(d.int())
		if !ok {
			d.fail(errSegments)
		}
		return Part{Segment: name, Offset: d.int64(), Length: d.int64()}
	}
	d.fail(errRange)
	return Part{}
}

// segmentTable checks that segments are numbered by their first use.
type segmentTable struct {
	names []string
	used  int
}

func (s *segmentTable) name(i int) (string, bool) {
	if i > s.used || i >= len(s.names) {
		return "", false
	}
	s.used = max(s.used, i+1)
	return s.names[i], true
}

// decoder reads values off the front of b. After the first error it returns
// zero values only.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = errTrailing
	}
	return d.err
}

// section returns a decoder of the next section's payload.
func (d *decoder) section(kind byte) *decoder {
	start := d.b
	if got := d.byte(); d.err == nil && got != kind {
		d.fail(fmt.Errorf("section %q where %q is due", got, kind))
	}
	payload := d.bytes()
	framed := len(start) - len(d.b)
	sum := d.uint32()
	if d.err == nil && sum != crc32.Checksum(start[:framed], castagnoli) {
		d.fail(errChecksum)
	}
	return &decoder{b: payload, err: d.err}
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail(errShort)
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed(to []byte) { copy(to, d.take(len(to))) }

func (d *decoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.varint(n)
	return v * uint64(min(1, max(0, n)))
}

// varint takes the n bytes of a number, or says what is wrong with it.
func (d *decoder) varint(n int) {
	switch {
	case d.err != nil:
	case n == 0:
		d.fail(errShort)
	case n < 0 || n > 1 && d.b[n-1] == 0:
		d.fail(errVarint)
	default:
		d.b = d.b[n:]
	}
}

func (d *decoder) svarint() int64 {
	v, n := binary.Varint(d.b)
	d.varint(n)
	if d.err != nil {
		return 0
	}
	return v
}

func (d *decoder) int64() int64 {
	v := d.uvarint()
	if v > math.MaxInt64 {
		d.fail(errRange)
		return 0
	}
	return int64(v)
}

func (d *decoder) int() int {
	v := d.uvarint()
	if v > math.MaxInt32 {
		d.fail(errRange)
		return 0
	}
	return int(v)
}

func (d *decoder) rev() hg.Rev {
	v := d.svarint()
	if v < int64(hg.NullRev) || v > math.MaxInt32 {
		d.fail(errRange)
		return 0
	}
	return hg.Rev(v)
}

// count reads how many elements follow, each of at least min bytes.
func (d *decoder) count(min int) int {
	n := d.int()
	if n > len(d.b)/min {
		d.fail(errShort)
		return 0
	}
	return n
}

// bytes returns a byte string; an empty one is not nil.
func (d *decoder) bytes() []byte {
	b := d.take(d.count(1))
	if b == nil {
		return []byte{}
	}
	return b
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) nodes() []hg.Node {
	n := d.count(hg.NodeLen)
	if n == 0 {
		return nil
	}
	nodes := make([]hg.Node, n)
	for i := range nodes {
		d.fixed(nodes[i][:])
	}
	return nodes
}

func (d *decoder) time() time.Time {
	sec, nsec := d.svarint(), d.int()
	if nsec >= int(time.Second) {
		d.fail(errRange)
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}
