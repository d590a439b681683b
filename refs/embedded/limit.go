package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

const (
	// minFileBytes is the least limit of the size of files with which etcd can
	// be run.
	minFileBytes = 256 << 10

	// Up to stepBytes the database is as long as its map, whose size is a power
	// of two. From there on it grows by steps of as much.
	stepBytes = 16 << 20
)

// fitFiles makes etcd get along with files of at most limit bytes (ulimit -f):
// a write beyond it would end it. Its log is cut into smaller pieces, and its
// database refuses writes when it is nearly full.
func fitFiles(cfg *embed.Config, limit int64) error {
	if limit < minFileBytes {
		return fmt.Errorf("files of this process are limited to %d bytes (ulimit -f), the state needs %d", limit, minFileBytes)
	}
	// What is written at once comes on top. The variable is the process's.
	if n := limit / 4; n < wal.SegmentSizeBytes {
		wal.SegmentSizeBytes = n
	}
	cfg.MaxRequestBytes = uint(min(int64(cfg.MaxRequestBytes), limit/8))
	cfg.QuotaBackendBytes = min(cfg.QuotaBackendBytes, quotaFor(limit))
	if limit < math.MaxInt64 {
		// It knows its size only when it has committed what it was given.
		cfg.BackendBatchLimit = 1
	}
	return nil
}

// quotaFor returns at which size the database is to refuse writes so that its
// file stays below limit.
func quotaFor(limit int64) int64 {
	if limit == math.MaxInt64 {
		return limit
	}
	if limit > 4*stepBytes {
		return (limit - 2*stepBytes) / 4 * 3
	}
	size := int64(stepBytes)
	for size > limit {
		size /= 2
	}
	// etcd asks for a map a tenth larger than this, which makes it size.
	return size / 4 * 3
}

// checkFiles refuses data that a process with larger files has left.
func (m *Member) checkFiles(limit int64) error {
	for _, dir := range []string{"wal", "snap"} {
		dir = path.Join(dataName, "member", dir)
		entries, err := m.fs.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := m.checkFile(path.Join(dir, e.Name()), limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Member) checkFile(name string, limit int64) error {
	info, err := m.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Size > limit && path.Ext(name) != ".tmp" {
		return fmt.Errorf("%s has %d bytes, but files of this process are limited to %d (ulimit -f)", name, info.Size, limit)
	}
	return nil
}
