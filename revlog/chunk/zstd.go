package chunk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// blockSlack is capacity beyond the content with which the decoder is faster.
const blockSlack = 16

// maxWindow is the longest window of a frame that is decoded as a stream: as
// much as zstd itself accepts unless told otherwise.
const maxWindow = 128 << 20

var errFrames = fmt.Errorf("%w: more in the zstd frame than it claims", ErrCorrupt)

// unzstd appends the content of the zstd frame in chunk.
func unzstd(dst, chunk []byte, maxLen int64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(chunk); err != nil {
		return dst, zstdError(err)
	}
	if !h.HasFCS {
		// hg leaves the size out where the data is beyond 1 MB.
		return unzstdStream(dst, chunk, maxLen)
	}
	most := (uint64(len(chunk))/minBlock + 1) * maxBlock
	if h.FrameContentSize > most {
		return dst, fmt.Errorf("%w: zstd frame claims %d bytes", ErrCorrupt, h.FrameContentSize)
	}
	if h.FrameContentSize > uint64(maxLen) {
		return dst, tooLarge(maxLen)
	}
	return unzstdSized(dst, chunk, int(h.FrameContentSize))
}

func zstdError(err error) error { return fmt.Errorf("%w: zstd: %w", ErrCorrupt, err) }

var sizedDecoder = sync.OnceValue(func() *zstd.Decoder {
	// Without a reader the options are all there is to go wrong.
	d, _ := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecodeAllCapLimit(true),
		// A frame of one segment claims a window as long as itself; the
		// capacity of the result is the limit that counts.
		zstd.WithDecoderMaxWindow(1<<32))
	return d
})

// unzstdSized decodes a frame that holds size bytes.
func unzstdSized(dst, chunk []byte, size int) ([]byte, error) {
	dst = slices.Grow(dst, size+blockSlack)
	limited := dst[: len(dst) : len(dst)+size+blockSlack]
	out, err := sizedDecoder().DecodeAll(chunk, limited)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(out) != len(dst)+size:
		return dst, errFrames
	case err != nil:
		return dst, zstdError(err)
	}
	// The result lies in dst; give back the rest of its capacity.
	return dst[:len(out)], nil
}

var streamDecoders = sync.Pool{New: func() any {
	d, _ := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), // starts no goroutines
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	return d
}}

// unzstdStream decodes a frame of unknown size.
func unzstdStream(dst, chunk []byte, maxLen int64) ([]byte, error) {
	d := streamDecoders.Get().(*zstd.Decoder)
	defer func() {
		// The pool must not hold on to the chunk.
		if d.Reset(nil) == nil {
			streamDecoders.Put(d)
		}
	}()
	if err := d.Reset(bytes.NewReader(chunk)); err != nil {
		return dst, zstdError(err)
	}
	out, err := readAll(d, dst, min(maxLen, int64(maxInt-1))+1)
	switch {
	case err != nil:
		return dst, zstdError(err)
	case int64(len(out)-len(dst)) > maxLen:
		return dst, tooLarge(maxLen)
	}
	return out, nil
}

// readAll appends to dst what r yields, up to most bytes. It makes room by
// quarters, and none for the end of what fits.
func readAll(r io.Reader, dst []byte, most int64) ([]byte, error) {
	r = io.LimitReader(r, most)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(len(dst)/4, 4<<10))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}
