package delta

import (
	"bytes"
	"math"
)

// Diff returns a delta that makes b out of a. It is empty if they are equal.
//
// Fragments replace whole lines, as readers of manifests expect: Mercurial
// parses the data of a manifest's delta as manifest lines. The time is about
// linear in the lengths of a and b, whatever they hold; where the shortest
// delta would cost more, a longer one is returned.
func Diff(a, b []byte) []byte {
	out, _ := DiffWithin(a, b, math.MaxInt)
	return out
}

// DiffWithin is Diff, unless the delta is longer than most bytes: then it
// returns false, where it can without making the delta.
func DiffWithin(a, b []byte, most int) (delta []byte, ok bool) {
	if len(a) == 0 && len(b) == 0 {
		return nil, true
	}
	prefix, suffix := common(a, b)
	if prefix == len(a) && prefix == len(b) {
		return nil, true
	}
	midA, midB := a[prefix:len(a)-suffix], b[prefix:len(b)-suffix]
	whole := Fragment{prefix, len(a) - suffix, midB}
	if len(midA) == 0 || len(midB) == 0 {
		return whole.within(nil, most)
	}
	d := getDiffer()
	defer d.release()
	if !d.split(midA, midB) || len(d.b.kept) == 0 {
		return whole.within(nil, most)
	}
	d.match()
	out := d.delta(midB, prefix)
	if len(out) > HeaderLen+len(midB) {
		return whole.within(out[:0], most)
	}
	return out, len(out) <= most
}

// within appends the encoding of f to dst, if it takes no more than most bytes.
func (f Fragment) within(dst []byte, most int) ([]byte, bool) {
	if HeaderLen+len(f.Data) > most {
		return nil, false
	}
	return AppendFragment(dst, f), true
}

// common returns the lengths of the whole lines that a and b share at their
// starts and at their ends. The two never overlap.
func common(a, b []byte) (prefix, suffix int) {
	n := min(len(a), len(b))
	prefix = matchLen(a[:n], b[:n])
	if prefix == len(a) && prefix == len(b) {
		return prefix, 0
	}
	prefix = bytes.LastIndexByte(a[:prefix], '\n') + 1
	a, b = a[prefix:], b[prefix:]
	n = min(len(a), len(b))
	suffix = matchLenBack(a[len(a)-n:], b[len(b)-n:])
	return prefix, wholeLines(a, b, suffix)
}

// wholeLines shortens a common suffix of a and b, both of which start at a
// line, until it starts at a line of both.
func wholeLines(a, b []byte, suffix int) int {
	if startsLine(a, len(a)-suffix) && startsLine(b, len(b)-suffix) {
		return suffix
	}
	nl := bytes.IndexByte(a[len(a)-suffix:], '\n')
	if nl < 0 {
		return 0
	}
	return suffix - nl - 1
}

func startsLine(text []byte, at int) bool { return at == 0 || text[at-1] == '\n' }

// stride is how much of two texts is compared at once before the place of the
// difference is looked for.
const stride = 64

func matchLen(a, b []byte) int {
	i := 0
	for i+stride <= len(a) && bytes.Equal(a[i:i+stride], b[i:i+stride]) {
		i += stride
	}
	for i < len(a) && a[i] == b[i] {
		i++
	}
	return i
}

func matchLenBack(a, b []byte) int {
	i := len(a)
	for i >= stride && bytes.Equal(a[i-stride:i], b[i-stride:i]) {
		i -= stride
	}
	for i > 0 && a[i-1] == b[i-1] {
		i--
	}
	return len(a) - i
}

// AlignedToLines reports whether each fragment of delta replaces whole lines
// of base by whole lines, as those that Diff makes. A delta that doesn't fit
// base is not aligned.
func AlignedToLines(base, delta []byte) bool {
	aligned := true
	err := Walk(delta, len(base), func(f Fragment) bool {
		aligned = startsLine(base, f.Start) &&
			(f.End == len(base) || startsLine(base, f.End) && endsLine(f.Data))
		return aligned
	})
	return err == nil && aligned
}

func endsLine(data []byte) bool { return len(data) == 0 || data[len(data)-1] == '\n' }
