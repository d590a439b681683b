package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"

	"vcsd/internal/hgtest"
)

// A certificate that changes ends no connection that is open.
func TestCertificateChangesUnderConnections(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg serve reads its certificate once")
	}
	h, dir := hgtest.New(t), t.TempDir()
	hgtest.WriteCertificates(t, dir)
	h.Run("init", "r")
	serving := filepath.Join(dir, "serving.pem")
	use := func(name string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(serving, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	use("server.pem")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: []string{"web.certificate=" + serving}})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ask := func() (serial string, reused bool) {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, s.URL+"/r?cmd=heads", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.String(), reused
	}
	first, _ := ask()
	use("again.pem")
	if serial, reused := ask(); serial != first || !reused {
		t.Errorf("after the change: connection reused %v, certificate %s; want the old one %s", reused, serial, first)
	}
	transport.CloseIdleConnections()
	if serial, reused := ask(); serial == first || reused {
		t.Errorf("a new connection has the old certificate %s", serial)
	}
}
