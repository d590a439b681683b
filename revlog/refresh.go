package revlog

import (
	"errors"
	"fmt"
	"io/fs"
)

// ExtendToFile publishes a snapshot of all whole revisions that the files hold
// by now, as Extend does. It is for logs that somebody else may have appended
// to. A log that shrank is a *CorruptError: it has to be opened anew.
func (l *Log) ExtendToFile() error {
	size, err := l.sizeOnDisk()
	if err != nil {
		return err
	}
	return l.Extend(size)
}

// sizeOnDisk returns how much of the files whole revisions take up.
func (l *Log) sizeOnDisk() (size Size, err error) {
	f, err := l.fs.Open(l.indexName())
	if errors.Is(err, fs.ErrNotExist) {
		return Size{Inline: l.o.Inline}, nil
	}
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return size, err
	}
	if info.Size < entrySize {
		return Size{Inline: l.o.Inline}, nil
	}
	var first [headerSize]byte
	if _, err := f.ReadAt(first[:], 0); err != nil {
		return size, err
	}
	if readHeader(first[:]).inline() {
		return l.inlineSize()
	}
	revs := info.Size / entrySize
	var last entry
	if _, err := f.ReadAt(last[:], (revs-1)*entrySize); err != nil {
		return size, err
	}
	off := last.offset()
	if revs == 1 {
		off = 0 // the header lies over it
	}
	if last.chunkLen() < 0 {
		return size, &CorruptError{l.indexName(), -1, fmt.Errorf("%w at its end", errChunkLen)}
	}
	return Size{Revs: int(revs), IndexBytes: revs * entrySize, DataBytes: off + int64(last.chunkLen())}, nil
}

// inlineSize walks an inline index, which is short, to its last whole revision.
func (l *Log) inlineSize() (Size, error) {
	whole := Log{fs: l.fs, radix: l.radix, o: l.o}
	whole.o.Mapped = false
	st, src := &state{}, &source{}
	whole.initSource(src)
	if err := whole.load(st, src, wholeFile); err != nil {
		return Size{}, err
	}
	return st.size, nil
}
