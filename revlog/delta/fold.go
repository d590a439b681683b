package delta

// Fold returns one delta that does what deltas do one after the other to a
// base of baseLen bytes. The error wraps hg.ErrMalformed if one of them doesn't
// fit the text before it, or hg.ErrTooLarge if that is longer than maxLen.
func Fold(baseLen int, deltas [][]byte, maxLen int64) ([]byte, error) {
	lens, _, err := chainLens(baseLen, deltas, maxLen)
	if err != nil {
		return nil, err
	}
	frags := merged(fold(deltas, lens))
	size := 0
	for _, f := range frags {
		size += HeaderLen + f.size()
	}
	dst := make([]byte, 0, size)
	for _, f := range frags {
		dst = appendHeader(dst, f.start, f.end, f.size())
		for _, d := range f.data {
			dst = append(dst, d...)
		}
	}
	return dst, nil
}

// A joined is a run of fragments that touch, made one.
type joined struct {
	start, end int
	data       [][]byte
}

func (j *joined) size() int {
	n := 0
	for _, d := range j.data {
		n += len(d)
	}
	return n
}

func merged(frags []Fragment) []joined {
	var out []joined
	for _, f := range frags {
		if n := len(out); n > 0 && out[n-1].end == f.Start {
			out[n-1].end = f.End
			out[n-1].data = append(out[n-1].data, f.Data)
			continue
		}
		out = append(out, joined{f.Start, f.End, [][]byte{f.Data}})
	}
	return out
}

// fold combines neighbours first, so that each fragment is copied about log n
// times. lens[i] is the length of the text before deltas[i]; all deltas have
// been checked against it.
func fold(deltas [][]byte, lens []int) []Fragment {
	switch len(deltas) {
	case 0:
		return nil
	case 1:
		return parse(deltas[0], lens[0])
	}
	mid := len(deltas) / 2
	return combine(fold(deltas[:mid], lens[:mid]), fold(deltas[mid:], lens[mid:]))
}

func parse(delta []byte, baseLen int) []Fragment {
	var frags []Fragment
	// The delta has been checked, so there is no error to see here.
	_ = Walk(delta, baseLen, func(f Fragment) bool {
		frags = append(frags, f)
		return true
	})
	return frags
}

// combine returns the fragments that do what first and then second do.
func combine(first, second []Fragment) []Fragment {
	out := make([]Fragment, 0, len(first)+len(second))
	c := cursor{rest: first}
	for _, f := range second {
		out = c.emit(out, f.Start)
		start := c.base
		c.skip(f.End)
		out = append(out, Fragment{start, c.base, f.Data})
	}
	if len(c.open) > 0 {
		out = append(out, Fragment{c.base, c.base, c.open})
	}
	return append(out, c.rest...)
}

// A cursor walks through the text between two deltas: a mix of ranges of the
// base and of data of the first delta's fragments.
type cursor struct {
	rest []Fragment // not yet reached
	open []byte     // what is left of the data of the last fragment reached
	pos  int        // place in the text between
	base int        // place in the base that corresponds to it
}

// emit goes on to place to in the text between and appends the fragments on
// the way; one that to cuts is divided.
func (c *cursor) emit(out []Fragment, to int) []Fragment {
	for c.pos < to {
		if n := min(len(c.open), to-c.pos); n > 0 {
			out = append(out, Fragment{c.base, c.base, c.open[:n]})
			c.open, c.pos = c.open[n:], c.pos+n
			continue
		}
		if c.copy(to) {
			continue
		}
		f := c.take()
		n := min(len(f.Data), to-c.pos)
		out = append(out, Fragment{f.Start, f.End, f.Data[:n]})
		c.open, c.pos = f.Data[n:], c.pos+n
	}
	return out
}

// skip goes on to place to without appending anything.
func (c *cursor) skip(to int) {
	for c.pos < to {
		if n := min(len(c.open), to-c.pos); n > 0 {
			c.open, c.pos = c.open[n:], c.pos+n
			continue
		}
		if c.copy(to) {
			continue
		}
		f := c.take()
		n := min(len(f.Data), to-c.pos)
		c.open, c.pos = f.Data[n:], c.pos+n
	}
}

// copy advances over bytes of the base, up to the next fragment or to place
// to. It reports whether there were any.
func (c *cursor) copy(to int) bool {
	n := to - c.pos
	if len(c.rest) > 0 {
		n = min(n, c.rest[0].Start-c.base)
	}
	c.pos, c.base = c.pos+n, c.base+n
	return n > 0
}

// take removes the next fragment, which starts here.
func (c *cursor) take() Fragment {
	f := c.rest[0]
	c.rest = c.rest[1:]
	c.base = f.End
	return f
}
