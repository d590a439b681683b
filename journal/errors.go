package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrDiffers is the cause of a ConflictError where the file holds other
	// bytes than the record's.
	ErrDiffers = errors.New("the file holds other bytes")
	// ErrGap is the cause of a ConflictError where the file ends before the
	// place at which the record's bytes begin.
	ErrGap = errors.New("the file is too short")
)

// A ConflictError means that a record doesn't fit the store: somebody else
// wrote to the file, or the record was applied out of its turn. Nothing has
// been written.
type ConflictError struct {
	Path   string // relative to .hg
	Offset int64  // of the first byte that differs, or the end of the file
	Err    error  // ErrDiffers or ErrGap
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("conflict at byte %d of %q: %v", e.Offset, e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *ConflictError) Unwrap() error { return e.Err }

// A CorruptError means that a file of the journal, or one that a record
// changes, doesn't hold what it must.
type CorruptError struct {
	File string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%q is corrupt: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// A SyncError means that bytes could not be made durable. It is final: what is
// on the disk is not known, so nothing more may be published from here.
type SyncError struct {
	File string
	Err  error
}

func (e *SyncError) Error() string { return fmt.Sprintf("sync %q: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *SyncError) Unwrap() error { return e.Err }

// ErrRecordTooLarge means that a record exceeds Options.MaxRecordBytes.
var ErrRecordTooLarge = errors.New("record is larger than the limit")
