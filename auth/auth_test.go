package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/vfs"
)

// Hashes of "s3cret": apr1, SHA-512-crypt, and bcrypt at its lowest cost.
const passwordFile = `# users
apr:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.
sha:$6$saltsalt$As4wrv0kZlfch1du9WeH7qhskyLriQWySXrZzynnvi46nFnNxjdpl6ksRegrrKexvhIa/Iny8S8uF3fVWTMuC1
a b@c:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.
`

// write replaces a file on disk and returns its name.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := vfs.WriteAtomic(vfs.NewOS("/"), path, []byte(content), false); err != nil {
		t.Fatal(err)
	}
	return path
}

func openPasswords(t *testing.T, content string) (*Passwords, string) {
	t.Helper()
	path := write(t, t.TempDir(), "htpasswd", content)
	p, err := OpenPasswords(vfs.NewOS("/"), path)
	if err != nil {
		t.Fatal(err)
	}
	return p, path
}

func openTokens(t *testing.T, content string) (*Tokens, string) {
	t.Helper()
	path := write(t, t.TempDir(), "tokens", content)
	tokens, err := OpenTokens(vfs.NewOS("/"), path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, path
}

var somewhere = Client{Addr: netip.MustParseAddr("192.0.2.1")}

func basic(user, password string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth(user, password)
	return r
}

// outcome describes what came of a request.
func outcome(id Identity, ok bool, err error) string {
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		return http.StatusText(refused.Status)
	case err != nil:
		return "error"
	case !ok:
		return "nobody"
	}
	return "user " + id.User
}

func TestPasswords(t *testing.T) {
	p, path := openPasswords(t, passwordFile)
	a := &Credentials{Passwords: p}
	long := string(make([]byte, maxPasswordBytes+1))
	steps := []struct {
		request *http.Request
		want    string
	}{
		{httptest.NewRequest("GET", "/", nil), "nobody"},
		{basic("apr", "s3cret"), "user apr"},
		{basic("apr", "s3cret"), "user apr"}, // from memory
		{basic("apr", "wrong"), "Unauthorized"},
		{basic("sha", "s3cret"), "user sha"},
		{basic("a b@c", "s3cret"), "user a b@c"},
		{basic("nobody", "s3cret"), "Unauthorized"},
		{basic("apr", ""), "Unauthorized"},
		{basic("", "s3cret"), "Unauthorized"},
		{basic("", ""), "Unauthorized"},
		{basic("apr", long), "Unauthorized"},
		{header("Basic !"), "nobody"},
		{header("Bearer s3cret"), "nobody"},
		{header("Negotiate x"), "nobody"},
	}
	for i, s := range steps {
		if got := outcome(a.Authenticate(t.Context(), s.request, somewhere)); got != s.want {
			t.Errorf("step %d: %s, want %s", i, got, s.want)
		}
	}
	// A changed file counts at once, and verdicts from before it don't.
	write(t, filepath.Dir(path), "htpasswd", "other:$apr1$saltsalt$64vPg1.FPS6FtcYJ7Ti1V.\n")
	for user, want := range map[string]string{"apr": "Unauthorized", "other": "user other"} {
		if got := outcome(a.Authenticate(t.Context(), basic(user, "s3cret"), somewhere)); got != want {
			t.Errorf("after the change, %s: %s, want %s", user, got, want)
		}
	}
	// Nobody is let in by a file that is broken or gone.
	write(t, filepath.Dir(path), "htpasswd", "other\n")
	if got := outcome(a.Authenticate(t.Context(), basic("other", "s3cret"), somewhere)); got != "error" {
		t.Errorf("broken file: %s", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := outcome(a.Authenticate(t.Context(), basic("other", "s3cret"), somewhere)); got != "error" {
		t.Errorf("missing file: %s", got)
	}
}

func header(authorization string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", authorization)
	return r
}

func TestChainTakesTheFirst(t *testing.T) {
	p, _ := openPasswords(t, passwordFile)
	proxies := &Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, UserHeader: "X-Remote-User"}
	chain := Chain{proxies, &Credentials{Passwords: p}}
	for _, tt := range []struct {
		name, from, header, password string
		want                         string
	}{
		{"proxy", "10.0.0.1", "ann", "", "user ann"},
		{"proxy before password", "10.0.0.1", "ann", "s3cret", "user ann"},
		{"proxy before wrong password", "10.0.0.1", "ann", "wrong", "user ann"},
		{"proxy that knows nobody", "10.0.0.1", "", "s3cret", "user apr"},
		{"header of a stranger", "192.0.2.1", "ann", "", "user "},
		{"header of a stranger with a password", "192.0.2.1", "ann", "s3cret", "user apr"},
		{"wrong password", "192.0.2.1", "", "wrong", "Unauthorized"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.from + ":1234"
		if tt.header != "" {
			r.Header.Set("X-Remote-User", tt.header)
		}
		if tt.password != "" {
			r.SetBasicAuth("apr", tt.password)
		}
		id, err := chain.Identify(context.Background(), r, proxies.Client(r, nil))
		if got := outcome(id, true, err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
