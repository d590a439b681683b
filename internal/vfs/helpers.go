package vfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

var (
	// ErrLocked means that another holder has the lock.
	ErrLocked = errors.New("locked by another holder")

	// ErrTooLong means that a file is longer than its reader allows.
	ErrTooLong = errors.New("file is longer than allowed")
)

// ReadFile reads a whole file of at most max bytes. A longer one is
// ErrTooLong.
func ReadFile(fsys FS, name string, max int64) (b []byte, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size > max {
		return nil, fmt.Errorf("read %q of %d bytes, limit %d: %w", name, info.Size, max, ErrTooLong)
	}
	b = make([]byte, info.Size)
	// A file that grows meanwhile is read up to the length it had.
	n, err := io.ReadFull(f, b)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// WriteAtomic replaces a file in one step: others see the old content or the
// new. With sync the new content is durable on return, and after a power cut
// at any time one of the two is there whole.
//
// Order: write a temporary file beside it, sync that, rename it, sync the
// directory. The file keeps the mode it had.
func WriteAtomic(fsys FS, name string, data []byte, sync bool) error {
	tmp := TempName(name)
	if err := writeNew(fsys, tmp, data, sync); err != nil {
		return errors.Join(err, removeIfThere(fsys, tmp))
	}
	if err := keepMode(fsys, name, tmp); err != nil {
		return errors.Join(err, removeIfThere(fsys, tmp))
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return errors.Join(err, removeIfThere(fsys, tmp))
	}
	if !sync {
		return nil
	}
	return fsys.SyncDir(Dir(name))
}

const (
	tempSuffix     = ".tmp"
	tempDigitBytes = 8
)

// TempName returns a new name beside name for a file that will replace it. It
// ends in ".tmp", so that a leftover can be told.
func TempName(name string) string {
	var b [tempDigitBytes]byte
	rand.Read(b[:])
	return path.Join(path.Dir(name), "."+path.Base(name)+"."+hex.EncodeToString(b[:])+tempSuffix)
}

// IsTempName reports whether TempName may have made the last element of name.
func IsTempName(name string) bool {
	base, ok := strings.CutSuffix(path.Base(name), tempSuffix)
	if !ok || !strings.HasPrefix(base, ".") {
		return false
	}
	i := strings.LastIndexByte(base, '.')
	digits := base[i+1:]
	return i > 0 && len(digits) == 2*tempDigitBytes && strings.Trim(digits, "0123456789abcdef") == ""
}

func writeNew(fsys FS, name string, data []byte, sync bool) (err error) {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return f.Sync()
}

// keepMode gives tmp the permissions of name, if there is such a file.
func keepMode(fsys FS, name, tmp string) error {
	was, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := fsys.Stat(tmp)
	if err != nil || is.Mode.Perm() == was.Mode.Perm() {
		return err
	}
	return fsys.Chmod(tmp, was.Mode.Perm())
}

// MkdirAllSync is MkdirAll whose new directories are durable on return.
//
// Order: each directory is made, then its parent synced, from the top down.
func MkdirAllSync(fsys FS, name string) error {
	_, err := MakeDirs(fsys, name, func(dir string) error { return fsys.SyncDir(Dir(dir)) })
	return err
}

// MakeDirs makes name and the directories above it where they are missing, from
// the top down, and calls made, unless it is nil, after each. It returns the
// directories that it made.
func MakeDirs(fsys FS, name string, made func(dir string) error) ([]string, error) {
	if name == "" || name == "/" {
		return nil, nil
	}
	there, err := Exists(fsys, name)
	if err != nil || there {
		return nil, err
	}
	dirs, err := MakeDirs(fsys, Dir(name), made)
	if err != nil {
		return dirs, err
	}
	if err := fsys.MkdirAll(name); err != nil {
		return dirs, err
	}
	if made != nil {
		err = made(name)
	}
	return append(dirs, name), err
}

func removeIfThere(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Exists reports whether name leads to something.
func Exists(fsys FS, name string) (bool, error) {
	_, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Dir returns the directory that holds name; it is empty for the root.
func Dir(name string) string {
	if d := path.Dir(name); d != "." {
		return d
	}
	return ""
}
