package wire

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// internalMessage is all that a client is told of an error of our own.
const internalMessage = "internal error on the server, see its log"

// Explain returns what to tell the user of an error: a sentence and perhaps a
// hint. known is false for an error that is the server's own affair; the
// message is a general one then, and the error belongs in the log.
func Explain(err error) (message, hint string, known bool) {
	var abort *hg.Abort
	if errors.As(err, &abort) {
		return abort.Message, abort.Hint, true
	}
	if message, ok := typedMessage(err); ok {
		return message, "", true
	}
	for _, sentinel := range []error{hg.ErrTooLarge, hg.ErrMalformed, hg.ErrReadOnly, hg.ErrUnavailable} {
		if errors.Is(err, sentinel) {
			return err.Error(), "", true
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "the request was given up: " + err.Error(), "", true
	}
	return internalMessage, "", false
}

// typedMessage leaves out what callers wrapped around the error, because
// scripts match its text.
func typedMessage(err error) (string, bool) {
	var (
		raced       *hg.PushRaced
		unsupported *hg.UnsupportedContent
		pushkey     *hg.PushkeyFailed
		unknown     *hg.UnknownRevision
	)
	switch {
	case errors.As(err, &raced):
		return raced.Error(), true
	case errors.As(err, &unsupported):
		return unsupported.Error(), true
	case errors.As(err, &pushkey):
		return pushkey.Error(), true
	case errors.As(err, &unknown):
		return unknown.Error(), true
	}
	return "", false
}

// ErrorPart returns the one form that err has in a bundle2 reply: the type of a
// mandatory part without payload, and its parameters. caps are those of the client's
// replycaps part, or nil if they are not known.
func ErrorPart(err error, caps bundle2.Caps) (typ string, params []bundle2.Param) {
	// The order matters: a type of its own goes before the sentence it could
	// also be told with.
	var (
		pushkey     *hg.PushkeyFailed
		unsupported *hg.UnsupportedContent
		raced       *hg.PushRaced
	)
	switch {
	case errors.As(err, &pushkey) && (caps == nil || caps.Has("error", "pushkey")):
		return "error:pushkey", pushkeyParams(pushkey)
	case errors.As(err, &unsupported):
		return "error:unsupportedcontent", unsupportedParams(unsupported)
	case errors.As(err, &raced):
		return "error:pushraced", bundle2.Mandatory("message", bundle2.ClipValue(raced.Message))
	}
	message, hint, _ := Explain(err)
	return "error:abort", bundle2.AbortParams(&hg.Abort{Message: message, Hint: hint})
}

func pushkeyParams(e *hg.PushkeyFailed) []bundle2.Param {
	clip := bundle2.ClipValue
	return append(bundle2.Mandatory("in-reply-to", clip(e.PartID)),
		bundle2.Advisory("namespace", clip(e.Namespace), "key", clip(e.Key),
			"new", clip(e.New), "old", clip(e.Old), "ret", clip(e.Ret))...)
}

func unsupportedParams(e *hg.UnsupportedContent) []bundle2.Param {
	var params []bundle2.Param
	if e.PartType != "" {
		params = bundle2.Mandatory("parttype", bundle2.ClipValue(e.PartType))
	}
	if len(e.Params) > 0 {
		names := bundle2.ClipValue(strings.Join(e.Params, "\x00"))
		params = append(params, bundle2.Mandatory("params", names)...)
	}
	return params
}

// EncodeErrorReply returns a whole bundle2 stream that refuses a request: what
// hooks printed, then the error. A message that its part had to clip is also
// sent in full, as output.
func EncodeErrorReply(err error, caps bundle2.Caps, output string) ([]byte, error) {
	message, hint, _ := Explain(err)
	for _, s := range []string{message, hint} {
		if bundle2.ClipValue(s) != s {
			output += s + "\n"
		}
	}
	var b bytes.Buffer
	w, werr := bundle2.NewWriter(&b, bundle2.WriterOptions{})
	if werr != nil {
		return nil, werr
	}
	if output != "" {
		if _, werr := w.WritePart("output", false, []byte(output)); werr != nil {
			return nil, werr
		}
	}
	typ, params := ErrorPart(err, caps)
	if _, werr := w.WritePart(typ, true, nil, params...); werr != nil {
		return nil, werr
	}
	werr = w.Close()
	return b.Bytes(), werr
}

// pushText returns the answer to a refused push without bundle2: the result 0,
// and text that hg shows with "remote: ". A race is told in the words alone.
func pushText(err error, output string) []byte {
	message, hint, _ := Explain(err)
	var raced *hg.PushRaced
	if errors.As(err, &raced) {
		return []byte("0\n" + output + message + "\n")
	}
	return []byte("0\n" + output + "abort: " + withHint(message, hint))
}

// errorText returns the body of an application/hg-error. hg shows it after
// "remote error:".
func errorText(err error) []byte {
	message, hint, _ := Explain(err)
	return []byte(withHint(message, hint))
}

func withHint(message, hint string) string {
	if hint == "" {
		return message + "\n"
	}
	return message + "\n(" + hint + ")\n"
}
