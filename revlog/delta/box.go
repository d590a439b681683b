package delta

// The lines that stay are a common subsequence of both texts, found by
// following the furthest paths through their edit graph from both ends until
// they meet (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986,
// section 4b), then the same again on either side of the meeting point.
//
// Where the ends have not met after maxCost edits, the graph is divided at the
// furthest point reached, so hostile texts cost maxCost steps a line.

// A box is a part of the edit graph: kept lines a0..a1 of a, b0..b1 of b.
type box struct{ a0, a1, b0, b1 int }

const (
	workSteps = 1 << 23 // about how many steps a diff may cost in all
	minCost   = 16
	maxCost   = 1024
)

// match pairs the lines that stay.
func (d *differ) match() {
	n := len(d.a.kept) + len(d.b.kept)
	if n == 0 {
		return
	}
	limit := min(max(workSteps/n, minCost), maxCost)
	size := 2*min(limit, n) + 4
	d.fwd.at, d.bwd.at = resize(d.fwd.at, size), resize(d.bwd.at, size)
	d.walk(box{0, len(d.a.kept), 0, len(d.b.kept)}, limit)
}

// walk pairs lines within x. The smaller half of a divided box is done by
// recursion, the larger in the loop, so the stack stays small.
func (d *differ) walk(x box, limit int) {
	for {
		x = d.trim(x)
		if x.a0 == x.a1 || x.b0 == x.b1 {
			return
		}
		i, j := d.divide(x, limit)
		left, right := box{x.a0, i, x.b0, j}, box{i, x.a1, j, x.b1}
		if left.size() > right.size() {
			left, right = right, left
		}
		d.walk(left, limit)
		x = right
	}
}

func (x box) size() int { return x.a1 - x.a0 + x.b1 - x.b0 }

// trim pairs equal lines at both ends of x and returns what is between.
func (d *differ) trim(x box) box {
	for x.a0 < x.a1 && x.b0 < x.b1 && d.same(x.a0, x.b0) {
		d.pair(x.a0, x.b0)
		x.a0, x.b0 = x.a0+1, x.b0+1
	}
	for x.a0 < x.a1 && x.b0 < x.b1 && d.same(x.a1-1, x.b1-1) {
		x.a1, x.b1 = x.a1-1, x.b1-1
		d.pair(x.a1, x.b1)
	}
	return x
}

// A front is how far the paths from one end of a box have come: for each
// diagonal (line of a minus line of b) the furthest line of a, or unreached.
type front struct {
	at    []int32
	first int // diagonal that at[len(at)/2] stands for: where the front began
}

const unreached = -1

func (f *front) slot(diagonal int) *int32 {
	return &f.at[len(f.at)/2+diagonal-f.first]
}

// start puts the front on one point.
func (f *front) start(i, diagonal int) {
	f.first = diagonal
	*f.slot(diagonal) = int32(i)
	*f.slot(diagonal - 1), *f.slot(diagonal + 1) = unreached, unreached
}

// widen makes room for the diagonals that edits edits lead to.
func (f *front) widen(edits int) {
	*f.slot(f.first - edits - 1), *f.slot(f.first + edits + 1) = unreached, unreached
}

// has returns the line reached on diagonal after at most edits edits.
func (f *front) has(diagonal, edits int) (i int, ok bool) {
	if diagonal < f.first-edits || diagonal > f.first+edits {
		return 0, false
	}
	v := *f.slot(diagonal)
	return int(v), v != unreached
}

// divide returns a point of x, which is trimmed and has lines on both sides:
// one on a shortest path through x, or a good one if that is longer than twice
// limit.
func (d *differ) divide(x box, limit int) (i, j int) {
	d.fwd.start(x.a0, x.a0-x.b0)
	d.bwd.start(x.a1, x.a1-x.b1)
	odd := (d.bwd.first-d.fwd.first)&1 != 0
	for edits := 1; edits <= limit; edits++ {
		d.fwd.widen(edits)
		for k := d.fwd.first - edits; k <= d.fwd.first+edits; k += 2 {
			i := d.forward(x, k)
			if b, ok := d.bwd.has(k, edits-1); ok && odd && i >= b {
				return i, i - k
			}
		}
		d.bwd.widen(edits)
		for k := d.bwd.first - edits; k <= d.bwd.first+edits; k += 2 {
			i := d.backward(x, k)
			if f, ok := d.fwd.has(k, edits); ok && !odd && i != unreached && f >= i {
				return i, i - k
			}
		}
	}
	return d.furthest(x, limit)
}

// forward moves the front on diagonal k on by one edit and all lines that are
// equal after it.
func (d *differ) forward(x box, k int) int {
	i := unreached
	if v := int(*d.fwd.slot(k - 1)); v != unreached && v < x.a1 {
		i = v + 1 // leaves out a line of a
	}
	if v := int(*d.fwd.slot(k + 1)); v > i && v-k <= x.b1 {
		i = v // takes in a line of b
	}
	if i != unreached {
		for i < x.a1 && i-k < x.b1 && d.same(i, i-k) {
			i++
		}
	}
	*d.fwd.slot(k) = int32(i)
	return i
}

// backward is forward from the other end.
func (d *differ) backward(x box, k int) int {
	i := unreached
	if v := int(*d.bwd.slot(k + 1)); v != unreached && v > x.a0 {
		i = v - 1
	}
	if v := int(*d.bwd.slot(k - 1)); v != unreached && v-k >= x.b0 && (i == unreached || v < i) {
		i = v
	}
	if i != unreached {
		for i > x.a0 && i-k > x.b0 && d.same(i-1, i-k-1) {
			i--
		}
	}
	*d.bwd.slot(k) = int32(i)
	return i
}

// furthest returns the point of either front that is the most lines away from
// where the front began.
func (d *differ) furthest(x box, edits int) (i, j int) {
	best := -1
	for n := -edits; n <= edits; n += 2 {
		k := d.fwd.first + n
		if v, ok := d.fwd.has(k, edits); ok && v-x.a0+v-k-x.b0 > best {
			best, i, j = v-x.a0+v-k-x.b0, v, v-k
		}
		k = d.bwd.first + n
		if v, ok := d.bwd.has(k, edits); ok && x.a1-v+x.b1-v+k > best {
			best, i, j = x.a1-v+x.b1-v+k, v, v-k
		}
	}
	return i, j
}
