package compression

import (
	"bufio"
	"compress/bzip2"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"vcsd/wire/internal/frame"
)

const (
	// maxWindowBytes bounds the history that a zstd frame may ask for. Every
	// encoder up to hg's level 19 stays within it, as RFC 8878 recommends.
	maxWindowBytes = 8 << 20

	// readBytes is what is asked of the compressed stream at a time.
	readBytes = 32 << 10
)

const (
	// PushedExpansion is Limits.MaxExpansion for bundles from strangers: more
	// than any real history reaches, and too little for a bomb.
	PushedExpansion = 100

	// freeBytes is what a stream of any length may decompress to.
	freeBytes = 32 << 20
)

// Limits bound what a stream decompresses to. A zero field, or a negative one,
// means no limit.
type Limits struct {
	// MaxBytes is the most that may come out, in bytes.
	MaxBytes int64
	// MaxExpansion bounds what has come out, beyond 32 MiB, by this multiple of
	// the compressed bytes read so far.
	MaxExpansion int
}

// NewReader returns a reader of what the engine compressed in r. It may read
// beyond the end of the compressed data. More output than the limits allow is
// an error that unwraps to hg.ErrTooLarge. Corrupt data are an error that unwraps
// to hg.ErrMalformed and an *hg.Abort; data that end too early are
// io.ErrUnexpectedEOF; errors of r are returned as they are. Close gives the
// decoder back and doesn't close r.
func NewReader(e Engine, r io.Reader, lim Limits) (io.ReadCloser, error) {
	src := &source{r: r}
	d, release, err := newDecoder(e, src)
	if err != nil {
		return nil, src.blame(e, 0, err)
	}
	return &reader{e: e, src: src, d: d, release: release, lim: lim}, nil
}

// reader is a decoder with a limit, and errors that tell whose fault it is.
type reader struct {
	e       Engine
	src     *source
	d       io.Reader
	release func() // gives d back; nil after Close
	n       int64  // bytes of output so far
	lim     Limits
	err     error // sticky
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.d.Read(p)
	r.n += int64(n)
	if limit := r.limit(); r.n > limit {
		over := r.n - limit
		r.err = frame.TooLarge(r.e.String()+" stream", r.n, "decompressed size", r.n, limit)
		return n - int(over), r.err
	}
	if err != nil {
		r.err = r.src.blame(r.e, r.n, err)
	}
	return n, r.err
}

// limit returns how much may have come out by now.
func (r *reader) limit() int64 {
	limit := int64(math.MaxInt64)
	if r.lim.MaxBytes > 0 {
		limit = r.lim.MaxBytes
	}
	if r.e != None && r.lim.MaxExpansion > 0 {
		limit = min(limit, freeBytes+int64(r.lim.MaxExpansion)*r.src.n)
	}
	return limit
}

// Remaining implements frame.Bounded for a stream that is not compressed.
func (r *reader) Remaining() int64 {
	if r.e != None {
		return -1
	}
	return frame.Remaining(r.src.r)
}

func (r *reader) Close() error {
	if r.release != nil {
		r.release()
		r.release = nil
	}
	r.err = io.ErrClosedPipe
	return nil
}

// source counts the bytes of the compressed stream and remembers its error, to
// tell it from those of the decoder.
type source struct {
	r   io.Reader
	n   int64 // bytes read so far
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// blame returns what to report for a decoder's error after n bytes of output.
func (s *source) blame(e Engine, n int64, err error) error {
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return err
	case s.err != nil:
		return s.err
	}
	return frame.Malformed(e.String()+" stream", n, "corrupt %s stream: %v", e, err)
}

// Decoders between two uses.
var (
	zlibReaders sync.Pool // of *zlibDecoder
	zstdReaders sync.Pool // of *zstd.Decoder
)

// newDecoder returns a decoder and the function that gives it back.
func newDecoder(e Engine, src io.Reader) (io.Reader, func(), error) {
	switch e {
	case Zlib:
		return newZlib(src)
	case Zstd:
		return newZstd(src)
	case Bzip2:
		return bzip2.NewReader(bufio.NewReaderSize(src, readBytes)), func() {}, nil
	}
	return src, func() {}, nil
}

// zlibDecoder reads the two bytes of zlib's header at the first Read, not
// before: no source must be waited for in NewReader.
type zlibDecoder struct {
	in      *bufio.Reader
	z       io.ReadCloser // nil before the first use ever
	started bool
}

func newZlib(src io.Reader) (io.Reader, func(), error) {
	d, _ := zlibReaders.Get().(*zlibDecoder)
	if d == nil {
		d = &zlibDecoder{in: bufio.NewReaderSize(src, readBytes)}
	}
	d.in.Reset(src)
	d.started = false
	return d, func() { d.in.Reset(nil); zlibReaders.Put(d) }, nil
}

func (d *zlibDecoder) Read(p []byte) (int, error) {
	if !d.started {
		if err := d.start(); err != nil {
			return 0, err
		}
		d.started = true
	}
	return d.z.Read(p)
}

func (d *zlibDecoder) start() (err error) {
	if d.z == nil {
		d.z, err = zlib.NewReader(d.in)
	} else {
		err = d.z.(zlib.Resetter).Reset(d.in, nil)
	}
	if err == io.EOF {
		// An empty stream was no zlib stream that ended well.
		err = io.ErrUnexpectedEOF
	}
	return err
}

func newZstd(src io.Reader) (io.Reader, func(), error) {
	d, _ := zstdReaders.Get().(*zstd.Decoder)
	if d == nil {
		var err error
		// One goroutine: the caller's. More would need a Close to end.
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes))
		if err != nil {
			return nil, nil, err
		}
	}
	z := &zstdDecoder{d: d, src: src}
	return z, z.release, nil
}

// zstdDecoder resets its decoder at the first Read, which may wait for src.
type zstdDecoder struct {
	d       *zstd.Decoder
	src     io.Reader
	started bool
}

func (z *zstdDecoder) Read(p []byte) (int, error) {
	if !z.started {
		if err := z.d.Reset(z.src); err != nil {
			return 0, err
		}
		z.started = true
	}
	return z.d.Read(p)
}

func (z *zstdDecoder) release() {
	if err := z.d.Reset(nil); err == nil {
		zstdReaders.Put(z.d)
	}
	z.src = nil
}
