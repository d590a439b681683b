package errfs

import "vcsd/internal/vfs"

// file is an open file whose operations count.
type file struct {
	vfs.File
	fs   *FS
	name string
}

// Unwrap returns the file inside.
func (f *file) Unwrap() vfs.File { return f.File }

func (f *file) Read(b []byte) (int, error) {
	if err := f.fs.check(Read, f.name); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.check(Read, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *file) Write(b []byte) (int, error) {
	first, err := f.fs.fault(Write, f.name)
	if err == nil {
		return f.File.Write(b)
	}
	if !first {
		return 0, err
	}
	n, _ := f.File.Write(b[:len(b)/2])
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	first, err := f.fs.fault(Write, f.name)
	if err == nil {
		return f.File.WriteAt(b, off)
	}
	if !first {
		return 0, err
	}
	n, _ := f.File.WriteAt(b[:len(b)/2], off)
	return n, err
}

func (f *file) Stat() (vfs.Info, error) {
	if err := f.fs.check(Stat, f.name); err != nil {
		return vfs.Info{}, err
	}
	return f.File.Stat()
}

func (f *file) Sync() error {
	first, err := f.fs.fault(Sync, f.name)
	if err == nil {
		return f.File.Sync()
	}
	// When the power goes or the process is killed, no sync has failed: what it
	// was to save is not durable, but a later one still saves it.
	if lossy, ok := f.File.(interface{ FailSync() }); ok && first && (!f.fs.cut || f.fs.lossy) {
		lossy.FailSync()
	}
	return err
}

func (f *file) Reserve(size int64) error {
	return f.fs.do(Reserve, f.name, func() error { return f.File.Reserve(size) })
}

func (f *file) Map(size int64) (vfs.Mapping, error) {
	if err := f.fs.check(Map, f.name); err != nil {
		return nil, err
	}
	return f.File.Map(size)
}

// Close closes the file inside in any case.
func (f *file) Close() error {
	err := f.fs.check(Close, f.name)
	if inner := f.File.Close(); err == nil {
		err = inner
	}
	return err
}
