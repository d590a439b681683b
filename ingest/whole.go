package ingest

import (
	"fmt"

	"vcsd/hg"
	"vcsd/journal"
)

// An IncompleteError means that a store may be in pieces, and that it can't be
// completed before the coordination service answers. It unwraps to the sentence
// for clients, and to the cause.
type IncompleteError struct{ cause error }

func (e *IncompleteError) Error() string {
	return "the store lacks records after a power cut, and can't be read without the tip: " + e.cause.Error()
}

// Unwrap returns what clients are told, and the cause.
func (e *IncompleteError) Unwrap() []error {
	return []error{&hg.Abort{Message: "this repository can't be read at the moment, try again later", Hint: logTells}, e.cause}
}

// checkWhole returns an *IncompleteError with the cause unless the store can be
// read although the tip is not known: if it was written since the machine was
// started, or if the journal has nothing that is not durable in it. What a process
// was killed over is whole to readers at any moment.
func (p *Pipeline) checkWhole(cause error) error {
	marker, err := readMarker(p.fs)
	if err != nil || parseLinked(marker, p.bootID).Seq > 0 {
		return err
	}
	applied, _, err := journal.ReadApplied(p.fs, appliedFile)
	if err != nil {
		return err
	}
	ids, err := p.journal.List()
	if err != nil {
		return err
	}
	if n := len(ids); n > 0 && ids[n-1].Seq > applied.Seq {
		return &IncompleteError{fmt.Errorf("durable up to record %d of %d: %w", applied.Seq, ids[n-1].Seq, cause)}
	}
	return nil
}
