package compression

import (
	"fmt"
	"io"
	"sync"

	"github.com/dsnet/compress/bzip2"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Levels that level 0 stands for.
const (
	defaultZlibLevel  = 6
	defaultZstdLevel  = 3
	defaultBzip2Level = 9
)

const (
	maxZlibLevel  = 9
	maxZstdLevel  = 22
	maxBzip2Level = 9
)

// A Writer compresses a stream. Close ends it and gives the encoder back; it
// doesn't close the writer below.
type Writer interface {
	io.WriteCloser
	// Flush sends on what was written so far, so that the other end can
	// decompress it. Bzip2 can't do that: there it does nothing.
	Flush() error
}

// NewWriter returns a Writer that compresses to w. Level 0 means the default
// of the engine; 1 is the fastest. The largest is 22 for zstd and 9 for zlib
// and bzip2.
func NewWriter(e Engine, level int, w io.Writer) (Writer, error) {
	switch e {
	case Zlib:
		return newEncoder(e, level, defaultZlibLevel, maxZlibLevel, w, zlibWriters[:], makeZlib)
	case Zstd:
		return newEncoder(e, level, defaultZstdLevel, maxZstdLevel, w, zstdWriters[:], makeZstd)
	case Bzip2:
		return newEncoder(e, level, defaultBzip2Level, maxBzip2Level, w, bzip2Writers[:], makeBzip2)
	}
	return plain{w}, nil
}

// Encoders between two uses, by level.
var (
	zlibWriters  [maxZlibLevel + 1]sync.Pool
	zstdWriters  [maxZstdLevel + 1]sync.Pool
	bzip2Writers [maxBzip2Level + 1]sync.Pool
)

// An encoder is what the libraries have in common.
type encoder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// pooled is an encoder that goes back to its pool when it is closed.
type pooled struct {
	encoder // nil after Close
	pool    *sync.Pool
}

func newEncoder(e Engine, level, def, highest int, w io.Writer, pools []sync.Pool, mk func(int) (encoder, error)) (Writer, error) {
	if level == 0 {
		level = def
	}
	if level < 1 || level > highest {
		return nil, fmt.Errorf("%s level %d is not in 1..%d", e, level, highest)
	}
	pool := &pools[level]
	enc, _ := pool.Get().(encoder)
	if enc == nil {
		var err error
		if enc, err = mk(level); err != nil {
			return nil, fmt.Errorf("make %s encoder: %w", e, err)
		}
	}
	enc.Reset(w)
	return &pooled{enc, pool}, nil
}

func (p *pooled) Write(b []byte) (int, error) {
	if p.encoder == nil {
		return 0, io.ErrClosedPipe
	}
	return p.encoder.Write(b)
}

func (p *pooled) Flush() error {
	if f, ok := p.encoder.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

func (p *pooled) Close() error {
	if p.encoder == nil {
		return nil
	}
	err := p.encoder.Close()
	p.encoder.Reset(io.Discard)
	p.pool.Put(p.encoder)
	p.encoder = nil
	return err
}

func makeZlib(level int) (encoder, error) {
	return zlib.NewWriterLevel(io.Discard, level)
}

func makeZstd(level int) (encoder, error) {
	speed := zstd.EncoderLevelFromZstd(level)
	window := 2 << 20 // what zstd itself takes at level 3
	if speed > zstd.SpeedDefault {
		window = maxWindowBytes
	}
	return zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(speed),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
}

// bzip2Encoder drops an error of Reset that the library never returns.
type bzip2Encoder struct{ *bzip2.Writer }

func (b bzip2Encoder) Reset(w io.Writer) { _ = b.Writer.Reset(w) }

func makeBzip2(level int) (encoder, error) {
	w, err := bzip2.NewWriter(io.Discard, &bzip2.WriterConfig{Level: level})
	return bzip2Encoder{w}, err
}

// plain writes as it is.
type plain struct{ io.Writer }

func (plain) Close() error { return nil }
func (plain) Flush() error { return nil }
