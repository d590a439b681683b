package obsmarker

import (
	"encoding/binary"
	"fmt"
	"math"

	"vcsd/hg"
)

// base85 is the alphabet in which pushkey carries bytes: that of git, with
// five digits for four bytes, the highest first. Of an incomplete group only
// as many digits are kept as its bytes need, one more than they are.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// digit85 is the value of each digit, plus one; 0 for other bytes.
var digit85 = func() (d [256]byte) {
	for i := range len(base85) {
		d[base85[i]] = byte(i + 1)
	}
	return d
}()

// appendBase85 adds the encoding of data to b.
func appendBase85(b, data []byte) []byte {
	for len(data) > 0 {
		var group [4]byte
		n := copy(group[:], data)
		data = data[n:]
		var digits [5]byte
		v := binary.BigEndian.Uint32(group[:])
		for i := 4; i >= 0; i-- {
			digits[i] = base85[v%85]
			v /= 85
		}
		b = append(b, digits[:n+1]...)
	}
	return b
}

// decodeBase85 reads what appendBase85 writes.
func decodeBase85(s string) ([]byte, error) {
	b := make([]byte, 0, len(s)/5*4+4)
	for off := 0; off < len(s); off += 5 {
		group := s[off:min(off+5, len(s))]
		v := uint64(0)
		for i := range 5 {
			d := uint64(84) // digits that were left out round up
			if i < len(group) {
				if digit85[group[i]] == 0 {
					return nil, fmt.Errorf("bad base85 character at position %d: %w", off+i, hg.ErrMalformed)
				}
				d = uint64(digit85[group[i]] - 1)
			}
			v = v*85 + d
		}
		if v > math.MaxUint32 {
			return nil, fmt.Errorf("bad base85 sequence at position %d: %w", off, hg.ErrMalformed)
		}
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], uint32(v))
		b = append(b, four[:len(group)-1]...)
	}
	return b, nil
}
