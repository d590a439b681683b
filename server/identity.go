package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"vcsd/auth"
	"vcsd/config"
	"vcsd/internal/vfs"
	"vcsd/wire"
)

// identities tell who sends requests, and from where.
type identities struct {
	proxies auth.Proxies
	chain   auth.Chain

	// certificates is one of chain; nil if clients aren't asked for theirs.
	certificates *auth.Certificates

	// challenge is what a client has to authenticate with, for the header
	// WWW-Authenticate; empty if it can't by a password or a token.
	challenge string
}

// newIdentities reads the files that [vcsd] names. What a proxy says goes
// before credentials of the request, and those before a certificate, which
// stands for the machine as often as for a user.
func newIdentities(v config.Vcsd) (*identities, error) {
	ids := &identities{proxies: auth.Proxies{UserHeader: v.ProxyUserHeader}}
	var err error
	if ids.proxies.Trusted, err = auth.ParseTrusted(v.TrustedProxies); err != nil {
		return nil, fmt.Errorf("vcsd.trusted-proxies: %w", err)
	}
	if v.ProxyUserHeader != "" && len(v.TrustedProxies) == 0 {
		return nil, errors.New("vcsd.proxy-user-header is set, and vcsd.trusted-proxies is not")
	}
	disk := vfs.NewOS("/")
	cred := new(auth.Credentials)
	if v.Htpasswd != "" {
		if cred.Passwords, err = auth.OpenPasswords(disk, onDisk(v.Htpasswd)); err != nil {
			return nil, fmt.Errorf("vcsd.htpasswd: %w", err)
		}
	}
	if v.Tokens != "" {
		if cred.Tokens, err = auth.OpenTokens(disk, onDisk(v.Tokens)); err != nil {
			return nil, fmt.Errorf("vcsd.tokens: %w", err)
		}
	}
	ids.chain = auth.Chain{&ids.proxies, cred}
	if v.Htpasswd != "" || v.Tokens != "" {
		ids.challenge = "Basic realm=" + strconv.Quote(v.Realm)
	}
	if v.ClientCA != "" {
		if ids.certificates, err = auth.OpenCertificates(disk, onDisk(v.ClientCA)); err != nil {
			return nil, fmt.Errorf("vcsd.client-ca: %w", err)
		}
		ids.chain = append(ids.chain, ids.certificates)
	}
	return ids, nil
}

// onDisk makes a name that may be relative to the working directory absolute.
func onDisk(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

type clientKey struct{}

// located lets next find out by clientOf where requests come from.
func (ids *identities) located(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := ids.proxies.Client(r, wire.TLSState(r))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, c)))
	})
}

func clientOf(r *http.Request) auth.Client {
	c, _ := r.Context().Value(clientKey{}).(auth.Client)
	return c
}

// hostOf returns the address of who sent a request, for logs and hooks.
func hostOf(r *http.Request) string {
	if a := clientOf(r).Addr; a.IsValid() {
		return a.String()
	}
	return r.RemoteAddr
}

// identify returns who sent a request. What speaks against serving it is a
// *wire.StatusError.
func (h *handler) identify(r *http.Request) (auth.Identity, error) {
	id, err := h.ids.chain.Identify(r.Context(), r, clientOf(r))
	if err == nil {
		return id, nil
	}
	status := h.refuse(r, err)
	h.registry.counters.refused.WithLabelValues(strconv.Itoa(status.Code)).Inc()
	return id, status
}

// refuse returns the answer to a login that failed, and logs it.
func (h *handler) refuse(r *http.Request, err error) *wire.StatusError {
	var refused *auth.Refusal
	if errors.As(err, &refused) {
		h.log.WarnContext(r.Context(), "login refused", "user", refused.User, "address", hostOf(r), "reason", refused.Reason)
		return h.ids.refusal(refused)
	}
	if r.Context().Err() == nil {
		h.log.ErrorContext(r.Context(), "login not decided", "address", hostOf(r), "error", err)
	}
	return &wire.StatusError{Code: http.StatusServiceUnavailable, Reason: "logins are not possible at the moment, try again later"}
}

// refusal returns the answer to a refusal. Somebody who gave wrong credentials
// may have others.
func (ids *identities) refusal(e *auth.Refusal) *wire.StatusError {
	s := &wire.StatusError{Code: e.Status, Reason: e.Reason, Header: make(http.Header)}
	if e.RetryAfter > 0 {
		s.Header.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if e.Status == http.StatusUnauthorized {
		ids.ask(s)
	}
	return s
}

// ask adds to an answer what to authenticate with.
func (ids *identities) ask(s *wire.StatusError) {
	if ids.challenge == "" {
		return
	}
	if s.Header == nil {
		s.Header = make(http.Header)
	}
	s.Header.Set("WWW-Authenticate", ids.challenge)
}

// authorize checks what [web] allows a user with the repository at a path, and
// what the credentials are good for. Somebody anonymous is asked who it is only
// if that might change the answer: hg asks its user when it is asked.
func (h *handler) authorize(web *config.Web, id auth.Identity, r *http.Request, repo string, perm wire.Permission) error {
	err := wire.Authorize(web, id.User, r.Method, clientOf(r).Secure, perm)
	switch {
	case err != nil:
	case !id.Scope.Allows(repo, false):
		return wire.NotAuthorized(wire.Read)
	case !id.Scope.Allows(repo, perm == wire.Push):
		return wire.NotAuthorized(perm)
	}
	var status *wire.StatusError
	if errors.As(err, &status) && status.Code == http.StatusUnauthorized && id.User == "" && wire.LoginHelps(web, perm) {
		h.ids.ask(status)
	}
	return err
}

func peer(r *http.Request, user string) wire.Peer {
	p := wire.Peer{Scheme: "http", Host: hostOf(r), User: user}
	if clientOf(r).Secure {
		p.Scheme = "https"
	}
	return p
}
