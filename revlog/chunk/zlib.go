package chunk

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"sync"
)

// A zlib stream (RFC 1950): two bytes of header, deflate blocks (RFC 1951), and
// the Adler-32 sum of the content.
const (
	zlibHeaderLen = 2
	zlibSumLen    = 4
	zlibDict      = 1 << 5 // in the second byte: needs a preset dictionary
	zlibDeflate   = 8      // in the low half of the first byte: the only method
)

var (
	errZlibHeader = fmt.Errorf("%w: zlib header", ErrCorrupt)
	errZlibSum    = fmt.Errorf("%w: zlib checksum", ErrCorrupt)
	errZlibEnd    = fmt.Errorf("%w: zlib stream ends too soon", ErrCorrupt)
)

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

// inflate appends the content of the zlib stream in chunk. What follows the
// stream is ignored, as by hg.
func inflate(dst, chunk []byte, maxLen int64) ([]byte, error) {
	if len(chunk) < zlibHeaderLen {
		return dst, errZlibEnd
	}
	if chunk[0]&15 != zlibDeflate || chunk[1]&zlibDict != 0 || binary.BigEndian.Uint16(chunk)%31 != 0 {
		return dst, errZlibHeader
	}
	z := inflaters.Get().(*inflater)
	z.start(dst, chunk[zlibHeaderLen:], maxLen)
	err := z.run()
	out, start, rest := z.out[:z.w], len(dst), z.rest()
	z.in, z.out = nil, nil
	inflaters.Put(z)
	switch {
	case err == errLimit:
		return dst, tooLarge(maxLen)
	case err != nil:
		return dst, err
	case len(rest) < zlibSumLen:
		return dst, errZlibEnd
	case adler32.Checksum(out[start:]) != binary.BigEndian.Uint32(rest):
		return dst, errZlibSum
	}
	return out, nil
}
