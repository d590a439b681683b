package changegroup

import (
	"io"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// readBytes is what is asked of the underlying reader at a time.
const readBytes = 64 << 10

// Limits bound what a Reader takes from a stranger. Zero fields mean the
// defaults.
type Limits struct {
	// MaxChunkBytes is the largest chunk: a delta and its header. 0 means
	// 1 GiB; the format itself ends below 2 GiB.
	MaxChunkBytes int64
	// MaxPathBytes is the longest path of a file. 0 means 64 KiB.
	MaxPathBytes int
	// Trees allows groups of Kind Tree: the part has the parameter
	// "treemanifest". Without it they are refused.
	Trees bool
}

func (l Limits) withDefaults() Limits {
	if l.MaxChunkBytes == 0 {
		l.MaxChunkBytes = 1 << 30
	}
	if l.MaxPathBytes == 0 {
		l.MaxPathBytes = 64 << 10
	}
	return l
}

// A Reader reads a changegroup: groups, and in each its deltas. Bytes that
// break the format are an error that unwraps to hg.ErrMalformed (or
// hg.ErrTooLarge) and to an *hg.Abort with the text that hg has for it; a
// stream that ends too early also unwraps to io.ErrUnexpectedEOF.
type Reader struct {
	f   *frame.Reader
	v   Version
	lim Limits

	group   Group
	inGroup bool    // the empty chunk that ends the group has not been read
	deltas  int     // deltas read of the group
	prev    hg.Node // the revision read before in the group; version 01
	buf     []byte  // the chunk last read; lent to the caller
	err     error   // what ended the reading; sticky
}

// NewReader returns a Reader of the changegroup in r. It may read beyond the
// end of the changegroup.
func NewReader(r io.Reader, v Version, lim Limits) *Reader {
	return &Reader{
		f:   frame.NewBuffered(r, "changegroup", readBytes),
		v:   v,
		lim: lim.withDefaults(),
	}
}

// Version returns the version being read.
func (r *Reader) Version() Version { return r.v }

// Offset returns how many bytes of the changegroup have been read.
func (r *Reader) Offset() int64 { return r.f.Offset() }

// NextGroup goes to the next group; deltas of the present one that have not
// been read are skipped. The changelog's and the manifest's always come,
// though they may be empty. At the end of the changegroup it returns io.EOF.
func (r *Reader) NextGroup() (Group, error) {
	for r.inGroup {
		if _, _, err := r.NextDelta(); err != nil && err != io.EOF {
			return Group{}, err
		}
	}
	if r.err != nil {
		return Group{}, r.err
	}
	if r.err = r.nextGroup(); r.err != nil {
		return Group{}, r.err
	}
	r.inGroup, r.deltas = true, 0
	return r.group, nil
}

// nextGroup sets r.group to the group that follows it.
func (r *Reader) nextGroup() error {
	switch r.group.Kind {
	case 0:
		r.group = Group{Kind: Changelog}
		return nil
	case Changelog:
		r.group = Group{Kind: Manifest}
		return nil
	case Manifest, Tree:
		if r.v != V03 {
			return r.nextPath(File)
		}
		// The trees' segment is always there, and ends with an empty chunk of
		// its own.
		if err := r.nextPath(Tree); err != io.EOF {
			return err
		}
	}
	return r.nextPath(File)
}

// nextPath reads the name of a group of the given kind. The empty chunk in
// its stead is io.EOF.
func (r *Reader) nextPath(k Kind) error {
	n, err := r.chunkLen()
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	if n > r.lim.MaxPathBytes {
		return r.f.TooLarge("path length", int64(n), int64(r.lim.MaxPathBytes))
	}
	if k == Tree && !r.lim.Trees {
		return r.f.Malformed("bundle contains tree manifests without announcing them")
	}
	if r.buf, err = r.f.Next(r.buf, n); err != nil {
		return err
	}
	r.group = Group{Kind: k, Path: string(r.buf)}
	if k == Tree && r.buf[n-1] != '/' {
		return r.f.Malformed("directory %q lacks the slash at its end", r.buf)
	}
	return nil
}

// NextDelta returns the next revision of the group: its header, and the delta
// that makes it from its base, in the form of package delta. The slice is
// valid until the next call of a method of r. At the end of the group
// NextDelta returns io.EOF; a group of a file or directory without revisions
// is malformed, as it is for hg.
func (r *Reader) NextDelta() (Header, []byte, error) {
	if r.err != nil {
		return Header{}, nil, r.err
	}
	if !r.inGroup {
		return Header{}, nil, io.EOF
	}
	h, delta, err := r.nextDelta()
	if err == io.EOF {
		r.inGroup = false
		if r.err = r.checkGroup(); r.err != nil {
			err = r.err
		}
	} else if err != nil {
		r.inGroup, r.err = false, err
	}
	return h, delta, err
}

func (r *Reader) nextDelta() (h Header, delta []byte, err error) {
	n, err := r.chunkLen()
	if err != nil {
		return h, nil, err
	}
	if n == 0 {
		return h, nil, io.EOF
	}
	head := r.v.headerLen()
	if n < head {
		return h, nil, r.f.Malformed("invalid chunk length %d", n+lengthLen)
	}
	if r.buf, err = r.f.Next(r.buf, n); err != nil {
		return h, nil, err
	}
	h.decode(r.v, r.buf)
	r.count(&h)
	return h, r.buf[head:], nil
}

// count notes that h was read, and completes it in version 01.
func (r *Reader) count(h *Header) {
	if r.v == V01 {
		h.Base = r.prev
		if r.deltas == 0 {
			h.Base = h.P1
		}
		r.prev = h.Node
	}
	r.deltas++
}

// checkGroup refuses empty groups of files and directories.
func (r *Reader) checkGroup() error {
	switch {
	case r.deltas > 0:
		return nil
	case r.group.Kind == File:
		return r.f.Malformed("received file revlog group is empty")
	case r.group.Kind == Tree:
		return r.f.Malformed("received dir revlog group is empty")
	}
	return nil
}

// chunkLen reads a chunk's length and returns that of its data; 0 is the
// empty chunk.
func (r *Reader) chunkLen() (int, error) {
	n, err := r.f.Int32()
	if err != nil || n == 0 {
		return 0, err
	}
	if n <= lengthLen {
		return 0, r.f.Malformed("invalid chunk length %d", n)
	}
	if int64(n) > r.lim.MaxChunkBytes {
		return 0, r.f.TooLarge("chunk length", int64(n), r.lim.MaxChunkBytes)
	}
	return int(n) - lengthLen, nil
}
