package overlay

import (
	"errors"
	"io/fs"

	"vcsd/internal/vfs"
)

// guarded refuses to write through a link, which would change a real file.
type guarded struct{ vfs.FS }

var errNotNamed = errors.New("the view has no copy of this file")

// check tells whether name is something of the View's own, or nothing yet.
func (g guarded) check(op, name string) error {
	in, err := g.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && in.Mode&fs.ModeSymlink != 0 {
		err = &fs.PathError{Op: op, Path: name, Err: errNotNamed}
	}
	return err
}

// OpenWrite implements vfs.FS.
func (g guarded) OpenWrite(name string) (vfs.File, error) {
	if err := g.check("open", name); err != nil {
		return nil, err
	}
	return g.FS.OpenWrite(name)
}

// Chmod implements vfs.FS.
func (g guarded) Chmod(name string, mode fs.FileMode) error {
	if err := g.check("chmod", name); err != nil {
		return err
	}
	return g.FS.Chmod(name, mode)
}
