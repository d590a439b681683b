package wire

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// An Endpoint answers a request to one repository.
type Endpoint struct {
	// Open, unless it is nil, opens the repository and sets the fields below.
	// It is called once the client is allowed to do what it asks for.
	Open func(context.Context) error

	Repo     Repo
	Pusher   Pusher // nil if the repository is served read-only
	Features *Features
	Limits   Limits
	Peer     Peer

	// Allow decides whether the client may do what needs a permission. It is
	// asked before anything is read of the repository or of the body, and
	// again for each command of a batch. The error should be a *StatusError.
	Allow func(Permission) error
}

// A BrokenError means that an answer failed after its first byte. The
// connection can't be used any more and will be cut; the client sees that.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string { return "answer cut: " + e.Err.Error() }
func (e *BrokenError) Unwrap() error { return e.Err }

// An answeredError was told to the client in the form that it expects.
type answeredError struct{ error }

func (e *answeredError) Unwrap() error { return e.error }

// Answered marks an error that was told to the client at the end of what was
// written, so that the answer ends there and is not cut: a client that finds it
// cut may see nothing of its end.
func Answered(err error) error { return &answeredError{err} }

// Serve answers the command that r asks for; see Command. It returns what went
// wrong, also if that was the client's fault and has been told to it: Explain
// says which errors belong in a log. The context of r ends the work.
func (e *Endpoint) Serve(w http.ResponseWriter, r *http.Request) error {
	name, _ := Command(r)
	cmd, ok := commands[name]
	if !ok {
		return WriteStatus(w, r, &StatusError{Code: http.StatusBadRequest, Reason: "unknown command"})
	}
	if !isMethod(r.Method) {
		return WriteStatus(w, r, MethodNotAllowed())
	}
	view := &lazyView{endpoint: e}
	err := e.run(w, r, name, cmd, view)
	return errors.Join(err, view.close())
}

// isMethod reports whether a command may be sent that way. hgweb takes POST and
// PUT for every command, and pushes only by POST.
func isMethod(m string) bool {
	return m == http.MethodGet || m == http.MethodHead || m == http.MethodPost || m == http.MethodPut
}

func (e *Endpoint) run(w http.ResponseWriter, r *http.Request, name string, cmd command, view *lazyView) error {
	limits := e.Limits.withDefaults()
	if err := e.allow(cmd.perm); err != nil {
		return e.refuse(w, r, err)
	}
	if e.Open != nil {
		if err := e.Open(r.Context()); err != nil {
			return e.refuse(w, r, err)
		}
	}
	limitStalls(w, r, limits)
	client, err := parseClientCaps(r.Header)
	if err != nil {
		return e.refuse(w, r, err)
	}
	args, err := readArgs(r, limits)
	if err != nil {
		return e.refuse(w, r, err)
	}
	c := &call{name: name, args: args, client: client, features: e.Features, limits: limits,
		allow: e.allow, view: view, pusher: e.Pusher, peer: e.Peer}
	switch ctx := r.Context(); {
	case name == "unbundle":
		return e.unbundle(ctx, c, w, r)
	case cmd.stream != nil:
		return e.stream(ctx, c, cmd, w, r)
	default:
		body, err := c.simple(ctx, cmd)
		if err != nil {
			return e.refuse(w, r, err)
		}
		return writeBytes(w, r, mediaType1, body)
	}
}

func (e *Endpoint) allow(perm Permission) error {
	if e.Allow == nil {
		return nil
	}
	return e.Allow(perm)
}

func (e *Endpoint) stream(ctx context.Context, c *call, cmd command, w http.ResponseWriter, r *http.Request) error {
	if err := c.checkArgs(cmd); err != nil {
		return e.refuse(w, r, err)
	}
	s := newStream(w, r, c)
	s.bare = cmd.bare
	if r.Method == http.MethodHead {
		// Nobody would see what took so long to make.
		return s.finish()
	}
	err := cmd.stream(ctx, c, s)
	var answered *answeredError
	if err == nil || errors.As(err, &answered) {
		if ferr := s.finish(); ferr != nil {
			return cut(w, ferr)
		}
		return err
	}
	if s.started {
		if ctx.Err() == nil {
			// The error may have been told at the end of what was written.
			err = errors.Join(err, s.Flush())
		}
		return cut(w, err)
	}
	w.Header().Del("Content-Length")
	return e.refuse(w, r, err)
}

// refuse answers a command that failed before any of its answer was sent.
func (e *Endpoint) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	var status *StatusError
	if errors.As(err, &status) {
		return errors.Join(err, WriteStatus(w, r, status))
	}
	return errors.Join(err, writeBytes(w, r, mediaError, errorText(err)))
}

// cut breaks the connection, so that the client doesn't take what it got for
// the whole answer: nothing more can be written, not even the last chunk.
func cut(w http.ResponseWriter, err error) error {
	derr := http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0))
	return errors.Join(&BrokenError{err}, derr)
}

// A lazyView is opened by the first command that needs it and then shared by
// all of a batch.
type lazyView struct {
	endpoint *Endpoint
	view     View // nil until it is needed
}

func (l *lazyView) get(ctx context.Context) (View, error) {
	if l.view != nil {
		return l.view, nil
	}
	v, err := l.endpoint.Repo.View(ctx)
	if err != nil {
		return nil, err
	}
	l.view = v
	return v, nil
}

func (l *lazyView) close() error {
	if l.view == nil {
		return nil
	}
	v := l.view
	l.view = nil
	return v.Close()
}
