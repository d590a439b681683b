package server

import (
	"errors"

	"vcsd/hg"
)

// pushResult names how a push ended, for metrics.
func pushResult(err error) string {
	var raced *hg.PushRaced
	var abort *hg.Abort
	var content *hg.UnsupportedContent
	var key *hg.PushkeyFailed
	switch {
	case err == nil:
		return "published"
	case errors.As(err, &raced):
		return "raced"
	case errors.Is(err, hg.ErrUnavailable):
		return "unavailable"
	case errors.As(err, &abort), errors.As(err, &content), errors.As(err, &key),
		errors.Is(err, hg.ErrTooLarge), errors.Is(err, hg.ErrMalformed), errors.Is(err, hg.ErrReadOnly):
		return "refused"
	}
	return "failed"
}
