package overlay

import (
	"fmt"
	"os"

	"vcsd/internal/vfs"
)

// The locks that a View has, relative to .hg. They are held as those of a
// repository are while hg runs hooks in a transaction: what would change the
// repository waits, instead of writing through a link to a real file.
const (
	storeLock   = "store/lock"
	workingLock = "wlock"
)

// lockHolder is what a lock of this process says, in hg's form: host, on Linux
// the namespace of process ids, and process.
func lockHolder(fsys vfs.FS) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	if in, err := fsys.Stat("/proc/self/ns/pid"); err == nil {
		host += fmt.Sprintf("/%x", in.Ino)
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
