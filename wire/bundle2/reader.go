package bundle2

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"vcsd/hg"
	"vcsd/wire/compression"
	"vcsd/wire/internal/frame"
)

// readBytes is what is asked of the underlying reader at a time.
const readBytes = 64 << 10

// Limits bound what a Reader takes from a stranger. Zero fields mean the
// defaults.
type Limits struct {
	// MaxBytes bounds what a compressed stream decompresses to. 0 means no
	// limit.
	MaxBytes int64
	// MaxExpansion bounds what a compressed stream decompresses to by its own
	// length; see compression.Limits. 0 means the default of pushed bundles
	// there, a negative value no limit.
	MaxExpansion int
	// MaxStreamParamBytes is the longest list of stream parameters. 0 means
	// 64 KiB.
	MaxStreamParamBytes int
	// MaxHeaderBytes is the longest header of a part. 0 means the most that
	// the format can express, some 256 KiB.
	MaxHeaderBytes int
	// MaxParts is the largest number of parts, interrupting ones included. 0
	// means 65536.
	MaxParts int
	// MaxNesting is how deep interrupts may interrupt each other. 0 means 4.
	MaxNesting int
}

func (l Limits) withDefaults() Limits {
	orInt := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	orInt(&l.MaxStreamParamBytes, 64<<10)
	orInt(&l.MaxHeaderBytes, maxHeaderBytes)
	orInt(&l.MaxExpansion, compression.PushedExpansion)
	orInt(&l.MaxParts, 65536)
	orInt(&l.MaxNesting, 4)
	return l
}

// A Reader reads a bundle2 stream part by part. Bytes that break the format
// are an error that unwraps to hg.ErrMalformed (or hg.ErrTooLarge) and to an
// *hg.Abort with the text that hg has for it; a stream that ends too early
// also unwraps to io.ErrUnexpectedEOF.
type Reader struct {
	// Params are the parameters of the stream.
	Params []StreamParam
	// Compression is how the parts are compressed.
	Compression compression.Engine

	// Interrupt handles a part that comes in the middle of another's payload.
	// Its error ends the Read of that payload. If it is nil, error:abort is
	// returned as the *hg.Abort it carries, other advisory parts are ignored,
	// and mandatory ones refused.
	Interrupt func(*Part) error

	f     *frame.Reader
	lim   Limits
	body  io.Closer // gives back the decoder; nil if there is none
	cur   *Part     // whose payload may not have been read to its end
	parts int       // seen so far
	err   error     // sticky
}

// NewReader reads the start of a stream, up to its parts. A mandatory stream
// parameter that isn't known, or asks for a compression that isn't, is an
// *hg.UnsupportedContent. NewReader may read beyond the end of the stream.
func NewReader(r io.Reader, lim Limits) (*Reader, error) {
	rd := &Reader{f: frame.NewBuffered(r, "bundle2", readBytes), lim: lim.withDefaults()}
	if err := rd.readMagic(); err != nil {
		return nil, err
	}
	if err := rd.readStreamParams(); err != nil {
		return nil, err
	}
	if err := rd.applyStreamParams(); err != nil {
		return nil, err
	}
	return rd, nil
}

// Close gives the decoder of a compressed stream back. It doesn't close the
// reader below.
func (r *Reader) Close() error {
	r.err = io.ErrClosedPipe
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}

// Offset returns how many bytes of the stream have been read, decompressed
// ones where it is compressed.
func (r *Reader) Offset() int64 { return r.f.Offset() }

func (r *Reader) readMagic() error {
	var b [len(magic)]byte
	if err := r.f.Full(b[:]); err != nil {
		return err
	}
	if string(b[:2]) != magicName {
		return r.f.Malformed("not a Mercurial bundle")
	}
	if string(b[2:]) != magicVersion {
		return r.f.Malformed("unknown bundle version %s", b[2:])
	}
	return nil
}

func (r *Reader) readStreamParams() error {
	n, err := r.f.Int32()
	if err != nil {
		return err
	}
	if n < 0 {
		return r.f.Malformed("negative bundle param size: %d", n)
	}
	if int(n) > r.lim.MaxStreamParamBytes {
		return r.f.TooLarge("size of stream parameters", int64(n), int64(r.lim.MaxStreamParamBytes))
	}
	blob, err := r.f.Next(nil, int(n))
	if err != nil {
		return err
	}
	if r.Params, err = parseStreamParams(string(blob)); err != nil {
		return r.f.Malformed("stream parameters: %v", err)
	}
	return nil
}

// applyStreamParams starts decompression of what follows.
func (r *Reader) applyStreamParams() error {
	for _, p := range r.Params {
		known := false
		if strings.EqualFold(p.Name, compressionParam) {
			r.Compression, known = compression.FromBundle(p.Value)
		} else {
			known = !p.mandatory()
		}
		if !known {
			return &hg.UnsupportedContent{Params: []string{p.Name}}
		}
	}
	if r.Compression == compression.None {
		return nil
	}
	body, err := compression.NewReader(r.Compression, r.f.Source(), compression.Limits{
		MaxBytes: r.lim.MaxBytes, MaxExpansion: r.lim.MaxExpansion,
	})
	if err != nil {
		return err
	}
	r.body = body
	r.f.Swap(bufio.NewReaderSize(body, readBytes))
	return nil
}

// NextPart returns the next part. What was not read of the payload of the one
// before is skipped, its interrupts handled; that Part must not be used any
// more. At the end of the stream NextPart returns io.EOF.
func (r *Reader) NextPart() (*Part, error) {
	if r.err != nil {
		return nil, r.err
	}
	if r.err = r.skip(r.cur); r.err != nil {
		return nil, r.err
	}
	r.cur = nil
	r.f.Stream = "bundle2"
	n, err := r.f.Int32()
	if err == nil && n == endOfStream {
		err = io.EOF
	}
	if err != nil {
		r.err = err
		return nil, err
	}
	r.cur, r.err = r.readPart(n, 0)
	return r.cur, r.err
}

// readPart reads a part's header of n bytes.
func (r *Reader) readPart(n int32, depth int) (*Part, error) {
	if n <= 0 {
		return nil, r.f.Malformed("negative part header size: %d", n)
	}
	if int(n) > r.lim.MaxHeaderBytes {
		return nil, r.f.TooLarge("part header size", int64(n), int64(r.lim.MaxHeaderBytes))
	}
	if r.parts++; r.parts > r.lim.MaxParts {
		return nil, r.f.TooLarge("number of parts", int64(r.parts), int64(r.lim.MaxParts))
	}
	b, err := r.f.Next(nil, int(n))
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return nil, r.f.Malformed("part header: %v", err)
	}
	r.f.Stream = fmt.Sprintf("bundle2 part %d (%s)", h.id, h.typ)
	return &Part{
		ID: h.id, Type: h.typ, Mandatory: h.mandatory, Params: h.params,
		r: r, depth: depth,
	}, nil
}

// skip reads p to its end.
func (r *Reader) skip(p *Part) error {
	if p == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, p)
	return err
}

// interrupt handles the part that interrupts p.
func (r *Reader) interrupt(p *Part) error {
	if p.depth+1 > r.lim.MaxNesting {
		return r.f.TooLarge("depth of interrupts", int64(p.depth+1), int64(r.lim.MaxNesting))
	}
	outer := r.f.Stream
	n, err := r.f.Int32()
	if err != nil || n == 0 { // hg takes an interrupt without a part
		return err
	}
	sub, err := r.readPart(n, p.depth+1)
	if err != nil {
		return err
	}
	handle := r.Interrupt
	if handle == nil {
		handle = interruptDefault
	}
	if err := handle(sub); err != nil {
		return err
	}
	if err := r.skip(sub); err != nil {
		return err
	}
	r.f.Stream = outer
	return nil
}

// interruptDefault is what happens to interrupting parts if the user has no
// handler for them.
func interruptDefault(p *Part) error {
	if p.Type == "error:abort" {
		return p.Abort()
	}
	if p.Mandatory {
		return p.Unsupported()
	}
	return nil
}
