package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"vcsd/hg"
)

// A fragment, big-endian: the range of the base that it replaces and the
// length of the bytes that follow. Fragments are ordered by their ranges, which
// may touch but never overlap; offsets count in the base, not in the result.
const (
	offStart = 0 // 4 bytes: first byte of the base to replace
	offEnd   = 4 // 4 bytes: end of the range, exclusive
	offLen   = 8 // 4 bytes: length of the data

	// HeaderLen is the length of a fragment without its data, in bytes.
	HeaderLen = 12
)

// The format's integers are signed to Mercurial, so nothing longer than this
// has a delta.
const maxOffset = math.MaxInt32

var (
	errShort   = errors.New("delta ends inside a fragment")
	errOrder   = errors.New("fragments out of order")
	errRange   = errors.New("fragment beyond the end of its base")
	errLongest = errors.New("text beyond 2 GiB")
)

// A malformed error places err at a byte of a delta; it unwraps to
// hg.ErrMalformed too.
type malformed struct {
	offset int
	err    error
}

func (e *malformed) Error() string {
	return fmt.Sprintf("delta at byte %d: %v", e.offset, e.err)
}

func (e *malformed) Unwrap() []error { return []error{e.err, hg.ErrMalformed} }

// A Fragment replaces base[Start:End] by Data.
type Fragment struct {
	Start, End int
	Data       []byte
}

// next splits the first fragment off delta[pos:]. prev is the end of the
// fragment before it; baseLen is the length of the base.
func next(delta []byte, pos, prev, baseLen int) (f Fragment, after int, err error) {
	rest := delta[pos:]
	if len(rest) < HeaderLen {
		return f, 0, &malformed{pos, errShort}
	}
	start := binary.BigEndian.Uint32(rest[offStart:])
	end := binary.BigEndian.Uint32(rest[offEnd:])
	size := binary.BigEndian.Uint32(rest[offLen:])
	if int64(size) > int64(len(rest)-HeaderLen) {
		return f, 0, &malformed{pos, errShort}
	}
	if int64(start) < int64(prev) || end < start {
		return f, 0, &malformed{pos, errOrder}
	}
	if int64(end) > int64(baseLen) {
		return f, 0, &malformed{pos, errRange}
	}
	after = pos + HeaderLen + int(size)
	return Fragment{int(start), int(end), delta[pos+HeaderLen : after : after]}, after, nil
}

// Check reads the fragment headers of delta and returns the length of the text
// that it makes from a base of baseLen bytes. The error wraps hg.ErrMalformed.
func Check(delta []byte, baseLen int) (resultLen int, err error) {
	resultLen, _, err = check(delta, baseLen)
	return resultLen, err
}

func check(delta []byte, baseLen int) (resultLen, count int, err error) {
	size := int64(baseLen)
	for pos, prev := 0, 0; pos < len(delta); count++ {
		f, after, err := next(delta, pos, prev, baseLen)
		if err != nil {
			return 0, 0, err
		}
		size += int64(len(f.Data)) - int64(f.End-f.Start)
		pos, prev = after, f.End
	}
	if size > maxOffset {
		return 0, 0, &malformed{len(delta), errLongest}
	}
	return int(size), count, nil
}

// Walk calls yield for each fragment of delta, which must fit a base of
// baseLen bytes, until yield returns false. Data aliases delta.
func Walk(delta []byte, baseLen int, yield func(Fragment) bool) error {
	for pos, prev := 0, 0; pos < len(delta); {
		f, after, err := next(delta, pos, prev, baseLen)
		if err != nil {
			return err
		}
		if !yield(f) {
			return nil
		}
		pos, prev = after, f.End
	}
	return nil
}

// AppendFragment appends the encoding of f to dst.
func AppendFragment(dst []byte, f Fragment) []byte {
	dst = appendHeader(dst, f.Start, f.End, len(f.Data))
	return append(dst, f.Data...)
}

func appendHeader(dst []byte, start, end, size int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(start))
	dst = binary.BigEndian.AppendUint32(dst, uint32(end))
	return binary.BigEndian.AppendUint32(dst, uint32(size))
}

// Replace returns the delta that replaces a base of baseLen bytes by text as
// a whole, in one fragment.
func Replace(baseLen int, text []byte) []byte {
	dst := make([]byte, 0, HeaderLen+len(text))
	return AppendFragment(dst, Fragment{0, baseLen, text})
}

// Full returns the delta that makes text out of the empty text.
func Full(text []byte) []byte { return Replace(0, text) }

// AppendFullHeader appends what a delta from the empty text to one of textLen
// bytes has before the text: nothing, as in hg, where that is empty too.
func AppendFullHeader(dst []byte, textLen int) []byte {
	if textLen == 0 {
		return dst
	}
	return appendHeader(dst, 0, 0, textLen)
}

// IsReplace reports whether delta is one fragment that replaces a base of
// baseLen bytes as a whole, and returns the text that it holds. Such a delta
// can be applied without its base.
func IsReplace(delta []byte, baseLen int) (text []byte, ok bool) {
	if len(delta) < HeaderLen {
		return nil, false
	}
	f, after, err := next(delta, 0, 0, baseLen)
	if err != nil || after != len(delta) || f.Start != 0 || f.End != baseLen {
		return nil, false
	}
	return f.Data, true
}
