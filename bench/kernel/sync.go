package kernel

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// SyncTime returns how long it takes in a directory to append 4 KiB to a file
// and fdatasync it, times in a row.
func SyncTime(dir string, times int) (d time.Duration, err error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	b := make([]byte, 4<<10)
	start := time.Now()
	for range times {
		if _, err := f.Write(b); err != nil {
			return 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
