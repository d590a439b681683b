package auth

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
)

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	hgtest.WriteCertificates(t, dir)
	c, err := OpenCertificates(vfs.NewOS("/"), filepath.Join(dir, "users.pem"))
	if err != nil {
		t.Fatal(err)
	}
	show := func(name string) string {
		t.Helper()
		from := somewhere
		if name != "" {
			from.Certificates = []*x509.Certificate{load(t, filepath.Join(dir, name))}
		}
		return outcome(c.Authenticate(t.Context(), httptest.NewRequest("GET", "/", nil), from))
	}
	for _, tt := range []struct{ name, want string }{
		{"", "nobody"},
		{"ann.pem", "user ann"},
		{"old.pem", "Unauthorized"},
		{"liar.pem", "Unauthorized"},
		{"server.pem", "Unauthorized"},
	} {
		if got := show(tt.name); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.name, got, tt.want)
		}
	}
	// Other authorities count at once, also on connections that were there.
	replace(t, dir, "liars.pem", "users.pem")
	for _, tt := range []struct{ name, want string }{{"ann.pem", "Unauthorized"}, {"liar.pem", "user ann"}} {
		if got := show(tt.name); got != tt.want {
			t.Errorf("after the change, %q: %s, want %s", tt.name, got, tt.want)
		}
	}
	write(t, dir, "users.pem", "nonsense")
	if got := show("liar.pem"); got != "error" {
		t.Errorf("without authorities: %s", got)
	}
}

func load(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(name, name)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func replace(t *testing.T, dir, from, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, from))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, to, string(b))
}
