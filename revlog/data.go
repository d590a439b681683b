package revlog

import (
	"fmt"

	"vcsd/hg"
)

// extent is where a chunk lies in the data.
type extent struct{ off, len int64 }

func (x extent) end() int64 { return x.off + x.len }

// extent returns where the chunk of rev lies, in the data file or, in an
// inline log, in the index.
func (s *state) extent(rev hg.Rev) (extent, error) {
	e := s.entry(rev)
	if e.chunkLen() < 0 {
		return extent{}, s.corrupt(rev, errChunkLen)
	}
	x := extent{s.offset(rev), int64(e.chunkLen())}
	if s.pos == nil {
		return x, nil
	}
	place := int64(s.pos[rev]) - int64(rev)*entrySize
	if x.off != place {
		return extent{}, s.corrupt(rev, fmt.Errorf("%w: %d, is %d", errInlinePos, x.off, place))
	}
	return extent{int64(s.pos[rev]) + entrySize, x.len}, nil
}

// chunk returns the stored bytes of rev.
func (r *Reader) chunk(rev hg.Rev) ([]byte, error) {
	x, err := r.s.extent(rev)
	if err != nil {
		return nil, err
	}
	if r.s.pos != nil {
		return r.s.index[x.off:x.end():x.end()], nil
	}
	return r.at(rev, x)
}

// inWindow returns the bytes at x if the window has them.
func (r *Reader) inWindow(x extent) ([]byte, bool) {
	if x.off < r.winOff || x.end() > r.winOff+int64(len(r.win)) {
		return nil, x.len == 0
	}
	from := x.off - r.winOff
	return r.win[from : from+x.len : from+x.len], true
}

// at returns the bytes of the data file at x, on behalf of rev. They become the
// window, with what is read ahead.
func (r *Reader) at(rev hg.Rev, x extent) ([]byte, error) {
	if b, ok := r.inWindow(x); ok {
		return b, nil
	}
	extra := int64(0)
	if x.off >= r.winOff && x.off <= r.winOff+int64(len(r.win))+maxGapBytes {
		extra = min(r.ahead, max(0, r.s.size.DataBytes-x.end()))
	}
	b, err := r.s.src.data.read(r.spare(), x.off, x.len, extra)
	if err != nil {
		return nil, r.s.dataError(rev, err)
	}
	r.win, r.winOff = b, x.off
	return b[:x.len:x.len], nil
}

// spare returns the window's memory to be read into again, if it may be:
// without read-ahead the slices go to callers who keep them.
func (r *Reader) spare() []byte {
	if r.ahead == 0 {
		return nil
	}
	return r.win[:0]
}

// readChain returns the chunks of chain, which ascends. Those that lie close
// to one another come with one read. They are valid until the next call of r.
func (r *Reader) readChain(chain []hg.Rev) ([][]byte, error) {
	r.chunks = r.chunks[:0]
	if r.s.pos != nil {
		return r.chainInline(chain)
	}
	for inWindow := false; len(chain) > 0; {
		n, span, err := r.s.run(chain)
		if err != nil {
			return nil, err
		}
		b, ok := r.inWindow(span)
		switch {
		case ok:
			inWindow = true
		case n < len(chain):
			// The window is for what comes after the chain's end.
			b, err = r.s.src.data.read(nil, span.off, span.len, 0)
			if err != nil {
				return nil, r.s.dataError(chain[n-1], err)
			}
		default:
			if inWindow {
				r.win = nil // its memory has chunks of this chain
			}
			if b, err = r.at(chain[n-1], span); err != nil {
				return nil, err
			}
		}
		r.cut(b, span, chain[:n])
		chain = chain[n:]
	}
	return r.chunks, nil
}

func (r *Reader) chainInline(chain []hg.Rev) ([][]byte, error) {
	for _, rev := range chain {
		c, err := r.chunk(rev)
		if err != nil {
			return nil, err
		}
		r.chunks = append(r.chunks, c)
	}
	return r.chunks, nil
}

// cut adds to r.chunks those of revs, which lie in b, the bytes at span.
func (r *Reader) cut(b []byte, span extent, revs []hg.Rev) {
	for _, rev := range revs {
		x, _ := r.s.extent(rev) // run has seen that there is no error
		from := x.off - span.off
		r.chunks = append(r.chunks, b[from:from+x.len:from+x.len])
	}
}

// run returns how many of the first revisions of chain lie close together in
// the data file, and the bytes from the first to the last of them.
func (s *state) run(chain []hg.Rev) (n int, span extent, err error) {
	for i, rev := range chain {
		x, err := s.extent(rev)
		if err != nil {
			return 0, extent{}, err
		}
		if i == 0 {
			span = x
			continue
		}
		if gap := x.off - span.end(); gap < 0 || gap > maxGapBytes {
			return i, span, nil
		}
		span.len = x.end() - span.off
	}
	return len(chain), span, nil
}
