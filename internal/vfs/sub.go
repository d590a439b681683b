package vfs

import (
	"io"
	"io/fs"
	"path"
)

// subFS is an FS seen from a directory of another.
type subFS struct {
	fs  FS
	dir string
}

// Sub returns fsys as seen from dir. Absolute names stay those of fsys.
func Sub(fsys FS, dir string) FS { return &subFS{fs: fsys, dir: dir} }

func (s *subFS) name(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(s.dir, name)
}

func (s *subFS) Open(name string) (File, error)      { return s.fs.Open(s.name(name)) }
func (s *subFS) OpenWrite(name string) (File, error) { return s.fs.OpenWrite(s.name(name)) }
func (s *subFS) Create(name string) (File, error)    { return s.fs.Create(s.name(name)) }
func (s *subFS) Stat(name string) (Info, error)      { return s.fs.Stat(s.name(name)) }
func (s *subFS) Lstat(name string) (Info, error)     { return s.fs.Lstat(s.name(name)) }
func (s *subFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return s.fs.ReadDir(s.name(name))
}
func (s *subFS) MkdirAll(name string) error { return s.fs.MkdirAll(s.name(name)) }
func (s *subFS) Rename(oldName, newName string) error {
	return s.fs.Rename(s.name(oldName), s.name(newName))
}
func (s *subFS) Link(oldName, newName string) error {
	return s.fs.Link(s.name(oldName), s.name(newName))
}
func (s *subFS) Symlink(target, name string) error    { return s.fs.Symlink(target, s.name(name)) }
func (s *subFS) Readlink(name string) (string, error) { return s.fs.Readlink(s.name(name)) }
func (s *subFS) Remove(name string) error             { return s.fs.Remove(s.name(name)) }
func (s *subFS) RemoveAll(name string) error          { return s.fs.RemoveAll(s.name(name)) }
func (s *subFS) Chmod(name string, mode fs.FileMode) error {
	return s.fs.Chmod(s.name(name), mode)
}
func (s *subFS) SyncDir(name string) error           { return s.fs.SyncDir(s.name(name)) }
func (s *subFS) Lock(name string) (io.Closer, error) { return s.fs.Lock(s.name(name)) }
func (s *subFS) Free(name string) (int64, error)     { return s.fs.Free(s.name(name)) }
