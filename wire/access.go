package wire

import (
	"net/http"
	"slices"

	"vcsd/config"
)

// A Permission is what a command needs.
type Permission int

// The permissions. Read is for pages and listings; Pull and Push are those of
// commands.
const (
	Read Permission = iota
	Pull
	Push
)

// A StatusError is an answer by HTTP status. Its reason stands in the status
// line, where hg shows it to the user.
type StatusError struct {
	Code   int
	Reason string
	Header http.Header // more headers for the answer; may be nil
}

func (e *StatusError) Error() string { return e.Reason }

// Authorize checks a request against the keys of [web], in hgweb's order and
// with its words. user is the authenticated name, or empty; secure tells that
// the request came over TLS. The error is a *StatusError.
func Authorize(web *config.Web, user, method string, secure bool, perm Permission) error {
	if err := authorizeRead(web, user); err != nil {
		return err
	}
	switch perm {
	case Read:
		return nil
	case Pull:
		if !web.AllowPull {
			return NotAuthorized(Pull)
		}
		return nil
	default:
		return authorizePush(web, user, method, secure)
	}
}

// LoginHelps reports whether there is a user to whom [web] allows what it
// denies to somebody anonymous: whether it is worth to ask who that is.
func LoginHelps(web *config.Web, perm Permission) bool {
	// Whoever isn't named is like everybody else who isn't.
	const unnamed = "\x00"
	for _, user := range slices.Concat(web.AllowPush, web.AllowRead, []string{unnamed}) {
		if user != "" && Authorize(web, user, http.MethodPost, true, perm) == nil {
			return true
		}
	}
	return false
}

// NotAuthorized is the refusal of a permission to a user who doesn't have it.
func NotAuthorized(perm Permission) *StatusError {
	reason := map[Permission]string{Read: "read not authorized", Pull: "pull not authorized", Push: "push not authorized"}
	return &StatusError{Code: http.StatusUnauthorized, Reason: reason[perm]}
}

func authorizeRead(web *config.Web, user string) error {
	denied := len(web.DenyRead) > 0 && (user == "" || isMember(user, web.DenyRead))
	allowed := len(web.AllowRead) == 0 || isMember(user, web.AllowRead)
	if denied || !allowed {
		return NotAuthorized(Read)
	}
	return nil
}

func authorizePush(web *config.Web, user, method string, secure bool) error {
	if method != http.MethodPost {
		return &StatusError{Code: http.StatusMethodNotAllowed, Reason: "push requires POST request",
			Header: http.Header{"Allow": {http.MethodPost}}}
	}
	// A password sent in the clear could be sniffed and used again.
	if web.PushSSL && !secure {
		return &StatusError{Code: http.StatusForbidden, Reason: "ssl required"}
	}
	denied := len(web.DenyPush) > 0 && (user == "" || isMember(user, web.DenyPush))
	if denied || !isMember(user, web.AllowPush) {
		return NotAuthorized(Push)
	}
	return nil
}

// isMember reports whether user is in list. A list of only "*" has everybody,
// also those without a name.
func isMember(user string, list []string) bool {
	return len(list) == 1 && list[0] == "*" || user != "" && slices.Contains(list, user)
}
