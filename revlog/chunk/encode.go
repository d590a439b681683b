package chunk

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Data shorter than this is never compressed, as in hg.
const (
	minZlib = 44
	minZstd = 50
)

// Default levels, those of hg.
const (
	DefaultZlibLevel = 6
	DefaultZstdLevel = 3
)

// Encode appends to dst a chunk that holds data: compressed by engine if that
// makes it shorter, else as it is. Level is that of zlib (1 to 9) or zstd (1 to
// 22); 0 means hg's default.
func Encode(dst, data []byte, engine Engine, level int) []byte {
	if len(data) == 0 {
		return dst
	}
	start := len(dst)
	switch {
	case engine == Zlib && len(data) >= minZlib:
		dst = appendZlib(dst, data, level)
	case engine == Zstd && len(data) >= minZstd:
		dst = appendZstd(dst, data, level)
	default:
		return encodeRaw(dst, data)
	}
	if len(dst)-start < len(data) {
		return dst
	}
	return encodeRaw(dst[:start], data)
}

func encodeRaw(dst, data []byte) []byte {
	if data[0] != rawZero {
		dst = append(dst, rawData)
	}
	return append(dst, data...)
}

// zlibWriters holds a pool for each level.
var zlibWriters [zlib.BestCompression + 1]sync.Pool

func appendZlib(dst, data []byte, level int) []byte {
	if level <= 0 {
		level = DefaultZlibLevel
	}
	if level >= DefaultZlibLevel {
		level++ // the writer's 7 is as good as zlib's 6
	}
	level = min(level, zlib.BestCompression)
	buf := bytes.NewBuffer(dst)
	w, _ := zlibWriters[level].Get().(*zlib.Writer)
	if w == nil {
		w, _ = zlib.NewWriterLevel(buf, level) // the level is in range
	} else {
		w.Reset(buf)
	}
	// Writing to a bytes.Buffer doesn't fail.
	_, _ = w.Write(data)
	_ = w.Close()
	zlibWriters[level].Put(w)
	return buf.Bytes()
}

// zstdLevels is the number of klauspost's levels, counted from 1.
const zstdLevels = int(zstd.SpeedBestCompression) + 1

// zstdEncoders holds an encoder for each level, for short and for long data.
var zstdEncoders [zstdLevels][2]struct {
	once sync.Once
	enc  *zstd.Encoder
}

// maxSegment is the length up to which data is made one segment, which saves a
// byte. A decoder needs memory for the whole of it.
const maxSegment = 1 << 20

func zstdEncoder(level zstd.EncoderLevel, long int) *zstd.Encoder {
	e := &zstdEncoders[level][long]
	e.once.Do(func() {
		opts := []zstd.EOption{
			zstd.WithEncoderLevel(level),
			zstd.WithEncoderCRC(false),
			// Short texts without repetitions, such as changesets, are all
			// literals: by default they would not be compressed.
			zstd.WithAllLitEntropyCompression(true),
		}
		if long == 0 {
			opts = append(opts, zstd.WithSingleSegment(true))
		}
		e.enc, _ = zstd.NewWriter(nil, opts...) // the options are constant
	})
	return e.enc
}

func appendZstd(dst, data []byte, level int) []byte {
	if level <= 0 {
		level = DefaultZstdLevel
	}
	long := 0
	if len(data) > maxSegment {
		long = 1
	}
	return zstdEncoder(zstd.EncoderLevelFromZstd(level), long).EncodeAll(data, dst)
}
