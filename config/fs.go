package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// An FS is what this package needs of a file system. Names are those of the
// operating system, relative ones from the working directory. Errors are those
// of package os.
type FS interface {
	// ReadFile returns what is in a file, and the Info of the very file that
	// was read: whom to trust depends on it.
	ReadFile(name string) ([]byte, Info, error)

	Stat(name string) (Info, error)

	// ReadDir returns the names in a directory, sorted.
	ReadDir(name string) ([]string, error)

	// IsLink reports whether name itself is a symbolic link.
	IsLink(name string) bool
}

// Info describes a file or directory, links followed.
type Info struct {
	Dir     bool
	Size    int64
	ModTime time.Time
	Dev     uint64
	Inode   uint64
	UID     int
	GID     int
}

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) ReadFile(name string) (_ []byte, _ Info, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, noInfo, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return nil, noInfo, err
	}
	if st.Size() > maxFileBytes {
		return nil, noInfo, fmt.Errorf("%q has %d bytes, more than %d", name, st.Size(), maxFileBytes)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	return data, infoOf(st), err
}

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return noInfo, err
	}
	return infoOf(st), nil
}

// noInfo is what is known of a file that isn't there. It belongs to nobody.
var noInfo = Info{UID: -1, GID: -1}

// maxFileBytes bounds a configuration file.
const maxFileBytes = 16 << 20

func infoOf(st fs.FileInfo) Info {
	info := Info{Dir: st.IsDir(), Size: st.Size(), ModTime: st.ModTime(), UID: -1, GID: -1}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		info.Dev, info.Inode = uint64(sys.Dev), sys.Ino
		info.UID, info.GID = int(sys.Uid), int(sys.Gid)
	}
	return info
}

func (osFS) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(name)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (osFS) IsLink(name string) bool {
	st, err := os.Lstat(name)
	return err == nil && st.Mode()&fs.ModeSymlink != 0
}
