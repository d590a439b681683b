package auth

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"vcsd/internal/livefile"
	"vcsd/internal/vfs"
)

// maxCertificateBytes bounds a file of certificates.
const maxCertificateBytes = 16 << 20

// Certificates knows clients by the certificates that some authorities have
// signed. The user is the common name of the certificate's subject.
type Certificates struct {
	authorities *livefile.File[*x509.CertPool]
}

// OpenCertificates reads the authorities from a file in PEM.
func OpenCertificates(fsys vfs.FS, name string) (*Certificates, error) {
	f, err := livefile.Open(fsys, name, maxCertificateBytes, ParseAuthorities)
	return &Certificates{f}, err
}

// ParseAuthorities reads certificates in PEM.
func ParseAuthorities(pem []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate")
	}
	return pool, nil
}

// Authorities returns those whose certificates count now, to tell clients.
func (c *Certificates) Authorities() (*x509.CertPool, error) { return c.authorities.Get() }

// Authenticate implements Authenticator. A certificate that doesn't count is
// a refusal, where a handshake that failed would leave the user without a
// sentence. It is verified for each request: what counted when the
// connection was made may be over.
func (c *Certificates) Authenticate(_ context.Context, _ *http.Request, from Client) (Identity, bool, error) {
	if len(from.Certificates) == 0 {
		return Identity{}, false, nil
	}
	roots, err := c.authorities.Get()
	if err != nil {
		return Identity{}, false, fmt.Errorf("client certificates can't be checked: %w", err)
	}
	leaf := from.Certificates[0]
	user := leaf.Subject.CommonName
	o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, cert := range from.Certificates[1:] {
		o.Intermediates.AddCert(cert)
	}
	if _, err := leaf.Verify(o); err != nil {
		return Identity{}, false, wrong(user, "client certificate refused: "+err.Error())
	}
	if user == "" {
		return Identity{}, false, wrong("", "client certificate without a common name")
	}
	return Identity{User: user}, true, nil
}
