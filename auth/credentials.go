package auth

import (
	"context"
	"net/http"
	"strings"
)

// Credentials knows users by the header Authorization. Either field may be nil,
// and without both no credentials are looked at.
type Credentials struct {
	Passwords *Passwords

	// Tokens are taken in place of a password, or alone as a bearer token.
	Tokens *Tokens
}

const reasonWrong = "authorization failed"

// Authenticate implements Authenticator.
func (c *Credentials) Authenticate(ctx context.Context, r *http.Request, from Client) (Identity, bool, error) {
	if c.Passwords == nil && c.Tokens == nil {
		return Identity{}, false, nil
	}
	if secret, ok := bearer(r); ok && c.Tokens != nil {
		id, err := c.Tokens.check("", secret)
		return id, err == nil, err
	}
	user, password, ok := r.BasicAuth()
	if !ok {
		return Identity{}, false, nil
	}
	id, err := c.basic(ctx, from, user, password)
	return id, err == nil, err
}

func (c *Credentials) basic(ctx context.Context, from Client, user, password string) (Identity, error) {
	switch {
	case user == "":
		return Identity{}, wrong(user, reasonWrong)
	case c.Tokens != nil && isToken(password):
		return c.Tokens.check(user, password)
	case c.Passwords == nil:
		return Identity{}, wrong(user, reasonWrong)
	}
	right, err := c.Passwords.check(ctx, from.Addr, user, password)
	if err != nil {
		return Identity{}, err
	}
	if !right {
		return Identity{}, wrong(user, reasonWrong)
	}
	return Identity{User: user}, nil
}

// bearer returns the token of a request that brings one alone (RFC 6750).
func bearer(r *http.Request) (string, bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "Bearer")
}
