package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"vcsd/internal/vfs"
)

// LockName is the lock that every writer of a store takes, hg and vcsd alike,
// relative to .hg. It is a symbolic link that names its holder: "HOST:PID", on
// Linux "HOST/PID-NAMESPACE:PID".
const LockName = "store/lock"

// lockPoll is how often a lock that somebody else has is tried again.
const lockPoll = 20 * time.Millisecond

// held are the locks of this process. A link that names this process and is
// not here was left by an earlier one that had the same pid.
var held = struct {
	sync.Mutex
	names map[heldKey]struct{}
}{names: make(map[heldKey]struct{})}

type heldKey struct {
	dev, ino uint64 // of the link's directory
	name     string
}

// A LockHeldError means that somebody else kept a lock for longer than was
// waited for.
type LockHeldError struct {
	Holder string // as the lock names it
}

func (e *LockHeldError) Error() string {
	return fmt.Sprintf("repository is locked by %s: timed out waiting", e.Holder)
}

// Lock takes hg's lock called name, waiting for a living holder until ctx
// ends; then the error is a *LockHeldError. A lock whose holder died on this
// machine is broken, as hg does.
func Lock(ctx context.Context, fsys vfs.FS, name string) (unlock func() error, err error) {
	dir, err := fsys.Stat(vfs.Dir(name))
	if err != nil {
		return nil, err
	}
	key := heldKey{dir.Dev, dir.Ino, name}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		holder, err := tryLock(fsys, name, key)
		if err != nil {
			return nil, err
		}
		if holder == "" {
			return func() error { return unlockName(fsys, name, key) }, nil
		}
		select {
		case <-ctx.Done():
			return nil, &LockHeldError{holder}
		case <-tick.C:
		}
	}
}

// tryLock takes the lock once. It returns the living holder, or "" if the
// lock was taken.
func tryLock(fsys vfs.FS, name string, key heldKey) (holder string, err error) {
	held.Lock()
	defer held.Unlock()
	if _, ours := held.names[key]; ours {
		return "this server", nil
	}
	me := lockOwner()
	for range 3 {
		err := fsys.Symlink(me, name)
		if err == nil {
			held.names[key] = struct{}{}
			return "", nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		holder, err := fsys.Readlink(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if holder != me && holderLives(holder) {
			return holder, nil
		}
		if err := breakLock(fsys, name, holder); err != nil {
			return "", err
		}
	}
	return "somebody else", nil
}

// breakLock removes a dead holder's lock. hg's own guard against two
// breakers is a second lock beside it, which a breaker may die with too.
func breakLock(fsys vfs.FS, name, holder string) error {
	guard := name + ".break"
	if err := fsys.Symlink(lockOwner(), guard); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		breaker, err := fsys.Readlink(guard)
		if err != nil || breaker != lockOwner() && holderLives(breaker) {
			return nil
		}
		return removeIfThere(fsys, guard)
	}
	defer fsys.Remove(guard) // a guard that stays is broken by the next one
	if now, err := fsys.Readlink(name); err != nil || now != holder {
		return nil
	}
	return removeIfThere(fsys, name)
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unlockName removes our lock. One that somebody took for a dead man's and
// broke is not ours any more.
func unlockName(fsys vfs.FS, name string, key heldKey) error {
	held.Lock()
	defer held.Unlock()
	delete(held.names, key)
	switch holder, err := fsys.Readlink(name); {
	case err != nil:
		return fmt.Errorf("lock %q is gone: %w", name, err)
	case holder != lockOwner():
		return fmt.Errorf("lock %q was taken over by %s", name, holder)
	}
	return fsys.Remove(name)
}

// lockOwner names this process as hg does in its locks.
func lockOwner() string { return lockHost() + ":" + strconv.Itoa(os.Getpid()) }

// holderLives tells whether the process that a lock names may be alive. That
// of another machine or pid namespace can't be asked.
func holderLives(holder string) bool {
	host, pid, ok := strings.Cut(holder, ":")
	if !ok || host != lockHost() {
		return true
	}
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return true
	}
	return !errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// lockHost names this machine as hg does in its locks.
var lockHost = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if info, err := os.Stat("/proc/self/ns/pid"); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			host += fmt.Sprintf("/%x", st.Ino)
		}
	}
	return host
})
