package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/wire"
)

// Hashes of "s3cret": apr1 and SHA-512-crypt.
const passwords = `# users
apr:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.
sha:$6$saltsalt$As4wrv0kZlfch1du9WeH7qhskyLriQWySXrZzynnvi46nFnNxjdpl6ksRegrrKexvhIa/Iny8S8uF3fVWTMuC1
`

func newTestAuth(t *testing.T, content string) (*authenticator, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := newAuthenticator(path, "Mercurial")
	if err != nil {
		t.Fatal(err)
	}
	return a, path
}

func request(name, password string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	if name != "" {
		r.SetBasicAuth(name, password)
	}
	return r
}

func TestAuthenticator(t *testing.T) {
	a, path := newTestAuth(t, passwords)
	tests := []struct {
		name, password string
		want           string // user; "401"
	}{
		{"", "", ""},
		{"apr", "s3cret", "apr"},
		{"apr", "s3cret", "apr"}, // from memory
		{"apr", "wrong", "401"},
		{"sha", "s3cret", "sha"},
		{"nobody", "s3cret", "401"},
		{"apr", "", "401"},
	}
	for _, tt := range tests {
		user, err := a.user(request(tt.name, tt.password))
		var status *wire.StatusError
		if errors.As(err, &status) {
			user = "401"
			if got := status.Header.Get("WWW-Authenticate"); got != `Basic realm="Mercurial"` {
				t.Errorf("%q:%q: WWW-Authenticate = %q", tt.name, tt.password, got)
			}
		} else if err != nil {
			t.Errorf("%q:%q: %v", tt.name, tt.password, err)
		}
		if user != tt.want {
			t.Errorf("%q:%q = %q, want %q", tt.name, tt.password, user, tt.want)
		}
	}
	// A changed file counts at once, remembered verdicts don't.
	if err := os.WriteFile(path, []byte("other:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.user(request("apr", "s3cret")); err == nil {
		t.Error("a user who was removed is still let in")
	}
	if user, err := a.user(request("other", "s3cret")); user != "other" || err != nil {
		t.Errorf("new user = %q, %v", user, err)
	}
}

func TestAuthenticatorSlowsGuessing(t *testing.T) {
	a, _ := newTestAuth(t, passwords)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for range freeFailures {
			a.failed("10.0.0.1")
		}
		for range 3 {
			if err := a.slowDown(t.Context(), "10.0.0.1"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 3*failureDelay {
			t.Errorf("3 guesses after %d failures took %v, want %v", freeFailures, took, 3*failureDelay)
		}
		start = time.Now()
		if err := a.slowDown(t.Context(), "10.0.0.2"); err != nil || time.Since(start) != 0 {
			t.Errorf("another address waited %v, %v", time.Since(start), err)
		}
	})
}

func TestAuthenticatorRefusesFiles(t *testing.T) {
	for _, content := range []string{"alice:plain\n", "alice\n", "alice:\n"} {
		path := filepath.Join(t.TempDir(), "htpasswd")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newAuthenticator(path, "x"); err == nil {
			t.Errorf("%q was taken", content)
		}
	}
}
