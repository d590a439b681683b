package chunk

import (
	"math/bits"
	"sync"
)

// A table entry tells what a code means. The low bits of the input are looked
// up in a table of 1<<root entries; an entry for codes longer than that points
// to a second table, which the bits that follow are looked up in.
//
//	31        16 15    12  11-8   7-0
//	+-----------+--------+-------+------+
//	| value     | op     | extra | bits |
//	+-----------+--------+-------+------+
//
// value is a literal, the base of a length or distance, or the place of the
// second table; extra how many bits are to be added to value, or looked up; bits
// the length of the code.
type tableEntry uint32

const (
	opLiteral tableEntry = 1 << 12
	opSub     tableEntry = 1 << 13
	opEnd     tableEntry = 1 << 14
	opBad     tableEntry = 1 << 15 // no such code
)

func (e tableEntry) bits() uint    { return uint(e & 0xff) }
func (e tableEntry) extra() uint   { return uint(e >> 8 & 15) }
func (e tableEntry) value() uint16 { return uint16(e >> 16) }

func entryOf(value, extra int, op tableEntry) tableEntry {
	return tableEntry(value)<<16 | op | tableEntry(extra)<<8
}

// The limits of RFC 1951.
const (
	maxCodeBits   = 15
	endOfBlock    = 256
	numLit        = 286 // used; fixed codes have two more
	numLitFixed   = 288
	numDist       = 30
	numDistFixed  = 32
	numLengthCode = 19
	lengthBits    = 7 // of the codes for code lengths
)

// Sizes of tables: the next power of two above what 288 and 32 codes of up to
// 15 bits can need with these roots.
const (
	litRoot     = 9
	litEntries  = 2048
	distRoot    = 6
	distEntries = 1024
)

type litTable struct {
	root    uint
	entries [litEntries]tableEntry
}

type distTable struct {
	root    uint
	entries [distEntries]tableEntry
}

// meanings of symbols, without the bits of their codes.
var (
	litMeaning    [numLitFixed]tableEntry
	distMeaning   [numDistFixed]tableEntry
	lengthMeaning [numLengthCode]tableEntry
)

func init() {
	for i := range litMeaning {
		litMeaning[i] = litEntry(i)
	}
	for i := range distMeaning {
		distMeaning[i] = distEntry(i)
	}
	for i := range lengthMeaning {
		lengthMeaning[i] = entryOf(i, 0, 0)
	}
}

// litEntry returns what symbol i of literals and lengths means (RFC 1951,
// 3.2.5): lengths go up by 1, then four times each by 2, 4, 8, ...
func litEntry(i int) tableEntry {
	switch {
	case i < endOfBlock:
		return entryOf(i, 0, opLiteral)
	case i == endOfBlock:
		return entryOf(0, 0, opEnd)
	case i < 265:
		return entryOf(i-257+3, 0, 0)
	case i < 285:
		extra := (i - 261) / 4
		return entryOf(3+(4+(i-261)%4)<<extra, extra, 0)
	case i == 285:
		return entryOf(maxMatch, 0, 0)
	}
	return entryOf(0, 0, opBad)
}

// distEntry returns what symbol i of distances means: they go up by 1, then
// twice each by 2, 4, 8, ...
func distEntry(i int) tableEntry {
	switch {
	case i < 4:
		return entryOf(i+1, 0, 0)
	case i < numDist:
		extra := i/2 - 1
		return entryOf(1+(2+i%2)<<extra, extra, 0)
	}
	return entryOf(0, 0, opBad)
}

// fixed are the tables of blocks without their own (RFC 1951, 3.2.6).
type fixed struct {
	lit  litTable
	dist distTable
}

var fixedTables = sync.OnceValue(func() *fixed {
	t := new(fixed)
	var lens [numLitFixed]uint8
	for i := range lens {
		switch {
		case i < 144:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		case i < 280:
			lens[i] = 7
		default:
			lens[i] = 8
		}
	}
	t.lit.root, _ = buildTable(t.lit.entries[:], lens[:], litMeaning[:], litRoot)
	var dist [numDistFixed]uint8
	for i := range dist {
		dist[i] = 5
	}
	t.dist.root, _ = buildTable(t.dist.entries[:], dist[:], distMeaning[:], distRoot)
	return t
})

// lengthOrder is the order in which the lengths of the codes for lengths come.
var lengthOrder = [numLengthCode]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// readTables reads the codes of a block that has its own (RFC 1951, 3.2.7).
func (z *inflater) readTables() error {
	v, err := z.bits(14)
	if err != nil {
		return err
	}
	nlit, ndist, nlen := int(v&31)+257, int(v>>5&31)+1, int(v>>10)+4
	if nlit > numLit || ndist > numDist {
		return errDeflate
	}
	var order [numLengthCode]uint8
	for _, i := range lengthOrder[:nlen] {
		v, err := z.bits(3)
		if err != nil {
			return err
		}
		order[i] = uint8(v)
	}
	var codes [1 << lengthBits]tableEntry
	root, ok := buildTable(codes[:], order[:], lengthMeaning[:], lengthBits)
	if !ok {
		return errDeflate
	}
	var lens [numLit + numDist]uint8
	if err := z.readLengths(lens[:nlit+ndist], &codes, root); err != nil {
		return err
	}
	if z.lit.root, ok = buildTable(z.lit.entries[:], lens[:nlit], litMeaning[:], litRoot); !ok {
		return errDeflate
	}
	if z.dist.root, ok = buildTable(z.dist.entries[:], lens[nlit:nlit+ndist], distMeaning[:], distRoot); !ok {
		return errDeflate
	}
	return nil
}

// Symbols of the codes for lengths from 16 on repeat: bits to add, and the
// least count.
var repeats = [...]struct{ bits, least uint }{{2, 3}, {3, 3}, {7, 11}}

func (z *inflater) readLengths(lens []uint8, codes *[1 << lengthBits]tableEntry, root uint) error {
	for i := 0; i < len(lens); {
		if z.n < lengthBits+7 {
			z.refill()
		}
		e := codes[z.b&(1<<root-1)]
		if z.n < e.bits() {
			return errZlibEnd
		}
		if e&opBad != 0 {
			return errDeflate
		}
		z.b >>= e.bits()
		z.n -= e.bits()
		symbol := e.value()
		if symbol < 16 {
			lens[i] = uint8(symbol)
			i++
			continue
		}
		rep := repeats[symbol-16]
		extra, err := z.bits(rep.bits)
		if err != nil {
			return err
		}
		var v uint8
		if symbol == 16 {
			if i == 0 {
				return errDeflate
			}
			v = lens[i-1]
		}
		count := int(rep.least + extra)
		if count > len(lens)-i {
			return errDeflate
		}
		for range count {
			lens[i] = v
			i++
		}
	}
	return nil
}

// buildTable fills table for the canonical code with these lengths (RFC 1951,
// 3.2.2) and returns how many bits its first part looks up, at most maxRoot. It
// reports false if the lengths are no prefix code that uses all of its space;
// only no code, or a single one of 1 bit, may leave space unused.
func buildTable(table []tableEntry, lens []uint8, meaning []tableEntry, maxRoot uint) (root uint, ok bool) {
	var count [maxCodeBits + 1]uint16
	for _, n := range lens {
		count[n]++
	}
	count[0] = 0
	longest, space := uint(0), 0
	var next [maxCodeBits + 2]uint16 // where the symbols of each length go
	for n := uint(1); n <= maxCodeBits; n++ {
		next[n+1] = next[n] + count[n]
		space = space*2 + int(count[n])
		if space > 1<<n {
			return 0, false
		}
		if count[n] > 0 {
			longest = n
		}
	}
	switch {
	case longest == 0 || longest == 1 && count[1] == 1:
		return buildTiny(table, lens, meaning)
	case space != 1<<maxCodeBits:
		return 0, false
	}
	var sorted [numLitFixed]uint16
	for i, n := range lens {
		if n != 0 {
			sorted[next[n]] = uint16(i)
			next[n]++
		}
	}
	root = min(longest, maxRoot)
	fillTable(table, sorted[:], &count, lens, meaning, root, longest)
	return root, true
}

// buildTiny makes the table of no code, or of a single one of 1 bit.
func buildTiny(table []tableEntry, lens []uint8, meaning []tableEntry) (root uint, ok bool) {
	table[0], table[1] = opBad, opBad
	for i, n := range lens {
		if n == 1 {
			table[0] = meaning[i] | 1
		}
	}
	return 1, true
}

// fillTable enters the symbols in the order of their codes. Codes are read from
// the input with their highest bit first, so a code is counted up from its
// highest bit.
func fillTable(table []tableEntry, sorted []uint16, count *[maxCodeBits + 1]uint16, lens []uint8, meaning []tableEntry, root, longest uint) {
	code, i := uint(0), 0
	size := uint(0) // of the first table so far, in bits
	for n := uint(1); n <= root; n++ {
		for ; size < n; size++ {
			copy(table[1<<size:2<<size], table[:1<<size])
		}
		for range count[n] {
			table[code] = meaning[sorted[i]] | tableEntry(n)
			code = nextCode(code, n)
			i++
		}
	}
	free := uint(1) << root // where the next second table goes
	prefix, sub, subSize := ^uint(0), uint(0), uint(0)
	for n := root + 1; n <= longest; n++ {
		for left := count[n]; left > 0; left-- {
			if p := code & (1<<root - 1); p != prefix {
				prefix, sub = p, free
				subSize = secondSize(count, n, root, uint(left))
				free += 1 << subSize
				table[p] = entryOf(int(sub), int(subSize), opSub)
			}
			e := meaning[sorted[i]] | tableEntry(n)
			for at := code >> root; at < 1<<subSize; at += 1 << (n - root) {
				table[sub+at] = e
			}
			code = nextCode(code, n)
			i++
		}
	}
}

// nextCode returns the code of n bits after code, the lowest bit first.
func nextCode(code, n uint) uint {
	zeros := ^code & (1<<n - 1)
	if zeros == 0 {
		return code // the last one
	}
	high := uint(1) << (bits.Len(zeros) - 1)
	return code&(high-1) | high
}

// secondSize returns how many bits a second table looks up that begins with a
// code of n bits, of which left are still to come.
func secondSize(count *[maxCodeBits + 1]uint16, n, root, left uint) uint {
	size := n - root
	for used := left; used < 1<<size && size+root < maxCodeBits; {
		size++
		used = used*2 + uint(count[root+size])
	}
	return size
}
