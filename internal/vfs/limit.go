package vfs

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// MaxFileBytes returns how large this process may make a file (ulimit -f), in
// bytes; math.MaxInt64 without a limit. A write beyond it fails with EFBIG, in
// a process that takes the signal SIGXFSZ.
func MaxFileBytes() (int64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
		return 0, fmt.Errorf("limit of the size of files: %w", err)
	}
	return int64(min(lim.Cur, math.MaxInt64)), nil
}
