package chunk

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A zstd block takes at least 4 bytes and holds at most 128 KiB, so no chunk
// can decode to more than that, whatever its header claims.
const (
	minBlock = 4
	maxBlock = 128 << 10
)

var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	// Without a reader the options are all there is to go wrong.
	d, _ := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecodeAllCapLimit(true),
		// A frame that fits in one segment claims a window as long as itself;
		// the capacity of the result is the limit that counts.
		zstd.WithDecoderMaxWindow(1<<32))
	return d
})

// unzstd appends the content of the zstd frames in chunk.
func unzstd(dst, chunk []byte, maxLen int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(chunk); err != nil {
		return dst, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
	}
	most := (int64(len(chunk))/minBlock + 1) * maxBlock
	limit := min(maxLen, most)
	if h.HasFCS {
		if h.FrameContentSize > uint64(most) {
			return dst, fmt.Errorf("%w: zstd frame claims %d bytes", ErrCorrupt, h.FrameContentSize)
		}
		if h.FrameContentSize > uint64(maxLen) {
			return dst, tooLarge(maxLen)
		}
		limit = int64(h.FrameContentSize)
	}
	return unzstdInto(dst, chunk, h.HasFCS, limit, maxLen)
}

// firstGuess is the room for a frame that doesn't tell its size. hg writes
// such frames only for data beyond 1 MB.
const firstGuess = 4

// unzstdInto decodes into room for limit bytes at most. If the size isn't
// known it starts with less room and doubles it.
func unzstdInto(dst, chunk []byte, sized bool, limit, maxLen int64) ([]byte, error) {
	room := limit
	if !sized {
		room = min(limit, firstGuess*int64(len(chunk)))
	}
	for {
		dst = slices.Grow(dst, int(room))
		// The capacity is the decoder's limit: allow exactly room.
		out, err := zstdDecoder().DecodeAll(chunk, dst[:len(dst):len(dst)+int(room)])
		switch {
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return dst, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
		case sized:
			return dst, fmt.Errorf("%w: zstd: more than one frame", ErrCorrupt)
		case room == limit:
			return dst, tooLarge(maxLen)
		}
		room = min(limit, 2*room)
	}
}
