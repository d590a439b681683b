package compression

import (
	"bytes"
	"io"
	"strings"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// A Format is what a stream of repository data turns out to be.
type Format uint8

const (
	// Bundle1 is a changegroup of version 01 behind "HG10" and the name of
	// its compression, or behind nothing at all.
	Bundle1 Format = 1 + iota
	// Bundle2 is a stream that begins with "HG20".
	Bundle2
)

// OpenBundle finds out what r holds. For Bundle1 the result reads the
// decompressed changegroup, of at most limit bytes (0 means no limit) and
// within PushedExpansion; for Bundle2 the whole stream, magic included. Close
// the result to give back a decoder; r is not closed. If r is an io.Seeker, the
// result of a stream that isn't compressed has a method Remaining, which returns
// how many bytes can still come.
//
// An "HG10BZ" header shares its last two bytes with the bzip2 stream, which
// begins with them. A changegroup without header begins with a zero byte, the
// length of its first chunk, and is taken for one as hg does.
func OpenBundle(r io.Reader, limit int64) (Format, io.ReadCloser, error) {
	var magic [6]byte
	if err := frame.NewReader(r, "bundle").Full(magic[:4]); err != nil {
		return 0, nil, err
	}
	head := string(magic[:4])
	switch {
	case head == "HG20":
		return Bundle2, replay(magic[:4], r), nil
	case head == "HG10":
		return openBundle1(r, magic[4:], limit)
	case head[0] == 0:
		body, err := NewReader(None, replay(magic[:4], r), Limits{MaxBytes: limit})
		return Bundle1, body, err
	case strings.HasPrefix(head, "HG"):
		return 0, nil, frame.Malformed("bundle", 4, "stream: unknown bundle version %s", head[2:])
	}
	return 0, nil, frame.Malformed("bundle", 4, "stream: not a Mercurial bundle")
}

// openBundle1 goes on after "HG10"; name is room for the compression's.
func openBundle1(r io.Reader, name []byte, limit int64) (Format, io.ReadCloser, error) {
	f := frame.NewReader(r, "bundle")
	if err := f.Full(name); err != nil {
		return 0, nil, err
	}
	e, ok := FromBundle(string(name))
	if !ok || e == Zstd {
		return 0, nil, &hg.Abort{Message: "unknown stream compression type: " + string(name)}
	}
	if e == Bzip2 {
		r = replay(name, r)
	}
	body, err := NewReader(e, r, Limits{MaxBytes: limit, MaxExpansion: PushedExpansion})
	return Bundle1, body, err
}

// replay returns a reader of read and then of r.
func replay(read []byte, r io.Reader) io.ReadCloser {
	head := bytes.Clone(read)
	p := &replayed{Reader: io.MultiReader(bytes.NewReader(head), r), left: frame.Remaining(r)}
	if p.left >= 0 {
		p.left += int64(len(head))
	}
	return p
}

// replayed counts down what is left, if that was known.
type replayed struct {
	io.Reader
	left int64 // -1 if unknown
}

func (p *replayed) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if p.left >= 0 {
		p.left = max(p.left-int64(n), 0)
	}
	return n, err
}

// Remaining implements frame.Bounded.
func (p *replayed) Remaining() int64 { return p.left }

// Close does nothing: the reader below is not ours.
func (p *replayed) Close() error { return nil }
