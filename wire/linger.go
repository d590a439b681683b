package wire

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// hg reads no answer before it has sent all of a push, or can't send any more.
// Then the kind of failure decides what its user is told: of a broken pipe hg
// knows that an answer may be there, of a reset connection it doesn't. The kernel
// reports a broken pipe to who has seen the other side end its half first. So a
// refused push is not read to its end: it is answered at once, then the server's
// half of the connection is ended, and only some time later the connection. With
// TLS hg is told of neither, and an answer is found only by who could send all.
// doc/design/refused-body.md has the measurements.

// Linger returns a handler that answers before a body was read to its end. Less
// than Limits.DrainBytes of it are read first, so that the connection can be
// used again. It belongs around all other handlers of a server.
func Linger(next http.Handler, l Limits) http.Handler {
	l = l.withDefaults()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &lingerBody{ReadCloser: r.Body, expects: strings.EqualFold(r.Header.Get("Expect"), "100-continue")}
		inner := *r
		inner.Body = body
		lw := &lingerWriter{ResponseWriter: w, conn: http.NewResponseController(w), body: body, limits: l}
		next.ServeHTTP(lw, &inner)
		lw.begin()
		if lw.lingers {
			lw.linger(r)
		}
	})
}

// A lingerBody knows whether it was read to its end.
type lingerBody struct {
	io.ReadCloser
	expects bool // the client sends nothing before it is told to
	ended   bool // or broken
}

// Read implements io.Reader.
func (b *lingerBody) Read(p []byte) (int, error) {
	b.expects = false
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		b.ended = true
	}
	return n, err
}

// A lingerWriter is the answer to a request with a body.
type lingerWriter struct {
	http.ResponseWriter
	conn    *http.ResponseController
	body    *lingerBody
	limits  Limits
	begun   bool
	lingers bool // the answer goes out while the client sends
}

// WriteHeader implements http.ResponseWriter.
func (w *lingerWriter) WriteHeader(code int) {
	w.begin()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *lingerWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, or files could not be sent by the kernel.
func (w *lingerWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// Unwrap is for http.ResponseController.
func (w *lingerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin reads what little is left of the body. If more is, the connection is
// given up after the answer.
func (w *lingerWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	// A client that waits to be told to send gets its answer instead, and
	// net/http closes its connection.
	if w.body.ended || w.body.expects {
		return
	}
	w.discard(w.limits.DrainBytes, w.limits.DrainTime)
	if w.body.ended {
		// The server goes on reading, to learn when the client leaves.
		_ = w.conn.SetReadDeadline(time.Time{})
		return
	}
	w.lingers = true
	// Or net/http would read on before it writes.
	_ = w.conn.EnableFullDuplex()
	w.Header().Set("Connection", "close")
}

// linger lets the client find the answer.
func (w *lingerWriter) linger(r *http.Request) {
	if err := w.conn.Flush(); err != nil {
		return // the client is gone
	}
	n, d := w.limits.LingerBytes, w.limits.LingerTime
	if c, ok := r.Context().Value(connKey{}).(*reasonConn); ok {
		if c.isTLS() {
			n, d = w.limits.TLSLingerBytes, w.limits.TLSLingerTime
		}
		_ = c.CloseWrite() // it is closed soon anyway
	}
	w.discard(n, d)
	// Nothing more is to be waited for.
	_ = w.conn.SetReadDeadline(time.Unix(1, 0))
}

// discard reads and drops some of the body.
func (w *lingerWriter) discard(bytes int64, d time.Duration) {
	_ = w.conn.SetReadDeadline(time.Now().Add(d))
	_, _ = io.CopyN(io.Discard, w.body, bytes) // body knows how it ended
}
