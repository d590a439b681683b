package store

import (
	"errors"
	"fmt"
)

// A CorruptError means that a file of the repository that is no revlog can't
// be what hg wrote.
type CorruptError struct {
	File string // relative to .hg
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("corrupt file %q: %v", e.File, e.Err) }

// Unwrap returns what is wrong.
func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt places what a decoder found in a file; nil if it found nothing. To
// the decoder it was somebody else's fault; these bytes are ours.
func corrupt(file string, err error) error {
	if err == nil {
		return nil
	}
	return &CorruptError{file, errors.New(err.Error())}
}
