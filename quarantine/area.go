package quarantine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// Options sets an area's limits.
type Options struct {
	// MaxBytes is the longest payload to receive, in bytes. 0 means no limit.
	MaxBytes int64
	// QuotaBytes is how many bytes the payloads and segments of this process
	// may hold together. 0 means no limit.
	QuotaBytes int64
}

// A Digest is the BLAKE3 hash of a payload.
type Digest [32]byte

// String returns d as 64 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

const (
	processPrefix = "p-"
	gonePrefix    = "gone-"
	lockName      = "lock"
	payloadName   = "payload"
	openTries     = 10
)

// An Area is a quarantine directory, as this process uses it.
type Area struct {
	fs   vfs.FS    // constant
	top  string    // constant: the directory that processes share
	dir  string    // constant: the subdirectory of this process
	lock io.Closer // constant: held until Close
	o    Options   // constant

	lastName atomic.Uint64 // numbers names that must differ
	held     atomic.Int64  // bytes of payloads and segments
	running  sync.WaitGroup

	mu      sync.Mutex // guards all below
	entries map[Digest]*entry
	flights map[Digest]*flight
	closed  bool
}

// Open makes a subdirectory for this process in dir of fsys, and locks it.
func Open(fsys vfs.FS, dir string, o Options) (*Area, error) {
	var errs []error
	for range openTries {
		own := path.Join(dir, processPrefix+randomHex())
		lock, err := claim(fsys, own)
		if err == nil {
			return &Area{
				fs: fsys, top: dir, dir: own, lock: lock, o: o,
				entries: make(map[Digest]*entry),
				flights: make(map[Digest]*flight),
			}, nil
		}
		errs = append(errs, err)
		// Another process may sweep the subdirectory away before it is locked.
		if !errors.Is(err, vfs.ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, fmt.Errorf("open quarantine %q: %w", dir, errors.Join(errs...))
}

func claim(fsys vfs.FS, own string) (io.Closer, error) {
	if err := fsys.MkdirAll(own); err != nil {
		return nil, err
	}
	return fsys.Lock(path.Join(own, lockName))
}

func randomHex() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Close waits for what Do runs, and removes the subdirectory of this process.
// No Dir may be used afterwards.
func (a *Area) Close() error {
	a.mu.Lock()
	closed := a.closed
	a.closed = true
	a.mu.Unlock()
	if closed {
		return nil
	}
	a.running.Wait()
	return errors.Join(removeProcess(a.fs, a.dir), a.lock.Close())
}

// removeProcess removes a process's subdirectory, whose lock the caller holds.
// It is moved aside first: a sweep that looked for the lock while the files go
// one by one would make a new one among them.
func removeProcess(fsys vfs.FS, dir string) error {
	top, name := path.Split(dir)
	gone := top + gonePrefix + strings.TrimPrefix(name, processPrefix)
	if err := fsys.Rename(dir, gone); err != nil {
		return err
	}
	return fsys.RemoveAll(gone)
}

// Scratch returns the name of a directory of this process, for what needs to be
// swept like payloads. It is the caller's to make, and goes with the Area.
func (a *Area) Scratch(name string) string { return path.Join(a.dir, name) }

// Held returns how many bytes the payloads and segments of this process hold.
func (a *Area) Held() int64 { return a.held.Load() }

// hold claims n more bytes of the quota.
func (a *Area) hold(n int64) error {
	held := a.held.Add(n)
	if a.o.QuotaBytes > 0 && held > a.o.QuotaBytes {
		a.held.Add(-n)
		return fmt.Errorf("quarantine holds %d bytes, quota %d: %w", held-n, a.o.QuotaBytes, hg.ErrUnavailable)
	}
	return nil
}

// newName returns a name that no other in the process's subdirectory has.
func (a *Area) newName(prefix string) string {
	return prefix + strconv.FormatUint(a.lastName.Add(1), 10)
}

// Sweep removes the subdirectories of processes that are gone. What this
// process and others that live hold is left alone.
func (a *Area) Sweep(ctx context.Context) error {
	entries, err := a.fs.ReadDir(a.top)
	if err != nil {
		return fmt.Errorf("sweep quarantine: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		dir := path.Join(a.top, e.Name())
		switch {
		case dir == a.dir:
		case strings.HasPrefix(e.Name(), processPrefix):
			errs = append(errs, a.sweepProcess(dir))
		case strings.HasPrefix(e.Name(), gonePrefix):
			errs = append(errs, a.fs.RemoveAll(dir))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep quarantine: %w", err)
	}
	return nil
}

// sweepProcess removes another process's subdirectory if its lock is free. The
// lock is kept meanwhile: two sweeps don't meet, and a process that is about
// to lock the subdirectory finds it taken or gone.
func (a *Area) sweepProcess(dir string) error {
	lock, err := a.fs.Lock(path.Join(dir, lockName))
	if errors.Is(err, vfs.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(removeProcess(a.fs, dir), lock.Close())
}

// InUse reports whether a process that lives has an Area open at dir of fsys.
func InUse(fsys vfs.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), processPrefix) {
			continue
		}
		lock, err := fsys.Lock(path.Join(dir, e.Name(), lockName))
		switch {
		case errors.Is(err, vfs.ErrLocked):
			return true, nil
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return false, err
		}
		if err := lock.Close(); err != nil {
			return false, err
		}
	}
	return false, nil
}
