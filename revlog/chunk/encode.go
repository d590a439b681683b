package chunk

import (
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"vcsd/internal/bigbuf"
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
	if len(data) > sampledBytes {
		dst = withRoom(dst, data, engine, level)
	}
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

// Of data longer than sampledBytes some samples are compressed first, to know
// how long the chunk will be. Its memory would else grow step by step, which
// takes several times as much.
const (
	sampledBytes   = 4 << 20
	samples        = 4
	maxSampleBytes = 256 << 10
)

// withRoom returns dst with about the capacity that the chunk of data takes.
func withRoom(dst, data []byte, engine Engine, level int) []byte {
	n := min(len(data)/(16*samples), maxSampleBytes)
	var chunk []byte
	size := 0
	for i := range samples {
		at := i * (len(data) / samples)
		chunk = Encode(chunk[:0], data[at:at+n], engine, level)
		size += len(chunk)
	}
	most := len(data) + len(data)/4096 + 64 // that of what can't be compressed
	room := min(size*(len(data)/(samples*n)+1)*9/8, most)
	if cap(dst)-len(dst) >= room {
		return dst
	}
	return append(bigbuf.Make(len(dst) + room)[:0], dst...)
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
	out := &appender{dst}
	w, _ := zlibWriters[level].Get().(*zlib.Writer)
	if w == nil {
		w, _ = zlib.NewWriterLevel(out, level) // the level is in range
	} else {
		w.Reset(out)
	}
	// Writing to an appender doesn't fail.
	_, _ = w.Write(data)
	_ = w.Close()
	dst, out.b = out.b, nil // the pool must not hold on to the chunk
	zlibWriters[level].Put(w)
	return dst
}

// appender collects what is written to it.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// zstdLevels is the number of klauspost's levels, counted from 1.
const zstdLevels = int(zstd.SpeedBestCompression) + 1

// zstdEncoders holds a pool for each level, for short and for long data. An
// encoder that is shared would go round its states, one for each processor and
// of up to 20 MiB, even if one goroutine is all that uses it.
var zstdEncoders [zstdLevels][2]sync.Pool

// maxSegment is the length up to which data is made one segment, which saves a
// byte. A decoder needs memory for the whole of it.
const maxSegment = 1 << 20

func newZstdEncoder(level zstd.EncoderLevel, long int) *zstd.Encoder {
	opts := []zstd.EOption{
		zstd.WithEncoderLevel(level),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		// Short texts without repetitions, such as changesets, are all
		// literals: by default they would not be compressed.
		zstd.WithAllLitEntropyCompression(true),
	}
	if long == 0 {
		opts = append(opts, zstd.WithSingleSegment(true), zstd.WithWindowSize(maxSegment))
	}
	enc, _ := zstd.NewWriter(nil, opts...) // the options are constant
	return enc
}

func appendZstd(dst, data []byte, level int) []byte {
	if level <= 0 {
		level = DefaultZstdLevel
	}
	long := 0
	if len(data) > maxSegment {
		long = 1
	}
	speed := zstd.EncoderLevelFromZstd(level)
	pool := &zstdEncoders[speed][long]
	enc, _ := pool.Get().(*zstd.Encoder)
	if enc == nil {
		enc = newZstdEncoder(speed, long)
	}
	dst = enc.EncodeAll(data, dst)
	pool.Put(enc)
	return dst
}
