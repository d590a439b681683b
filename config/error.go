package config

import "fmt"

// An Error is a fault in the configuration. Its text is the one hg prints.
type Error struct {
	// Location is file and line, or empty.
	Location string
	Message  string
	Err      error // the cause, or nil
}

func (e *Error) Error() string {
	if e.Location == "" {
		return "config error: " + e.Message
	}
	return "config error at " + e.Location + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Err }

func errorAt(location, format string, args ...any) *Error {
	return &Error{Location: location, Message: fmt.Sprintf(format, args...)}
}

// A sentence is an error whose text is for the user, without a prefix.
type sentence struct {
	text string
	err  error
}

func (e *sentence) Error() string { return e.text }
func (e *sentence) Unwrap() error { return e.err }
