package chunk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Deflate (RFC 1951), from one slice into another. Chunks are short, some
// hundred bytes, so what counts is that nothing is set up, copied or allocated
// for a stream that could be longer.

var (
	errDeflate = fmt.Errorf("%w: deflate data", ErrCorrupt)
	errLimit   = errors.New("over the limit") // becomes tooLarge
)

const (
	maxMatch  = 258 // the longest match
	wordBytes = 8
	// outSlack is room that the output has beyond what it may hold, so that one
	// match can be written before its end is looked at.
	outSlack = maxMatch + wordBytes
	// firstRoom is how many times the length of the input the output gets at
	// first, if it has less; one of more than longOutput bytes gets less.
	firstRoom  = 3
	longOutput = 4 << 20
)

// An inflater is used by one goroutine at a time; the tables take up 13 KiB.
type inflater struct {
	in  []byte
	pos int    // next byte of in to load
	b   uint64 // loaded bits, the next one lowest
	n   uint   // how many count; those above are loaded again

	out   []byte // up to its capacity
	first int    // where the content begins
	w     int    // where it ends
	limit int    // where it has to end, at the latest

	lit  litTable
	dist distTable
}

func (z *inflater) start(dst, in []byte, maxLen int64) {
	z.in, z.pos, z.b, z.n = in, 0, 0, 0
	z.out, z.first, z.w = dst[:cap(dst)], len(dst), len(dst)
	z.limit = len(dst) + int(min(maxLen, int64(maxInt-len(dst)-outSlack)))
	if len(z.out)-z.w < outSlack {
		z.grow(max(min(firstRoom*len(in), longOutput), len(in)+len(in)/4))
	}
}

const maxInt = int(^uint(0) >> 1)

// grow makes room for n bytes more, but not beyond the limit.
func (z *inflater) grow(n int) {
	n = min(n, z.limit-z.w) + outSlack
	z.out = slices.Grow(z.out[:z.w], n)
	z.out = z.out[:cap(z.out)]
}

// more returns how much output to make room for when there is no more: as much
// as there is, or if that is much a third of it.
func (z *inflater) more() int {
	have := z.w - z.first
	if have <= longOutput {
		return have + len(z.in)
	}
	return have / 3
}

// refill loads at least 56 bits, or what is left of the input.
func (z *inflater) refill() {
	if len(z.in)-z.pos >= wordBytes {
		z.b |= binary.LittleEndian.Uint64(z.in[z.pos:]) << (z.n & 63)
		z.pos += int(63-z.n) >> 3
		z.n |= 56
		return
	}
	for z.n <= 56 && z.pos < len(z.in) {
		z.b |= uint64(z.in[z.pos]) << (z.n & 63)
		z.pos++
		z.n += 8
	}
}

// bits takes n bits, at most 16.
func (z *inflater) bits(n uint) (uint, error) {
	if z.n < n {
		z.refill()
		if z.n < n {
			return 0, errZlibEnd
		}
	}
	v := uint(z.b) & (1<<n - 1)
	z.b >>= n
	z.n -= n
	return v, nil
}

// align drops the bits up to the next byte and gives back the bytes loaded
// beyond it.
func (z *inflater) align() {
	z.pos -= int(z.n / 8)
	z.b, z.n = 0, 0
}

// rest returns the input after the last block.
func (z *inflater) rest() []byte {
	z.align()
	return z.in[z.pos:]
}

func (z *inflater) run() error {
	for {
		header, err := z.bits(3)
		if err != nil {
			return err
		}
		switch header >> 1 {
		case 0:
			err = z.storedBlock()
		case 1:
			t := fixedTables()
			err = z.huffmanBlock(&t.lit, &t.dist)
		case 2:
			if err = z.readTables(); err == nil {
				err = z.huffmanBlock(&z.lit, &z.dist)
			}
		default:
			err = errDeflate
		}
		if err != nil {
			return err
		}
		if header&1 != 0 {
			return nil
		}
	}
}

func (z *inflater) storedBlock() error {
	z.align()
	in := z.in[z.pos:]
	if len(in) < 4 {
		return errZlibEnd
	}
	n := binary.LittleEndian.Uint16(in)
	if n != ^binary.LittleEndian.Uint16(in[2:]) {
		return errDeflate
	}
	size := int(n)
	if len(in) < 4+size {
		return errZlibEnd
	}
	if size > z.limit-z.w {
		return errLimit
	}
	if len(z.out)-z.w < size+outSlack {
		z.grow(size)
	}
	z.w += copy(z.out[z.w:], in[4:4+size])
	z.pos += 4 + size
	return nil
}

// huffmanBlock decodes up to the end of a block. It keeps the state in
// variables of its own, which is half of its speed.
func (z *inflater) huffmanBlock(lit *litTable, dist *distTable) error {
	in, out := z.in, z.out
	pos, b, n, w := z.pos, z.b, z.n, z.w
	litMask, distMask := uint64(1)<<lit.root-1, uint64(1)<<dist.root-1
	for {
		// A pair of length and distance takes 48 bits at most.
		if n < 48 {
			if len(in)-pos >= wordBytes {
				b |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
				pos += int(63-n) >> 3
				n |= 56
			} else {
				for n <= 56 && pos < len(in) {
					b |= uint64(in[pos]) << (n & 63)
					pos++
					n += 8
				}
			}
		}
		if len(out)-w < outSlack {
			if w > z.limit {
				return errLimit
			}
			z.w = w
			z.grow(z.more())
			out = z.out
		}
		e := lit.entries[b&litMask&(litEntries-1)]
		if e&opSub != 0 {
			e = lit.entries[(uint64(e.value())+b>>lit.root&(1<<e.extra()-1))&(litEntries-1)]
		}
		b >>= e.bits()
		n -= e.bits()
		if int(n) < 0 {
			return errZlibEnd
		}
		if e&opLiteral != 0 {
			out[w] = byte(e.value())
			w++
			continue
		}
		if e&(opEnd|opBad) != 0 {
			if e&opBad != 0 {
				return errDeflate
			}
			break
		}
		x := e.extra()
		length := int(e.value()) + int(b&(1<<x-1))
		b >>= x
		n -= x
		e = dist.entries[b&distMask&(distEntries-1)]
		if e&opSub != 0 {
			e = dist.entries[(uint64(e.value())+b>>dist.root&(1<<e.extra()-1))&(distEntries-1)]
		}
		if e&opBad != 0 {
			return errDeflate
		}
		b >>= e.bits()
		x = e.extra()
		back := int(e.value()) + int(b&(1<<x-1))
		b >>= x
		n -= e.bits() + x
		if int(n) < 0 {
			return errZlibEnd
		}
		if back > w-z.first {
			return errDeflate
		}
		copyMatch(out, w, back, length)
		w += length
	}
	z.pos, z.b, z.n, z.w = pos, b, n, w
	if w > z.limit {
		return errLimit
	}
	return nil
}

// copyMatch copies length bytes from back bytes before w to w. out has room for
// a word more.
func copyMatch(out []byte, w, back, length int) {
	if back >= wordBytes {
		// Words may overlap with the next, not with themselves.
		src, dst := out[w-back:w+length-back+wordBytes], out[w:w+length+wordBytes]
		for i := 0; i < length; i += wordBytes {
			binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(src[i:]))
		}
		return
	}
	if back == 1 {
		v, run := out[w-1], out[w:w+length]
		for i := range run {
			run[i] = v
		}
		return
	}
	src, dst := out[w-back:w+length-back], out[w:w+length]
	for i := range dst {
		dst[i] = src[i]
	}
}
