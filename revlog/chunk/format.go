package chunk

import (
	"errors"
	"fmt"

	"vcsd/hg"
)

// The first byte of a chunk. An empty chunk stands for empty data.
const (
	rawZero = 0x00 // the data is the chunk, this byte included
	rawData = 'u'  // the data is what follows
	zlibCMF = 'x'  // a zlib stream (RFC 1950), this byte included
	zstdMag = '('  // a zstd frame (RFC 8878), this byte included
)

// An Engine compresses chunks. Decode reads all of them, whatever a log is
// written with.
type Engine uint8

const (
	None Engine = iota // no compression
	Zlib               // RFC 1950
	Zstd               // RFC 8878
)

func (e Engine) String() string {
	switch e {
	case None:
		return "none"
	case Zlib:
		return "zlib"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("engine-%d", uint8(e))
}

var (
	// ErrCorrupt means that a chunk doesn't follow its format.
	ErrCorrupt = errors.New("corrupt chunk")

	errKind = fmt.Errorf("%w: unknown first byte", ErrCorrupt)
)

func tooLarge(limit int64) error {
	return fmt.Errorf("chunk decodes to more than %d bytes: %w", limit, hg.ErrTooLarge)
}
