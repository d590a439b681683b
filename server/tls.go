package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"

	"vcsd/auth"
	"vcsd/config"
	"vcsd/internal/livefile"
	"vcsd/internal/vfs"
)

// A serving is how to speak TLS to clients. Its files count as they are when a
// client connects; one that is no good is told to the log, and the one before
// it stays. Connections that are open stay as they are.
type serving struct {
	certificate *livefile.File[*tls.Certificate]
	clients     *auth.Certificates // nil: clients aren't asked for certificates
	devel       *config.Devel
	required    *x509.CertPool // whose certificates clients have to show; nil: none
	log         *slog.Logger

	mu   sync.Mutex
	told string // the fault that was logged last; guarded by mu
}

// maxKeyBytes bounds a file of a certificate and its key.
const maxKeyBytes = 16 << 20

// serverTLS returns a configuration for the certificate, its chain and its key
// in one file of PEM, as hg serve takes it.
func serverTLS(file string, clients *auth.Certificates, devel *config.Devel, log *slog.Logger) (*tls.Config, error) {
	cert, err := livefile.Open(vfs.NewOS("/"), onDisk(file), maxKeyBytes, parseKeyPair)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingFile(file)
	case err != nil:
		return nil, fmt.Errorf("certificate and key in %s: %w", file, err)
	}
	s := &serving{certificate: cert, clients: clients, devel: devel, log: log}
	if s.required, err = requiredAuthorities(devel); err != nil {
		return nil, err
	}
	c := s.config()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.config(), nil }
	return c, nil
}

// missingFile is hg's sentence.
func missingFile(file string) error {
	return fmt.Errorf("referenced certificate file (%s) does not exist", file)
}

// requiredAuthorities returns the authorities without whose certificate nobody
// is served at all; nil if there is no such rule. They have to be readable even
// where none is required, as in hg.
func requiredAuthorities(devel *config.Devel) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if devel.ServerCAFile != "" {
		pem, err := vfs.ReadFile(vfs.NewOS("/"), onDisk(devel.ServerCAFile), maxKeyBytes)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, missingFile(devel.ServerCAFile)
		}
		if err != nil {
			return nil, err
		}
		if pool, err = auth.ParseAuthorities(pem); err != nil {
			return nil, fmt.Errorf("%s: %w", devel.ServerCAFile, err)
		}
	}
	if !devel.ServerRequireCert {
		return nil, nil
	}
	return pool, nil
}

func parseKeyPair(pem []byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(pem, pem)
	return &c, err
}

// config returns the configuration as the files are now. auth.Certificates
// decides on what clients show: a handshake that failed would tell the user
// nothing.
func (s *serving) config() *tls.Config {
	cert, err := s.certificate.Get()
	c := &tls.Config{
		Certificates: []tls.Certificate{*cert},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"http/1.1"},
	}
	if s.clients != nil {
		var pool *x509.CertPool
		var cerr error
		if pool, cerr = s.clients.Authorities(); err == nil {
			err = cerr
		}
		c.ClientAuth, c.ClientCAs = tls.RequestClientCert, pool
	}
	if s.required != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, s.required
	}
	if v := s.devel.ServerExactProtocol; v != 0 {
		c.MinVersion, c.MaxVersion = v, v
	}
	s.tell(err)
	return c
}

// tell logs a fault once, and that it is over.
func (s *serving) tell(err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case fault == s.told:
		return
	case fault != "":
		s.log.Error("new certificate not taken", "error", err)
	default:
		s.log.Info("certificate is good again")
	}
	s.told = fault
}
