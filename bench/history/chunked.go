package history

import (
	"encoding/binary"
	"io"
)

// A chunked writes the payload of a part of a bundle2 stream.
type chunked struct{ w io.Writer }

// maxChunk is the longest chunk of a payload, in bytes.
const maxChunk = 1 << 20

func (c *chunked) Write(b []byte) (n int, err error) {
	for n < len(b) {
		piece := b[n:min(len(b), n+maxChunk)]
		var head [4]byte
		binary.BigEndian.PutUint32(head[:], uint32(len(piece)))
		if _, err := c.w.Write(head[:]); err != nil {
			return n, err
		}
		if _, err := c.w.Write(piece); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}
