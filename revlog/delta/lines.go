package delta

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// maxLines bounds the lines of each text that are told apart, and with them
// the memory of a diff: about 30 bytes a line. Of longer texts only the common lines
// at both ends are found.
const maxLines = 1 << 21

// keepLines is the size up to which a differ's memory is kept for the next.
const keepLines = 1 << 16

// A differ finds the lines that two texts have in common.
type differ struct {
	a, b side

	// table is a hash table of the lines of a: index of a line + 1.
	table []int32
	// shared tells, for the first line of a that has some content, whether b
	// has that content too.
	shared []bool

	fwd, bwd front // see box.go
}

// A side is one of the two texts.
type side struct {
	// ends holds the ends of the lines, in bytes; line i starts where i-1 ends.
	ends []int32
	// class of a line is the index of the first line of a with its content, or
	// -1 if it occurs in one text only. keep drops those.
	class []int32
	// kept holds the lines that occur in both texts; class[i] is that of
	// kept[i] after keep.
	kept []int32
	// only marks the lines without a partner in the other text.
	only []bool
}

var differs = sync.Pool{New: func() any { return new(differ) }}

func getDiffer() *differ { return differs.Get().(*differ) }

func (d *differ) release() {
	if cap(d.a.ends) <= keepLines && cap(d.b.ends) <= keepLines {
		differs.Put(d)
	}
}

// The seed differs from process to process, so nobody can prepare lines that
// collide.
var seed = maphash.MakeSeed()

// split divides both texts into lines and classes them. It reports false if
// there are too many.
func (d *differ) split(a, b []byte) bool {
	if !d.a.cut(a) || !d.b.cut(b) {
		return false
	}
	d.classify(a, b)
	d.a.keep()
	d.b.keep()
	return true
}

func (s *side) cut(text []byte) bool {
	s.ends = s.ends[:0]
	for at := 0; at < len(text); {
		if len(s.ends) == maxLines {
			return false
		}
		n := bytes.IndexByte(text[at:], '\n') + 1
		if n == 0 {
			n = len(text) - at
		}
		at += n
		s.ends = append(s.ends, int32(at))
	}
	n := len(s.ends)
	s.class = resize(s.class, n)
	s.only = resize(s.only, n)
	return true
}

// resize returns a slice of n elements with unspecified contents.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// line returns the i-th line of text, which has been cut.
func (s *side) line(text []byte, i int) []byte {
	return text[s.start(i):s.ends[i]]
}

func (s *side) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(s.ends[i-1])
}

func (d *differ) classify(a, b []byte) {
	size := 16
	for size < 2*len(d.a.ends) {
		size *= 2
	}
	d.table = resize(d.table, size)
	clear(d.table)
	d.shared = resize(d.shared, len(d.a.ends))
	clear(d.shared)
	for i := range d.a.ends {
		slot := d.find(a, d.a.line(a, i))
		if *slot == 0 {
			*slot = int32(i) + 1
		}
		d.a.class[i] = *slot - 1
	}
	for i := range d.b.ends {
		class := *d.find(a, d.b.line(b, i)) - 1
		d.b.class[i] = class
		if class >= 0 {
			d.shared[class] = true
		}
	}
	for i, class := range d.a.class {
		if !d.shared[class] {
			d.a.class[i] = -1
		}
	}
}

// find returns the slot of the lines of a that equal line, or the empty one
// where they would stand.
func (d *differ) find(a, line []byte) *int32 {
	mask := uint64(len(d.table) - 1)
	for h := maphash.Bytes(seed, line) & mask; ; h = (h + 1) & mask {
		slot := &d.table[h]
		if *slot == 0 || bytes.Equal(line, d.a.line(a, int(*slot)-1)) {
			return slot
		}
	}
}

// keep lists the lines that may have a partner, and marks all as having none.
func (s *side) keep() {
	s.kept = s.kept[:0]
	for i, class := range s.class {
		s.only[i] = true
		if class >= 0 {
			s.class[len(s.kept)] = class
			s.kept = append(s.kept, int32(i))
		}
	}
}

// pair notes that the i-th kept line of a and the j-th of b are partners.
func (d *differ) pair(i, j int) {
	d.a.only[d.a.kept[i]] = false
	d.b.only[d.b.kept[j]] = false
}

// same reports whether the i-th kept line of a equals the j-th of b.
func (d *differ) same(i, j int) bool {
	return d.a.class[i] == d.b.class[j]
}

// A gap shorter than this between two fragments costs less as data of one
// joined fragment than the header of another.
const joinGap = HeaderLen

// delta writes the fragments; the texts follow prefix bytes that are equal.
func (d *differ) delta(b []byte, prefix int) []byte {
	var w joiner
	w.b, w.prefix = b, prefix
	i, j := 0, 0
	for i < len(d.a.ends) || j < len(d.b.ends) {
		i0, j0 := i, j
		for i < len(d.a.ends) && d.a.only[i] {
			i++
		}
		for j < len(d.b.ends) && d.b.only[j] {
			j++
		}
		if i > i0 || j > j0 {
			w.add(d.a.start(i0), d.a.start(i), d.b.start(j0), d.b.start(j))
			continue
		}
		i, j = i+1, j+1
	}
	return w.flush()
}

// A joiner collects replaced ranges and joins those that are close.
type joiner struct {
	b      []byte
	prefix int
	out    []byte

	some                       bool
	startA, endA, startB, endB int // pending
}

func (w *joiner) add(startA, endA, startB, endB int) {
	if w.some && startA-w.endA <= joinGap {
		w.endA, w.endB = endA, endB
		return
	}
	w.flush()
	w.some = true
	w.startA, w.endA, w.startB, w.endB = startA, endA, startB, endB
}

func (w *joiner) flush() []byte {
	if w.some {
		w.out = AppendFragment(w.out, Fragment{
			w.prefix + w.startA, w.prefix + w.endA, w.b[w.startB:w.endB],
		})
	}
	return w.out
}
