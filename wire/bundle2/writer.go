package bundle2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"vcsd/hg"
	"vcsd/wire/compression"
)

var (
	errOpenPart   = errors.New("a part is open")
	errClosedPart = errors.New("part is closed")
	errClosed     = errors.New("writer is closed")
)

// WriterOptions say how a stream is written. The zero value is right for
// answers over HTTP, which has a compression of its own.
type WriterOptions struct {
	Compression compression.Engine
	Level       int           // as in compression.NewWriter
	Params      []StreamParam // besides Compression
}

// A Writer writes a bundle2 stream, one part after the other. Any error is
// final.
type Writer struct {
	w     compression.Writer
	id    uint32 // of the next part
	cur   *PartWriter
	frame []byte // a payload chunk in the making, its length before it
	err   error  // sticky
}

// NewWriter writes the start of a stream to w.
func NewWriter(w io.Writer, o WriterOptions) (*Writer, error) {
	ps := slices.Clone(o.Params)
	if o.Compression != compression.None {
		ps = append(ps, StreamParam{compressionParam, o.Compression.BundleName()})
	}
	head, err := appendStreamParams([]byte(magic), ps)
	if err != nil {
		return nil, fmt.Errorf("write bundle2: %w", err)
	}
	if _, err := w.Write(head); err != nil {
		return nil, err
	}
	body, err := compression.NewWriter(o.Compression, o.Level, w)
	if err != nil {
		return nil, fmt.Errorf("write bundle2: %w", err)
	}
	return &Writer{w: body, frame: make([]byte, sizeLen, sizeLen+payloadBytes)}, nil
}

// Start returns what a stream without parameters begins with.
func Start() []byte { return append([]byte(magic), 0, 0, 0, 0) }

// NewPartsWriter returns a Writer of the parts of a stream from id on, whose
// start and parts before are written by other means.
func NewPartsWriter(w io.Writer, id uint32) (*Writer, error) {
	body, err := compression.NewWriter(compression.None, 0, w)
	return &Writer{w: body, id: id, frame: make([]byte, sizeLen, sizeLen+payloadBytes)}, err
}

// AppendPart adds a whole part whose payload is one chunk.
func AppendPart(b []byte, id uint32, typ string, mandatory bool, payload []byte, params ...Param) ([]byte, error) {
	b, err := appendHeader(b, id, typ, mandatory, params)
	if err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	return binary.BigEndian.AppendUint32(b, endOfPayload), nil
}

// Part starts a part, which must be closed before the next one is started.
func (w *Writer) Part(typ string, mandatory bool, params ...Param) (*PartWriter, error) {
	if w.err == nil && w.cur != nil {
		w.fail(errOpenPart)
	}
	w.writeHeader(w.id, typ, mandatory, params)
	if w.err != nil {
		return nil, w.err
	}
	w.cur = &PartWriter{w: w, id: w.id}
	w.id++
	return w.cur, nil
}

// WritePart writes a part with the payload given, and returns its id.
func (w *Writer) WritePart(typ string, mandatory bool, payload []byte, params ...Param) (id uint32, err error) {
	p, err := w.Part(typ, mandatory, params...)
	if err != nil {
		return 0, err
	}
	if _, err := p.Write(payload); err != nil {
		return 0, err
	}
	return p.id, p.Close()
}

// Flush sends on what has been written, as far as the part that is open has
// full chunks.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

// Close ends the stream. It doesn't close the writer below.
func (w *Writer) Close() error {
	if w.err == errClosed {
		return nil
	}
	if w.err == nil && w.cur != nil {
		w.fail(errOpenPart)
	}
	w.writeInt(endOfStream)
	if err := w.w.Close(); w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return w.err
	}
	w.err = errClosed
	return nil
}

// Abandon gives up a stream that can't be ended: the receiver sees it cut.
func (w *Writer) Abandon() {
	w.fail(errors.New("stream was abandoned"))
	// What the encoder still holds is of no use to anybody.
	_ = w.w.Close()
}

// writeHeader writes a part's header.
func (w *Writer) writeHeader(id uint32, typ string, mandatory bool, ps []Param) {
	if w.err != nil {
		return
	}
	b, err := appendHeader(nil, id, typ, mandatory, ps)
	if err != nil {
		w.fail(err)
		return
	}
	w.write(b)
}

// writeInt writes one of the integers that stand in place of a length.
func (w *Writer) writeInt(n int32) {
	w.write(binary.BigEndian.AppendUint32(nil, uint32(n)))
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// writeFrame writes the chunk in the making, unless it is empty.
func (w *Writer) writeFrame() {
	if n := len(w.frame) - sizeLen; n > 0 {
		binary.BigEndian.PutUint32(w.frame, uint32(n))
		w.write(w.frame)
		w.frame = w.frame[:sizeLen]
	}
}

// fail makes err final, unless there was one before.
func (w *Writer) fail(err error) {
	if w.err == nil {
		w.err = fmt.Errorf("write bundle2: %w", err)
	}
}

// A PartWriter writes the payload of a part.
type PartWriter struct {
	w      *Writer
	id     uint32
	closed bool
}

// ID returns the part's id, to which an answer refers as "in-reply-to".
func (p *PartWriter) ID() uint32 { return p.id }

// check returns the error that forbids to go on.
func (p *PartWriter) check() error {
	if p.closed && p.w.err == nil {
		return errClosedPart
	}
	return p.w.err
}

// Write adds to the payload.
func (p *PartWriter) Write(b []byte) (int, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	n := 0
	for n < len(b) {
		k := p.room(len(b) - n)
		p.w.frame = append(p.w.frame, b[n:n+k]...)
		n += k
		if p.flushFull(); p.w.err != nil {
			return n, p.w.err
		}
	}
	return n, nil
}

// ReadFrom adds all of r to the payload.
func (p *PartWriter) ReadFrom(r io.Reader) (int64, error) {
	if err := p.check(); err != nil {
		return 0, err
	}
	var sum int64
	for {
		f := p.w.frame
		n, err := r.Read(f[len(f):cap(f)])
		p.w.frame = f[:len(f)+n]
		sum += int64(n)
		if p.flushFull(); p.w.err != nil {
			return sum, p.w.err
		}
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
	}
}

// room returns how many of n bytes fit the chunk in the making.
func (p *PartWriter) room(n int) int {
	return min(n, cap(p.w.frame)-len(p.w.frame))
}

func (p *PartWriter) flushFull() {
	if len(p.w.frame) == cap(p.w.frame) {
		p.w.writeFrame()
	}
}

// Flush sends on what has been written.
func (p *PartWriter) Flush() error {
	if err := p.check(); err != nil {
		return err
	}
	p.w.writeFrame()
	return p.w.Flush()
}

// Interrupt writes a whole part into the middle of the payload. The receiver
// handles it before it goes on with the payload.
func (p *PartWriter) Interrupt(typ string, mandatory bool, payload []byte, params ...Param) error {
	if err := p.check(); err != nil {
		return err
	}
	w := p.w
	w.writeFrame()
	w.writeInt(interruptChunk)
	w.writeHeader(0, typ, mandatory, params)
	for chunk := range slices.Chunk(payload, payloadBytes) {
		w.frame = append(w.frame, chunk...)
		w.writeFrame()
	}
	w.writeInt(endOfPayload)
	return w.err
}

// Abort tells the receiver that the payload can't be completed, and ends it.
// A stock client stops there and shows the sentence. The stream is abandoned
// after that: no part can follow.
func (p *PartWriter) Abort(e *hg.Abort) error {
	if err := p.Interrupt("error:abort", false, nil, AbortParams(e)...); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	err := p.w.Flush()
	p.w.Abandon()
	return err
}

// Close ends the payload.
func (p *PartWriter) Close() error {
	if p.closed {
		return p.w.err
	}
	p.closed = true
	if p.w.err != nil {
		return p.w.err
	}
	p.w.writeFrame()
	p.w.writeInt(endOfPayload)
	p.w.cur = nil
	return p.w.err
}
