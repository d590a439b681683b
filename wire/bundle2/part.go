package bundle2

import (
	"io"
	"slices"

	"vcsd/hg"
)

// A Part is one part of a stream. It reads as its payload, and is valid until
// the next call of NextPart.
type Part struct {
	ID        uint32 // unique in the stream, if the sender behaves
	Type      string // in lower case
	Mandatory bool   // a receiver that doesn't know the type must refuse
	Params    []Param

	r     *Reader
	depth int   // how many parts it interrupts
	size  int64 // of the present payload chunk
	left  int64 // bytes of it not read yet
	err   error // sticky; io.EOF at the end of the payload
}

// Param returns the value of the parameter with that key.
func (p *Part) Param(key string) (value string, ok bool) {
	i := slices.IndexFunc(p.Params, func(q Param) bool { return q.Key == key })
	if i < 0 {
		return "", false
	}
	return p.Params[i].Value, true
}

// CheckParams returns an *hg.UnsupportedContent if a mandatory parameter is
// not among the known ones.
func (p *Part) CheckParams(known ...string) error {
	var missing []string
	for _, q := range p.Params {
		if q.Mandatory && !slices.Contains(known, q.Key) {
			missing = append(missing, q.Key)
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return &hg.UnsupportedContent{PartType: p.Type, Params: missing}
}

// Unsupported returns the error that refuses a part of this type.
func (p *Part) Unsupported() *hg.UnsupportedContent {
	return &hg.UnsupportedContent{PartType: p.Type}
}

// Abort returns what an error:abort part says.
func (p *Part) Abort() *hg.Abort {
	message, _ := p.Param("message")
	hint, _ := p.Param("hint")
	return &hg.Abort{Message: message, Hint: hint}
}

// Read reads from the payload. Parts that interrupt it are handled on the way
// by Reader.Interrupt.
func (p *Part) Read(b []byte) (int, error) {
	for p.left == 0 && p.err == nil {
		p.err = p.nextChunk()
	}
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.r.f.Some(b, p.size-p.left, p.size)
	p.left -= int64(n)
	p.err = err
	return n, err
}

// Remaining returns how many bytes of payload may still come at most, -1 if
// nobody knows: what is left of the stream.
func (p *Part) Remaining() int64 {
	if p.r.f.Bound == nil {
		return -1
	}
	return p.r.f.Bound()
}

// nextChunk reads the length of the next payload chunk that has data. The end
// of the payload is io.EOF.
func (p *Part) nextChunk() error {
	n, err := p.r.f.Int32()
	switch {
	case err != nil:
		return err
	case n > 0:
		p.size, p.left = int64(n), int64(n)
		return nil
	case n == endOfPayload:
		return io.EOF
	case n == interruptChunk:
		return p.r.interrupt(p)
	}
	return p.r.f.Malformed("negative payload chunk size: %d", n)
}

// ReadAll reads the whole payload, if it isn't longer than limit bytes.
func (p *Part) ReadAll(limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(p, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, p.r.f.TooLarge("payload size", int64(len(b)), limit)
	}
	return b, nil
}
