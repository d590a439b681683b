package auth

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"
)

// An Identity is who sent a request. The zero value is somebody anonymous.
type Identity struct {
	User string

	// Scope is what the credentials are good for; nil means all that the user
	// may do.
	Scope *Scope
}

// A Client is where a request came from; Proxies finds it out.
type Client struct {
	// Addr is its address, that of the client in front of trusted proxies. It
	// is not valid for a client without one, such as that of a unix socket.
	Addr netip.Addr

	// Proxied tells that the request came by a trusted proxy, whose headers
	// count.
	Proxied bool

	// Secure tells that the client spoke TLS, to us or to a trusted proxy.
	Secure bool

	// Certificates are what the peer of the connection has shown and has the
	// key of, its own first. Nobody has asked yet who signed them.
	Certificates []*x509.Certificate
}

// An Authenticator knows one kind of credentials.
type Authenticator interface {
	// Authenticate returns who sent a request. Without credentials of its kind
	// ok is false. What is wrong with them is a *Refusal, and what is wrong on
	// our side any other error.
	Authenticate(ctx context.Context, r *http.Request, from Client) (id Identity, ok bool, err error)
}

// A Refusal is why a request is not served, as an HTTP status and a sentence.
type Refusal struct {
	Status     int
	Reason     string
	RetryAfter time.Duration // when to try again; 0: no idea

	// User is the name that was claimed, for the log.
	User string
}

func (e *Refusal) Error() string { return e.Reason }

// Chain asks several authenticators; the first that finds credentials decides.
type Chain []Authenticator

// Identify returns who sent a request: the zero Identity if it brings no
// credentials that any authenticator knows. The errors are theirs.
func (c Chain) Identify(ctx context.Context, r *http.Request, from Client) (Identity, error) {
	for _, a := range c {
		if id, ok, err := a.Authenticate(ctx, r, from); ok || err != nil {
			return id, err
		}
	}
	return Identity{}, nil
}

func wrong(user, reason string) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Reason: reason, User: user}
}
