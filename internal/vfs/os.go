package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// osFS is the operating system's file system (Linux) below a root.
type osFS struct {
	root string // constant; empty is the working directory
}

// NewOS returns the operating system's file system as seen from root.
// Relative names are below root, absolute ones are those of the system. New
// files get mode 0666 and new directories 0777, less the umask.
func NewOS(root string) FS { return &osFS{root: root} }

func (o *osFS) path(name string) string {
	switch {
	case filepath.IsAbs(name):
		return name
	case o.root == "" && name == "":
		return "."
	}
	return filepath.Join(o.root, name)
}

func (o *osFS) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(o.path(name), flag, 0o666)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (o *osFS) Open(name string) (File, error) { return o.open(name, os.O_RDONLY) }

func (o *osFS) OpenWrite(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE)
}

func (o *osFS) Create(name string) (File, error) {
	return o.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (o *osFS) Stat(name string) (Info, error) {
	fi, err := os.Stat(o.path(name))
	return infoOf(fi, err)
}

func (o *osFS) Lstat(name string) (Info, error) {
	fi, err := os.Lstat(o.path(name))
	return infoOf(fi, err)
}

func infoOf(fi os.FileInfo, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	in := Info{Size: fi.Size(), Mode: fi.Mode(), ModTime: fi.ModTime()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		in.Dev, in.Ino, in.Nlink = uint64(st.Dev), st.Ino, uint64(st.Nlink)
		in.ChangeTime = time.Unix(st.Ctim.Unix())
		in.UID, in.GID = st.Uid, st.Gid
	}
	return in, nil
}

func (o *osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(o.path(name)) }
func (o *osFS) MkdirAll(name string) error                 { return os.MkdirAll(o.path(name), 0o777) }
func (o *osFS) Rename(oldName, newName string) error {
	return os.Rename(o.path(oldName), o.path(newName))
}
func (o *osFS) Link(oldName, newName string) error   { return os.Link(o.path(oldName), o.path(newName)) }
func (o *osFS) Symlink(target, name string) error    { return os.Symlink(target, o.path(name)) }
func (o *osFS) Readlink(name string) (string, error) { return os.Readlink(o.path(name)) }
func (o *osFS) Remove(name string) error             { return os.Remove(o.path(name)) }
func (o *osFS) RemoveAll(name string) error          { return os.RemoveAll(o.path(name)) }

func (o *osFS) Chmod(name string, mode fs.FileMode) error { return os.Chmod(o.path(name), mode) }

func (o *osFS) SyncDir(name string) (err error) {
	d, err := os.Open(o.path(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	// Some network file systems know no sync of a directory, as their entries
	// are durable at once. They say so by EINVAL.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

func (o *osFS) Lock(name string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(o.path(name), os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
		}
		// The holder before us may have removed the file: a lock on a file
		// that the name no longer leads to excludes nobody.
		if o.stands(f) {
			return f, nil
		}
		f.Close()
	}
}

// stands reports whether f is what its name leads to.
func (o *osFS) stands(f *os.File) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(held, named)
}

func flock(f *os.File) error {
	err := again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func (o *osFS) Free(name string) (int64, error) {
	var st unix.Statfs_t
	path := o.path(name)
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	if st.Bsize <= 0 || st.Bavail > uint64(math.MaxInt64/st.Bsize) {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// osFile is a File of the operating system.
type osFile struct{ *os.File }

// OSFile returns the operating system's file behind f, for what only it can
// do, such as sendfile. It is nil if there is none. The file stays f's.
func OSFile(f File) *os.File {
	switch f := f.(type) {
	case osFile:
		return f.File
	case interface{ Unwrap() File }:
		return OSFile(f.Unwrap())
	}
	return nil
}

func (f osFile) Stat() (Info, error) {
	fi, err := f.File.Stat()
	return infoOf(fi, err)
}

func (f osFile) Sync() error {
	err := again(func() error { return unix.Fdatasync(int(f.Fd())) })
	return f.wrap("fdatasync", err)
}

func (f osFile) Reserve(size int64) error {
	fi, err := f.File.Stat()
	if err != nil {
		return err
	}
	if size <= fi.Size() {
		return nil
	}
	err = again(func() error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, fi.Size(), size-fi.Size())
	})
	// Without support there is no claim, and the write tells.
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return f.wrap("fallocate", err)
}

func (f osFile) Map(size int64) (Mapping, error) {
	if size < 0 || size > math.MaxInt {
		return nil, f.wrap("mmap", unix.EINVAL)
	}
	if size == 0 {
		return &osMapping{}, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, f.wrap("mmap", err)
	}
	return &osMapping{b}, nil
}

func (f osFile) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.Name(), Err: err}
}

// osMapping is a mapping of the operating system.
type osMapping struct{ b []byte }

func (m *osMapping) Bytes() []byte { return m.b }

func (m *osMapping) Close() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	return unix.Munmap(b)
}
