package server

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

func stack() string { return string(debug.Stack()) }

// accessLog writes a line for each request, in the form of hg serve.
type accessLog struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

// logged writes the request once it has been answered.
func (l *accessLog) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &statusWriter{ResponseWriter: w, code: http.StatusOK}
		defer func() { l.write(r, s.code) }()
		next.ServeHTTP(s, r)
	})
}

func (l *accessLog) write(r *http.Request, code int) {
	line := fmt.Sprintf("%s - - [%s] \"%s %s %s\" %d -%s\n", hostOf(r), time.Now().Format("02/Jan/2006 15:04:05"),
		r.Method, r.RequestURI, r.Proto, code, xHeaders(r.Header))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line) // there is nowhere to report a failure to
}

// xHeaders returns the headers that carry a command's arguments.
func xHeaders(h http.Header) string {
	var out []string
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-") {
			out = append(out, fmt.Sprintf(" %s:%s", name, clean(strings.Join(values, ", "))))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// clean keeps a client from writing lines of its own into the log.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, s)
}

// statusWriter remembers the status of an answer. It passes ReadFrom and
// Flush on, or files could not be sent by the kernel.
type statusWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *statusWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// ReadFrom implements io.ReaderFrom.
func (s *statusWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(s.ResponseWriter, r)
}
