package journal

import (
	"errors"
	"io/fs"

	"vcsd/internal/vfs"
)

// modes are the permissions of new files and directories: those of the store
// directory, as in Mercurial, so that a group that shares the repository can
// go on writing.
type modes struct {
	known bool
	dir   fs.FileMode
}

func modesOf(fsys vfs.FS) (modes, error) {
	in, err := fsys.Stat("store")
	if errors.Is(err, fs.ErrNotExist) {
		return modes{}, nil
	}
	if err != nil {
		return modes{}, err
	}
	return modes{known: true, dir: in.Mode & (fs.ModePerm | fs.ModeSetgid)}, nil
}

func (m modes) fixFile(fsys vfs.FS, name string, f vfs.File) error {
	if !m.known {
		return nil
	}
	in, err := f.Stat()
	want := m.dir & 0o666
	if err != nil || in.Mode.Perm() == want {
		return err
	}
	return fsys.Chmod(name, want)
}

func (m modes) fixDir(fsys vfs.FS, name string) error {
	if !m.known {
		return nil
	}
	in, err := fsys.Stat(name)
	if err != nil || in.Mode&(fs.ModePerm|fs.ModeSetgid) == m.dir {
		return err
	}
	return fsys.Chmod(name, m.dir)
}
