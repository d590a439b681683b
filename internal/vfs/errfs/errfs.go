package errfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"vcsd/internal/vfs"
)

// ErrPowerCut is what every operation returns from the power cut on.
var ErrPowerCut = errors.New("power cut")

// Kind is the kind of an operation.
type Kind int

// The kinds. Those from Create to Reserve may change something.
const (
	Open Kind = iota
	Stat
	Read
	ReadDir
	Map
	Free
	Lock
	Create
	Write
	Sync
	SyncDir
	Rename
	Link
	Mkdir
	Remove
	Chmod
	Close
	Reserve
)

var kindNames = []string{
	"open", "stat", "read", "readdir", "map", "free", "lock", "create", "write", "sync", "syncdir",
	"rename", "link", "mkdir", "remove", "chmod", "close", "reserve",
}

func (k Kind) String() string { return kindNames[k] }

// Changes are the kinds that may change something.
var Changes = []Kind{Create, Write, Sync, SyncDir, Rename, Link, Mkdir, Remove, Chmod, Close, Reserve}

// FS is a vfs.FS with a fault in it.
type FS struct {
	fs    vfs.FS
	n     int
	err   error
	cut   bool
	lossy bool   // a sync at which the power goes has failed before
	kinds []Kind // constant; nil means all

	mu    sync.Mutex
	count int    // operations so far; guarded by mu
	fired string // the operation that failed; guarded by mu
}

var _ vfs.FS = (*FS)(nil)

// FailNth returns fsys, of which operation n of the given kinds, counted from 0,
// fails with err. No kinds means all. A write that fails writes half of its
// bytes before; a sync that fails loses what it was to save.
func FailNth(fsys vfs.FS, n int, err error, kinds ...Kind) *FS {
	return &FS{fs: fsys, n: n, err: err, kinds: kinds}
}

// CutNth returns fsys, whose power goes at operation n of the given kinds: that
// one and all that follow, of every kind, fail with ErrPowerCut. The write at
// which it goes writes half of its bytes.
func CutNth(fsys vfs.FS, n int, kinds ...Kind) *FS {
	return &FS{fs: fsys, n: n, err: ErrPowerCut, cut: true, kinds: kinds}
}

// KillInSync returns fsys, of which sync n, counted from 0, fails with its bytes
// lost, and nobody hears of it: that one and all operations that follow, of every
// kind, fail with ErrPowerCut.
func KillInSync(fsys vfs.FS, n int) *FS {
	return &FS{fs: fsys, n: n, err: ErrPowerCut, cut: true, lossy: true, kinds: []Kind{Sync}}
}

// Fired reports whether the fault happened.
func (f *FS) Fired() bool { return f.Where() != "" }

// Where returns the kind and name of the operation that failed, for messages.
func (f *FS) Where() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// fault counts an operation and tells whether it is the one.
func (f *FS) fault(k Kind, name string) (first bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fired != "" {
		if f.cut {
			return false, f.err
		}
		return false, nil
	}
	if len(f.kinds) > 0 && !slices.Contains(f.kinds, k) {
		return false, nil
	}
	f.count++
	if f.count <= f.n {
		return false, nil
	}
	f.fired = fmt.Sprintf("operation %d, %v %q", f.n, k, name)
	return true, &fs.PathError{Op: k.String(), Path: name, Err: f.err}
}

func (f *FS) check(k Kind, name string) error {
	_, err := f.fault(k, name)
	return err
}

func (f *FS) open(k Kind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := f.check(k, name); err != nil {
		return nil, err
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, fs: f, name: name}, nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(Open, name, f.fs.Open) }

// OpenWrite implements vfs.FS.
func (f *FS) OpenWrite(name string) (vfs.File, error) { return f.open(Create, name, f.fs.OpenWrite) }

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) { return f.open(Create, name, f.fs.Create) }

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.Info, error) {
	if err := f.check(Stat, name); err != nil {
		return vfs.Info{}, err
	}
	return f.fs.Stat(name)
}

// Lstat implements vfs.FS.
func (f *FS) Lstat(name string) (vfs.Info, error) {
	if err := f.check(Stat, name); err != nil {
		return vfs.Info{}, err
	}
	return f.fs.Lstat(name)
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.check(ReadDir, name); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(name)
}

// do runs an operation that returns nothing but an error.
func (f *FS) do(k Kind, name string, op func() error) error {
	if err := f.check(k, name); err != nil {
		return err
	}
	return op()
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(name string) error {
	return f.do(Mkdir, name, func() error { return f.fs.MkdirAll(name) })
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldName, newName string) error {
	return f.do(Rename, newName, func() error { return f.fs.Rename(oldName, newName) })
}

// Link implements vfs.FS.
func (f *FS) Link(oldName, newName string) error {
	return f.do(Link, newName, func() error { return f.fs.Link(oldName, newName) })
}

// Symlink implements vfs.FS.
func (f *FS) Symlink(target, name string) error {
	return f.do(Link, name, func() error { return f.fs.Symlink(target, name) })
}

// Readlink implements vfs.FS.
func (f *FS) Readlink(name string) (string, error) {
	if err := f.check(Stat, name); err != nil {
		return "", err
	}
	return f.fs.Readlink(name)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	return f.do(Remove, name, func() error { return f.fs.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	return f.do(Remove, name, func() error { return f.fs.RemoveAll(name) })
}

// Chmod implements vfs.FS.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	return f.do(Chmod, name, func() error { return f.fs.Chmod(name, mode) })
}

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(name string) error {
	return f.do(SyncDir, name, func() error { return f.fs.SyncDir(name) })
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	if err := f.check(Lock, name); err != nil {
		return nil, err
	}
	return f.fs.Lock(name)
}

// Free implements vfs.FS.
func (f *FS) Free(name string) (int64, error) {
	if err := f.check(Free, name); err != nil {
		return 0, err
	}
	return f.fs.Free(name)
}
