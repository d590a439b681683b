package revlog

import (
	"errors"
	"fmt"

	"vcsd/hg"
)

// A CorruptError means that bytes of a log contradict themselves or their
// hash. It names the place; Err tells what is wrong there.
type CorruptError struct {
	File string // as given to the file system
	Rev  hg.Rev // NullRev if the file as a whole is meant
	Err  error
}

func (e *CorruptError) Error() string {
	if e.Rev == hg.NullRev {
		return fmt.Sprintf("corrupt revlog %q: %v", e.File, e.Err)
	}
	return fmt.Sprintf("corrupt revlog %q, rev %d: %v", e.File, e.Rev, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// Corrupt returns the error for what a decoder found in a log. To the decoder
// it was somebody else's fault; these bytes are ours.
func Corrupt(file string, rev hg.Rev, err error) *CorruptError {
	if errors.Is(err, hg.ErrMalformed) {
		err = errors.New(err.Error())
	}
	return &CorruptError{file, rev, err}
}

// An UnsupportedError means that a log is of a kind that vcsd does not honour.
type UnsupportedError struct {
	File    string
	Rev     hg.Rev // NullRev if the log as a whole is meant
	Feature string // for instance "version 2", "header flags 0x0004", "revision flag ellipsis"
}

func (e *UnsupportedError) Error() string {
	if e.Rev == hg.NullRev {
		return fmt.Sprintf("revlog %q: unsupported %s", e.File, e.Feature)
	}
	return fmt.Sprintf("revlog %q, rev %d: unsupported %s", e.File, e.Rev, e.Feature)
}

// ErrNoRev means that a snapshot has no revision of that number.
var ErrNoRev = errors.New("no such revision")

// ErrClosed means that the log was closed.
var ErrClosed = errors.New("revlog is closed")

// What a CorruptError may unwrap to. They tell kinds of damage apart in tests
// and in the report of vcsd verify.
var (
	errParent    = errors.New("parent out of range")
	errNullNode  = errors.New("node is null")
	errBase      = errors.New("delta base out of range")
	errNoBase    = errors.New("delta chain without a full text")
	errOffset    = errors.New("chunk lies outside the data")
	errChunkLen  = errors.New("chunk length is negative")
	errTextLen   = errors.New("length of the text differs from the index")
	errHash      = errors.New("text does not match its node")
	errInlinePos = errors.New("offset differs from the chunk's place in the inline log")
	errSize      = errors.New("log is not as long as published")
	errShrunk    = errors.New("log is shorter than before")
)
