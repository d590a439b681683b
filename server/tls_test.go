package server

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// handshake connects to a configuration in memory.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := tls.Server(b, server)
		_ = s.Handshake() // the client's side tells
		b.Close()
	}()
	c := tls.Client(a, client)
	err := c.Handshake()
	a.Close()
	<-done
	return c.ConnectionState(), err
}

func TestServerTLSVersions(t *testing.T) {
	var log bytes.Buffer
	dir := t.TempDir()
	hgtest.WriteCertificates(t, dir)
	conf, err := serverTLS(filepath.Join(dir, "server.pem"), nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		max uint16
		ok  bool
	}{{tls.VersionTLS11, false}, {tls.VersionTLS12, true}, {tls.VersionTLS13, true}} {
		_, err := handshake(t, conf, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tt.max})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tls.VersionName(tt.max), err)
		}
	}
	if log.Len() != 0 {
		t.Errorf("log: %s", log.String())
	}
}

func TestServerTLSNeedsItsFile(t *testing.T) {
	for name, want := range map[string]string{
		"none.pem":    "referenced certificate file (none.pem) does not exist",
		"tls_test.go": "certificate and key in tls_test.go",
	} {
		_, err := serverTLS(name, nil, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
