package livefile

import (
	"fmt"
	"sync"
	"time"

	"lukechampine.com/blake3"

	"vcsd/internal/vfs"
)

// A File is a file and what was parsed of it last. It may be used by several
// goroutines at once.
type File[T any] struct {
	fs       vfs.FS
	name     string
	maxBytes int64
	parse    func([]byte) (T, error)

	mu       sync.Mutex // guards all below
	print    vfs.Info   // of what was read last, whether or not it was sound
	settled  bool       // print is older than what changes could hide behind
	digest   [32]byte   // of what was parsed last
	parseErr error      // of that
	value    T          // of what was parsed last and was sound
	err      error      // of the last attempt to read
}

// settleTime is how long after a change another one may leave the file's times
// as they are.
const settleTime = 2 * time.Second

// Open reads a file of at most maxBytes, which must be there and sound. parse
// may be called again by Get; its values are never changed, only replaced.
func Open[T any](fsys vfs.FS, name string, maxBytes int64, parse func([]byte) (T, error)) (*File[T], error) {
	f := &File[T]{fs: fsys, name: name, maxBytes: maxBytes, parse: parse}
	_, err := f.Get()
	return f, err
}

// Get returns what is in the file now. With an error it is what was in it
// before, when it was sound.
func (f *File[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := f.fs.Stat(f.name)
	if err != nil {
		f.settled = false
		return f.value, err
	}
	if f.settled && info == f.print {
		return f.value, f.err
	}
	f.readLocked(info)
	return f.value, f.err
}

func (f *File[T]) readLocked(info vfs.Info) {
	f.settled = false
	b, err := vfs.ReadFile(f.fs, f.name, f.maxBytes)
	if err != nil {
		f.err = err
		return
	}
	if digest := blake3.Sum256(b); digest != f.digest {
		f.digest = digest
		value, err := f.parse(b)
		if err == nil {
			f.value = value
		}
		f.parseErr = wrap(f.name, err)
	}
	f.err = f.parseErr
	f.print, f.settled = info, time.Since(info.ChangeTime) > settleTime
}

func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
