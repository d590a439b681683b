package hg

import (
	"errors"
	"fmt"
	"strings"
)

// An Abort refuses a request with a sentence for the user. It is sent as
// error:abort in a bundle2 reply, and as hg's plain error text elsewhere.
type Abort struct {
	Message string // without "abort: " and without a newline at the end
	Hint    string // how to mend it; may be empty
}

func (e *Abort) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Abortf returns an Abort without a hint.
func Abortf(format string, args ...any) *Abort {
	return &Abort{Message: fmt.Sprintf(format, args...)}
}

// PushRaced means that the repository changed between the client's discovery
// and its push. It is sent as error:pushraced.
type PushRaced struct{ Message string }

func (e *PushRaced) Error() string { return e.Message }

// ErrPushRaced is the race that a check of all heads finds; its text is one
// that scripts match.
var ErrPushRaced = &PushRaced{Message: "repository changed while pushing - please try again"}

// UnsupportedContent names a bundle2 part, parameter or stream that the
// server can't honour and may not ignore. It is sent as
// error:unsupportedcontent.
type UnsupportedContent struct {
	PartType string   // empty if the stream itself is meant
	Params   []string // names of the parameters not understood
}

func (e *UnsupportedContent) Error() string {
	what := e.PartType
	if len(e.Params) > 0 {
		what = strings.TrimPrefix(what+" - "+strings.Join(e.Params, ", "), " - ")
	}
	return "missing support for " + what
}

// PushkeyFailed means that a pushkey part was refused. It is sent as
// error:pushkey.
type PushkeyFailed struct {
	Namespace, Key, Old, New string
	Ret                      string
	PartID                   string // id of the pushkey part, in decimal
	Reason                   string
}

func (e *PushkeyFailed) Error() string {
	if e.Reason != "" {
		return e.Reason
	}
	return fmt.Sprintf("failed to update %s %q", e.Namespace, e.Key)
}

// UnknownRevision means that a name or node matches nothing the caller may
// see, or more than one thing.
type UnknownRevision struct {
	Name      string
	Ambiguous bool
	// Filtered is set for a node that exists and is hidden from the caller.
	Filtered bool
}

func (e *UnknownRevision) Error() string {
	if e.Ambiguous {
		return fmt.Sprintf("00changelog@%s: ambiguous identifier", e.Name)
	}
	if e.Filtered {
		return fmt.Sprintf("filtered revision '%s' (not in 'served' subset)", e.Name)
	}
	return fmt.Sprintf("unknown revision '%s'", e.Name)
}

var (
	// ErrTooLarge means that something a client sent exceeds a limit. It is
	// wrapped with what and how much, and answered as an abort.
	ErrTooLarge = errors.New("larger than the server's limit")

	// ErrMalformed means that bytes of a client don't follow their format. It
	// is wrapped with the place, and answered as an abort.
	ErrMalformed = errors.New("malformed data")

	// ErrReadOnly means that the repository can't be written by this process.
	ErrReadOnly = errors.New("repository is served read-only")

	// ErrUnavailable means that a push can't be decided at the moment: the
	// coordination service has no quorum, or the server is going down.
	ErrUnavailable = errors.New("pushes are not possible at the moment, try again later")
)
