package frame

import (
	"fmt"
	"io"

	"vcsd/hg"
)

// An Error tells what is wrong with a stream, and where. It unwraps to an
// *hg.Abort with the sentence that stock hg has for it, to hg.ErrMalformed or
// hg.ErrTooLarge, and to io.ErrUnexpectedEOF if the stream ended too early.
type Error struct {
	Stream string // what was read: "changegroup", "bundle2 part 3 (changegroup)"
	Offset int64  // bytes of the stream read when the fault was found
	Abort  *hg.Abort
	Kinds  []error // the sentinels that apply
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s, byte %d: %s", e.Stream, e.Offset, e.Abort.Message)
}

// Unwrap returns the Abort and the sentinels.
func (e *Error) Unwrap() []error { return append([]error{e.Abort}, e.Kinds...) }

// Malformed returns an Error of bytes that don't follow their format.
func Malformed(stream string, offset int64, format string, args ...any) *Error {
	return &Error{stream, offset, hg.Abortf(format, args...), []error{hg.ErrMalformed}}
}

// TooLarge returns an Error of a piece of n units that exceeds a limit.
func TooLarge(stream string, offset int64, what string, n, limit int64) *Error {
	abort := hg.Abortf("%s %d exceeds the server's limit of %d", what, n, limit)
	return &Error{stream, offset, abort, []error{hg.ErrTooLarge}}
}

// truncated returns the Error of a stream that ended inside a piece. Gap is
// put between the words: hg has one text with one blank and one with two.
func truncated(stream string, offset int64, gap string, got, want int64) *Error {
	abort := hg.Abortf("stream ended unexpectedly%s(got %d bytes, expected %d)", gap, got, want)
	return &Error{stream, offset, abort, []error{hg.ErrMalformed, io.ErrUnexpectedEOF}}
}
