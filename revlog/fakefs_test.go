package revlog

import (
	"bytes"
	"io"
	"io/fs"
	"sync/atomic"

	"vcsd/internal/vfs"
)

// fakeFS is a read-only file system that counts what is asked of it. What a
// test does not need panics by the nil interface.
type fakeFS struct {
	vfs.FS
	files map[string][]byte

	opens, stats, reads, maps, closes atomic.Int64
}

func (f *fakeFS) Open(name string) (vfs.File, error) {
	f.opens.Add(1)
	b, ok := f.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &fakeFile{fs: f, b: b}, nil
}

type fakeFile struct {
	vfs.File
	fs *fakeFS
	b  []byte
}

func (f *fakeFile) Stat() (vfs.Info, error) {
	f.fs.stats.Add(1)
	return vfs.Info{Size: int64(len(f.b))}, nil
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads.Add(1)
	return bytes.NewReader(f.b).ReadAt(p, off)
}

func (f *fakeFile) Close() error {
	f.fs.closes.Add(1)
	return nil
}

// Map returns a copy that ends after the page in which the file ends.
func (f *fakeFile) Map(size int64) (vfs.Mapping, error) {
	f.fs.maps.Add(1)
	return fakeMapping(append(f.b[:len(f.b):len(f.b)], make([]byte, min(size-int64(len(f.b)), 4096))...)), nil
}

type fakeMapping []byte

func (m fakeMapping) Bytes() []byte { return m }
func (m fakeMapping) Close() error  { return nil }

var _ io.ReaderAt = (*fakeFile)(nil)
