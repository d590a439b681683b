package vfs

import (
	"io"
	"io/fs"
	"time"
)

// FS is a file system seen from one root. Names are slash-separated, relative
// to the root or absolute in its own terms; an empty name is the root.
// Errors are *fs.PathError or *os.LinkError and unwrap to fs.ErrNotExist,
// fs.ErrExist and syscall.Errno as those of package os do.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// OpenWrite opens a file for reading and for writing at offsets, and makes
	// it if it is missing. It never truncates.
	OpenWrite(name string) (File, error)
	// Create makes a new file; it fails with fs.ErrExist where one stands.
	Create(name string) (File, error)

	Stat(name string) (Info, error)
	Lstat(name string) (Info, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string) error
	// Rename replaces newName in one step. It is durable after SyncDir of the
	// directory.
	Rename(oldName, newName string) error
	Link(oldName, newName string) error
	Symlink(target, name string) error
	Readlink(name string) (string, error)
	Remove(name string) error
	RemoveAll(name string) error
	// Chmod sets the permissions of a file.
	Chmod(name string, mode fs.FileMode) error

	// SyncDir makes the entries of a directory durable.
	SyncDir(name string) error
	// Lock takes an exclusive advisory lock on a file, which is made if it is
	// missing. It does not wait: a lock that another holder has is ErrLocked.
	// Closing the result releases it.
	Lock(name string) (io.Closer, error)
	// Free returns how many bytes may still be written.
	Free(name string) (int64, error)
}

// File is an open file. Close and Sync of a file that was written can fail
// and must be checked.
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	io.WriterAt
	io.Seeker
	io.Closer

	Stat() (Info, error)
	// Sync makes the file's bytes and length durable (fdatasync). After it
	// failed once, nothing is known about what is on the disk.
	Sync() error
	// Reserve claims space on the disk for bytes up to size without changing
	// the file's length, so that later writes below size don't fail for want
	// of it.
	Reserve(size int64) error
	// Map maps the first size bytes for reading, also those beyond the end of
	// the file: bytes that are written later appear in the mapping. Touching a
	// page that lies wholly beyond the end of the file faults. The mapping
	// outlives the File.
	Map(size int64) (Mapping, error)
}

// Mapping is a read-only view of a file.
type Mapping interface {
	// Bytes is valid until Close, which must not run while they are read.
	Bytes() []byte
	Close() error
}

// Info describes a file.
type Info struct {
	Size    int64 // bytes
	Mode    fs.FileMode
	ModTime time.Time
	Dev     uint64
	Ino     uint64 // with Dev the identity of the file
	Nlink   uint64 // hard links
	UID     uint32 // owner
	GID     uint32
	// ChangeTime is when the bytes, the mode or the links last changed. Unlike
	// ModTime nobody can set it.
	ChangeTime time.Time
}
