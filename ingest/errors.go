package ingest

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/refs"
)

// An unavailableError is hg.ErrUnavailable to the client, who is not told the
// cause, and the cause to the log.
type unavailableError struct{ cause error }

// unavailable returns err as a reason to try again later.
func unavailable(err error) error { return &unavailableError{err} }

func (e *unavailableError) Error() string { return hg.ErrUnavailable.Error() }

// Unwrap returns what the client is told, and the cause.
func (e *unavailableError) Unwrap() []error { return []error{hg.ErrUnavailable, e.cause} }

// A hiddenError is told to the client in words of its own, and wraps the cause
// for the log.
type hiddenError struct{ told, cause error }

func (e *hiddenError) Error() string { return e.told.Error() }

// Unwrap returns what the client is told, and the cause.
func (e *hiddenError) Unwrap() []error { return []error{e.told, e.cause} }

// hide returns err behind a sentence for the client.
func hide(err error, message, hint string) error {
	return &hiddenError{&hg.Abort{Message: message, Hint: hint}, err}
}

// Cause returns what the log is to hear of an error whose cause the client
// is not told; nil for others.
func Cause(err error) error {
	var u *unavailableError
	var h *hiddenError
	switch {
	case errors.As(err, &u):
		return u.cause
	case errors.As(err, &h):
		return h.cause
	}
	return nil
}

// ErrNoAnswer means that the coordination service gave no answer. It comes
// wrapped with hg.ErrUnavailable, and passes.
var ErrNoAnswer = errors.New("no answer from the coordination service")

// noAnswer returns an error of refs as a reason to try again later, by
// ErrNoAnswer if that is all that is wrong.
func noAnswer(err error) error {
	if errors.Is(err, hg.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return unavailable(err)
}

// otherService is the answer while the coordination service is not the one that
// the repository's pushes were published with. The log tells the way out.
func otherService(format string, args ...any) error {
	return hide(fmt.Errorf(format+": the coordination service was lost, or is another one than before; "+
		"serve the repository with the one before (without --etcd, if that was the embedded one); "+
		"if that is lost for good, or to go on with this one, end all servers that use the one before and run \""+RestoreCommand+"\"", args...),
		noPushes, logTells)
}

// What clients are told of a repository that can be read alone, until somebody
// looks after it.
const (
	noPushes = "this repository takes no pushes at the moment"
	logTells = "the server's log tells why"
)

var (
	// errTryAgain means that the batch lost to somebody else and stands as it
	// was.
	errTryAgain = errors.New("published by somebody else meanwhile")

	// errLeaseLost means that a push has to take its leases anew.
	errLeaseLost = fmt.Errorf("decide without a lease: %w", refs.ErrLeaseLost)

	// errUnseen means that a push would change what its hooks know nothing of, as
	// somebody else was faster. They have to see it again.
	errUnseen = errors.New("the repository changed while hooks ran")

	// errWaited is the cause when a push did not get its turn in time.
	errWaited = errors.New("waited too long for other pushes")
)

// errNotShown is the cause when a push was published and this server's store
// lacks it.
var errNotShown = errors.New("published and not linked")

// notStored is the answer to a push that was published and could not be linked
// into this server's store.
func notStored(err error) error {
	return hide(fmt.Errorf("%w: %w", errNotShown, err), "the push was published, but this server can't show it yet",
		"pull later to see it; to push it again does no harm")
}

// outcomeUnknown is the answer to a push of which it could not be learnt
// whether it was published.
func outcomeUnknown(err error) error {
	return hide(err, "it is not known yet whether the push was published",
		"pull later to see; to push it again does no harm")
}

// classify gives errors of the surroundings the form in which a client may
// hear of them. Others stay as they are: wire makes a general sentence of what
// it doesn't know.
func classify(err error) error {
	switch {
	case err == nil || Cause(err) != nil:
		return err
	case errors.Is(err, syscall.EFBIG):
		return hide(err, "a file would get larger than the server may write", "")
	case isNoSpace(err):
		return hide(err, "no space left on the server", "")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, refs.ErrClosed):
		return unavailable(err)
	}
	return err
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// guarded runs f, which walks mapped indexes: a local hg may cut them at any
// time, and then the fault is an error of this push.
func guarded(f func() error) error {
	var err error
	if fault := vfs.Guard(func() { err = f() }); fault != nil {
		return fault
	}
	return err
}
