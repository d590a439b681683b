package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// A step is what remains to be done of a write.
type step struct {
	skip   bool  // nothing
	from   int64 // of an append: the first offset to write
	absent bool  // the file isn't there and isn't made
}

// planner foresees the files while the writes of one record are checked.
type planner struct {
	a     *applier
	files map[string]*fileState
}

// fileState is a file as it will be after the writes checked so far.
type fileState struct {
	exists bool
	size   int64 // on the disk now
	end    int64 // after the writes so far; unknown is -1
	// fresh is set when an earlier write of the record makes the file anew, so
	// that the bytes on the disk now say nothing.
	fresh bool
	// written is set when an earlier write of the record changes the file.
	written bool
}

// plan checks all writes and returns a step for each. It changes nothing.
func (a *applier) plan(r *Record) ([]step, error) {
	p := &planner{a: a, files: make(map[string]*fileState)}
	steps := make([]step, len(r.Writes))
	for i := range r.Writes {
		w := &r.Writes[i]
		s, err := p.check(w)
		if err != nil {
			return nil, fmt.Errorf("%v %q: %w", w.Op, w.Path, err)
		}
		steps[i] = s
	}
	return steps, nil
}

func (p *planner) check(w *Write) (step, error) {
	st, err := p.state(w.Path)
	if err != nil {
		return step{}, err
	}
	if w.Op == Split {
		return p.checkSplit(w, st)
	}
	if err := p.a.checkSum(w); err != nil {
		return step{}, err
	}
	if w.Op == Replace {
		return p.checkReplace(w, st)
	}
	return p.checkAppend(w, st)
}

func (p *planner) state(name string) (*fileState, error) {
	if st := p.files[name]; st != nil {
		return st, nil
	}
	st := &fileState{}
	in, err := p.a.fs.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !in.Mode.IsRegular():
		return nil, &CorruptError{name, errors.New("not a regular file")}
	default:
		st.exists, st.size, st.end = true, in.Size, in.Size
	}
	p.files[name] = st
	return st, nil
}

func (p *planner) checkAppend(w *Write, st *fileState) (step, error) {
	if w.Op == AppendInline && st.exists && !st.fresh {
		done, err := p.a.isSplit(w.Path)
		if err != nil || done {
			return step{skip: done}, err
		}
	}
	from, err := p.present(w, st)
	if err != nil {
		return step{}, err
	}
	end := w.Offset + w.Length
	skip := from == end && (st.exists || st.written)
	if !skip {
		st.written = true
	}
	if st.end >= 0 {
		st.end = max(st.end, end)
	}
	return step{skip: skip, from: from}, nil
}

// present returns up to which offset the bytes of w are in the file.
func (p *planner) present(w *Write, st *fileState) (int64, error) {
	if st.end >= 0 && st.end < w.Offset {
		return 0, &ConflictError{w.Path, st.end, ErrGap}
	}
	if st.fresh || st.size <= w.Offset || w.Length == 0 {
		return w.Offset, nil
	}
	return p.a.compare(w, min(st.size-w.Offset, w.Length))
}

func (p *planner) checkReplace(w *Write, st *fileState) (step, error) {
	if p.a.o.Superseded != nil && p.a.o.Superseded(w.Path) {
		return step{skip: true, absent: !st.exists}, nil
	}
	same := false
	if st.exists && !st.written && st.size == w.Length {
		n, err := p.a.compare(w, w.Length)
		// Nothing but the conflict: what else went wrong is joined to it.
		if _, differs := err.(*ConflictError); err != nil && !differs {
			return step{}, err
		}
		same = err == nil && n == w.Length
	}
	if !same {
		st.end, st.fresh, st.written = w.Length, true, true
	}
	return step{skip: same}, nil
}

func (p *planner) checkSplit(w *Write, st *fileState) (step, error) {
	data, err := p.state(w.DataPath)
	if err != nil {
		return step{}, err
	}
	if st.exists && !st.written {
		done, err := p.a.isSplit(w.Path)
		if err != nil {
			return step{}, err
		}
		if done && !data.exists {
			return step{}, &CorruptError{w.DataPath, fs.ErrNotExist}
		}
		if done {
			return step{skip: true}, nil
		}
	}
	if st.end != w.Length {
		err := ErrDiffers
		if st.end < w.Length {
			err = ErrGap
		}
		return step{}, &ConflictError{w.Path, min(st.end, w.Length), err}
	}
	if !st.written {
		if _, err := p.a.readInline(w); err != nil {
			return step{}, err
		}
	}
	// What the halves' lengths are is known when they are made.
	for _, half := range []*fileState{st, data} {
		half.end, half.fresh, half.written = -1, true, true
	}
	return step{}, nil
}

// checkSum compares the bytes of w with its checksum.
func (a *applier) checkSum(w *Write) error {
	sum := uint32(0)
	err := a.sources.walk(w.Parts, 0, func(b []byte) error {
		sum = updateSum(sum, b)
		return nil
	})
	if err != nil {
		return err
	}
	if sum != w.Sum {
		return &CorruptError{w.Path, fmt.Errorf("bytes to write: %w: %08x, want %08x", errChecksum, sum, w.Sum)}
	}
	return nil
}

// compare reads the first n bytes of w's place in the file. It returns the
// offset of the first byte that isn't there yet. A byte that differs from the
// record's and isn't zero is a conflict: zeros are what a power cut leaves of
// bytes that didn't reach the disk, and nobody else appends zeros to where text,
// hashes or compressed data belong.
func (a *applier) compare(w *Write, n int64) (from int64, err error) {
	f, err := a.fs.Open(w.Path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := f.Close(); cerr != nil {
			err = errors.Join(err, cerr)
		}
	}()
	c := comparer{f: f, w: w, at: w.Offset, end: w.Offset + n, from: -1}
	err = a.sources.walk(w.Parts, 0, c.next)
	if err != nil && err != errStop {
		return 0, err
	}
	if c.from < 0 {
		c.from = c.end
	}
	return c.from, nil
}

// errStop ends a walk early.
var errStop = errors.New("stop")

type comparer struct {
	f       vfs.File
	w       *Write
	at, end int64 // what is still to be compared
	from    int64 // the first byte that differs, or -1
	buf     []byte
}

func (c *comparer) next(want []byte) error {
	for len(want) > 0 {
		if c.at == c.end {
			return errStop
		}
		if c.buf == nil {
			c.buf = make([]byte, min(chunkBytes, c.end-c.at))
		}
		n := min(int64(len(want)), int64(len(c.buf)), c.end-c.at)
		have := c.buf[:n]
		if err := readFullAt(c.f, have, c.at); err != nil {
			return err
		}
		if err := c.diff(have, want[:n]); err != nil {
			return err
		}
		c.at += n
		want = want[n:]
	}
	return nil
}

func (c *comparer) diff(have, want []byte) error {
	if string(have) == string(want) {
		return nil
	}
	for i := range have {
		if have[i] == want[i] {
			continue
		}
		if have[i] != 0 {
			return &ConflictError{c.w.Path, c.at + int64(i), ErrDiffers}
		}
		if c.from < 0 {
			c.from = c.at + int64(i)
		}
	}
	return nil
}
