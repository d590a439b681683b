package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/config"
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
	conf, err := serverTLS(filepath.Join(dir, "server.pem"), nil, &config.Devel{}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	exact, err := serverTLS(filepath.Join(dir, "server.pem"), nil, &config.Devel{ServerExactProtocol: tls.VersionTLS11}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got, err := handshake(t, exact, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10})
	if err != nil || got.Version != tls.VersionTLS11 {
		t.Errorf("exactly 1.1: %s, %v", tls.VersionName(got.Version), err)
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
		_, err := serverTLS(name, nil, &config.Devel{}, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestRequiredCertificates(t *testing.T) {
	dir := t.TempDir()
	hgtest.WriteCertificates(t, dir)
	pem := filepath.Join(dir, "server.pem")
	_, err := serverTLS(pem, nil, &config.Devel{ServerCAFile: "none.pem"}, slog.New(slog.DiscardHandler))
	if want := "referenced certificate file (none.pem) does not exist"; err == nil || err.Error() != want {
		t.Errorf("without the file: %v, want %s", err, want)
	}
	for _, tt := range []struct {
		devel config.Devel
		shows string
		ok    bool
	}{
		{config.Devel{ServerCAFile: "users.pem", ServerRequireCert: true}, "", false},
		{config.Devel{ServerCAFile: "users.pem", ServerRequireCert: true}, "ann.pem", true},
		{config.Devel{ServerCAFile: "users.pem", ServerRequireCert: true}, "liar.pem", false},
		{config.Devel{ServerCAFile: "users.pem"}, "", true},
		{config.Devel{ServerRequireCert: true}, "ann.pem", false},
	} {
		name := fmt.Sprintf("%+v, %q", tt.devel, tt.shows)
		if tt.devel.ServerCAFile != "" {
			tt.devel.ServerCAFile = filepath.Join(dir, tt.devel.ServerCAFile)
		}
		conf, err := serverTLS(pem, nil, &tt.devel, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// With 1.2 the client learns in the handshake that it was refused.
		client := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}
		if tt.shows != "" {
			cert, err := tls.LoadX509KeyPair(filepath.Join(dir, tt.shows), filepath.Join(dir, tt.shows))
			if err != nil {
				t.Fatal(err)
			}
			client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		}
		if _, err := handshake(t, conf, client); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
