package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"vcsd/internal/vfs"
)

// Prune removes the records before beforeSeq, published or not, and the
// segments and temporary files that then belong to no record and are older
// than Options.OrphanAge. The caller knows that every store has beforeSeq-1
// applied for good.
//
// Order: records before their segments, so that each record that is there has
// its segments. Nothing is synced: what comes back after a power cut is removed
// the next time.
func (j *Journal) Prune(ctx context.Context, beforeSeq uint64) error {
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return fmt.Errorf("prune journal: %w", err)
	}
	var keep []ID
	var errs []error
	for _, e := range entries {
		id, isRecord := parseID(e.Name())
		switch {
		case !isRecord:
		case id.Seq >= beforeSeq:
			keep = append(keep, id)
		default:
			errs = append(errs, removeIfThere(j.fs, j.path(e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("prune journal: %w", err)
	}
	needed, err := j.needed(ctx, keep)
	if err != nil {
		return fmt.Errorf("prune journal: %w", err)
	}
	for _, e := range entries {
		if err := j.pruneOrphan(e, needed); err != nil {
			return fmt.Errorf("prune journal: %w", err)
		}
	}
	return nil
}

// needed returns the segments that records name.
func (j *Journal) needed(ctx context.Context, ids []ID) (map[string]bool, error) {
	needed := make(map[string]bool)
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		_, segments, err := j.readHeader(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process prunes too
		}
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			needed[s] = true
		}
	}
	return needed, nil
}

// pruneOrphan removes a segment or temporary file that is old and not needed.
// A record that was put after the directory was listed names only segments
// that are young.
func (j *Journal) pruneOrphan(e fs.DirEntry, needed map[string]bool) error {
	name := e.Name()
	isSegment := strings.HasSuffix(name, segmentSuffix) && validSegmentName(name) == nil
	if needed[name] || !isSegment && !isRecordTemp(name) {
		return nil
	}
	in, err := j.fs.Lstat(j.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || j.o.Now().Sub(lastChange(in)) < j.o.OrphanAge {
		return err
	}
	return removeIfThere(j.fs, j.path(name))
}

// lastChange is when the file was last written or linked: a segment may be
// older than its place in the journal.
func lastChange(in vfs.Info) time.Time {
	if in.ChangeTime.After(in.ModTime) {
		return in.ChangeTime
	}
	return in.ModTime
}
