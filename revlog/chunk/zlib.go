package chunk

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

func inflate(dst, chunk []byte, maxLen int64) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(chunk))
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out := bytes.NewBuffer(dst)
	n, err := io.Copy(out, io.LimitReader(r, maxLen+1))
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n > maxLen {
		return dst, tooLarge(maxLen)
	}
	return out.Bytes(), nil
}
