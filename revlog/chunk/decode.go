package chunk

import (
	"fmt"
)

// Decode appends to dst the data that chunk holds. It fails with a wrapped
// ErrCorrupt if the chunk is damaged, and with a wrapped hg.ErrTooLarge if the
// data is longer than maxLen bytes; dst is then returned as it was. Other than
// that the result never aliases chunk.
func Decode(dst, chunk []byte, maxLen int64) ([]byte, error) {
	if len(chunk) == 0 {
		return dst, nil
	}
	switch chunk[0] {
	case rawZero:
		return appendRaw(dst, chunk, maxLen)
	case rawData:
		return appendRaw(dst, chunk[1:], maxLen)
	case zlibCMF:
		return inflate(dst, chunk, maxLen)
	case zstdMag:
		return unzstd(dst, chunk, maxLen)
	}
	return dst, fmt.Errorf("%w 0x%02x", errKind, chunk[0])
}

// Slack is capacity beyond the data with which Decode never has to make more
// room.
const Slack = 512

// Raw returns the data of a chunk that is stored as it is, which aliases chunk.
// Of one that is compressed or damaged it returns false.
func Raw(chunk []byte) (data []byte, ok bool) {
	switch {
	case len(chunk) == 0 || chunk[0] == rawZero:
		return chunk, true
	case chunk[0] == rawData:
		return chunk[1:], true
	}
	return nil, false
}

func appendRaw(dst, data []byte, maxLen int64) ([]byte, error) {
	if int64(len(data)) > maxLen {
		return dst, tooLarge(maxLen)
	}
	return append(dst, data...), nil
}
