package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
)

// hg prints the text of a status line to its user ("abort: HTTP Error 403: ssl
// required"), and net/http writes only its own texts. So the listener's
// connections put ours in their place: the first write after a handler has
// called WriteHeader begins with the status line, since net/http flushes what
// came before at the end of each request.

// ReasonListener returns a listener whose connections can send status lines
// with a text of our own. It needs ConnContext in the http.Server, and HTTP/1.
// For TLS, l is the listener of package tls; TLSState then tells about it.
func ReasonListener(l net.Listener) net.Listener { return reasonListener{l} }

type reasonListener struct{ net.Listener }

func (l reasonListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &reasonConn{Conn: c}, nil
}

// A reasonConn changes the text of the next status line.
type reasonConn struct {
	net.Conn

	mu     sync.Mutex
	code   int    // guarded by mu; 0 if no text is pending
	reason string // guarded by mu
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if rc, ok := c.(*reasonConn); ok {
		return context.WithValue(ctx, connKey{}, rc)
	}
	return ctx
}

// TLSState returns the state of TLS of the connection that r came over; nil
// without TLS.
func TLSState(r *http.Request) *tls.ConnectionState {
	if r.TLS != nil {
		return r.TLS
	}
	rc, ok := r.Context().Value(connKey{}).(*reasonConn)
	if !ok {
		return nil
	}
	c, ok := rc.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	state := c.ConnectionState()
	return &state
}

func (c *reasonConn) isTLS() bool {
	_, ok := c.Conn.(*tls.Conn)
	return ok
}

// okReason is what hgweb says instead of "OK".
const okReason = "Script output follows"

// writeHeader is w.WriteHeader with a text. An empty one means net/http's, or
// hgweb's for a success.
func writeHeader(w http.ResponseWriter, r *http.Request, code int, reason string) {
	SetReason(r, code, reason)
	w.WriteHeader(code)
}

// SetReason sets the text of the status line that answers r with code. It must
// come right before WriteHeader. Without a ReasonListener it does nothing.
func SetReason(r *http.Request, code int, reason string) {
	if reason == "" && code == http.StatusOK {
		reason = okReason
	}
	rc, ok := r.Context().Value(connKey{}).(*reasonConn)
	if !ok || reason == "" || r.ProtoMajor != 1 {
		return
	}
	// A text must not end the line, and control characters are none.
	reason = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, reason)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.code, rc.reason = code, reason
}

// take returns what to send instead of the start of p, and how much of p that
// replaces.
func (c *reasonConn) take(p []byte) (line []byte, replaces int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == 0 {
		return nil, 0
	}
	for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
		head := fmt.Appendf(nil, "%s %03d ", version, c.code)
		end := bytes.Index(p, []byte("\r\n"))
		if end >= 0 && bytes.HasPrefix(p, head) {
			line = append(head, c.reason...)
			c.code = 0
			return line, end
		}
	}
	return nil, 0
}

// Write writes p, with the pending text if p begins with its status line.
func (c *reasonConn) Write(p []byte) (int, error) {
	line, replaces := c.take(p)
	if line == nil {
		return c.Conn.Write(p)
	}
	// One write: a header in two packets would wait for the first one's
	// acknowledgement.
	n, err := c.Conn.Write(append(line, p[replaces:]...))
	if err != nil {
		return max(0, min(len(p), n-len(line)+replaces)), err
	}
	return len(p), nil
}

// ReadFrom lets the kernel copy files. By then the status line is out.
func (c *reasonConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.Conn, r)
}

// CloseWrite ends the server's half of a connection on which a client sends
// what nobody reads, so that it gets the answer before the reset. That of TLS
// tells the client's TLS, but not its kernel.
func (c *reasonConn) CloseWrite() error {
	var err error
	for conn := c.Conn; conn != nil; {
		if cw, ok := conn.(interface{ CloseWrite() error }); ok {
			err = errors.Join(err, cw.CloseWrite())
		}
		t, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = t.NetConn()
	}
	return err
}
