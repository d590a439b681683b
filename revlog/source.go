package revlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"vcsd/internal/bigbuf"
	"vcsd/internal/vfs"
)

// A source is what the snapshots of one index file hold on to: the mapping of
// the index, if it has one, and the handle of the data file. It lives until
// the Log and the last snapshot have let go of it.
type source struct {
	mapping vfs.Mapping // nil if the index is in memory
	index   identity    // of the index file; zero if there was none
	data    dataFile

	// refs counts the Log, while this is its current source, and the open
	// snapshots. Invariant: once 0 it stays 0, and what the source held is
	// closed.
	refs atomic.Int64
}

// An identity tells a file from another one of the same name.
type identity struct{ dev, ino uint64 }

func identityOf(i vfs.Info) identity { return identity{i.Dev, i.Ino} }

// isCurrent tells whether the files are still those that the source reads.
// Who appends to files that a clone shares by hard links replaces them first.
func (s *source) isCurrent(indexName string) (bool, error) {
	same, err := s.index.holds(s.data.fs, indexName)
	if !same || err != nil {
		return false, err
	}
	f, opened := s.data.file.Load().(openFile)
	if !opened {
		return true, nil
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	return identityOf(info).holds(s.data.fs, s.data.name)
}

// holds tells whether the file called name is still this one.
func (id identity) holds(fsys vfs.FS, name string) (bool, error) {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return id == identity{}, nil
	}
	return identityOf(info) == id, err
}

// acquire takes a reference, unless the source is gone already.
func (s *source) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference up and closes what the source holds with the last.
func (s *source) release() error {
	if s.refs.Add(-1) != 0 {
		return nil
	}
	var err error
	if s.mapping != nil {
		err = s.mapping.Close()
	}
	return errors.Join(err, s.data.close())
}

// dataFile is the .d file of a split log. It is opened when a chunk is first
// read: many logs are opened for their index alone.
type dataFile struct {
	fs   vfs.FS // constant, as name
	name string

	mu   sync.Mutex   // serialises opening
	file atomic.Value // of openFile; set once, with mu held
	size atomic.Int64 // bytes known to be in the file
}

// openFile makes the stored type of an atomic.Value the same for every FS.
type openFile struct{ vfs.File }

func (d *dataFile) open() (vfs.File, error) {
	if f, ok := d.file.Load().(openFile); ok {
		return f.File, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.file.Load().(openFile); ok {
		return f.File, nil
	}
	f, err := d.fs.Open(d.name)
	if err != nil {
		return nil, err
	}
	d.file.Store(openFile{f})
	return f, nil
}

func (d *dataFile) close() error {
	if f, ok := d.file.Load().(openFile); ok {
		return f.Close()
	}
	return nil
}

// available returns how many bytes of the n at off the file has. It asks the
// file system only for what was not there before.
func (d *dataFile) available(f vfs.File, off, n int64) (int64, error) {
	if off+n > d.size.Load() {
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		d.size.Store(info.Size)
	}
	return max(0, min(n, d.size.Load()-off)), nil
}

// read returns the need bytes at off, and up to extra bytes that follow them,
// in buf if it is large enough. What is not in the file is never allocated for.
func (d *dataFile) read(buf []byte, off, need, extra int64) ([]byte, error) {
	f, err := d.open()
	if err != nil {
		return nil, err
	}
	n, err := d.available(f, off, need+extra)
	if err != nil {
		return nil, err
	}
	if n < need {
		return nil, fmt.Errorf("%w: %d bytes at %d, file has %d", errOffset, need, off, d.size.Load())
	}
	if int64(cap(buf)) < n {
		buf = bigbuf.Make(int(n))
	}
	got, err := f.ReadAt(buf[:n], off)
	if int64(got) < need {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf[:got], nil
}
