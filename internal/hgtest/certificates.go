package hgtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// WriteCertificates makes certificates in a directory, each with its key in one
// file: server.pem and again.pem of this address, signed by the authority in
// ca.pem; ann.pem and old.pem, which has expired, of the user ann, signed by
// the authority in users.pem; and liar.pem of ann, signed by another.
func WriteCertificates(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t, filepath.Join(dir, "ca.pem"))
	users := newAuthority(t, filepath.Join(dir, "users.pem"))
	liars := newAuthority(t, filepath.Join(dir, "liars.pem"))
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	for _, c := range []struct {
		name    string
		by      *authority
		usage   x509.ExtKeyUsage
		subject string
		until   time.Time
	}{
		{"server", ca, x509.ExtKeyUsageServerAuth, "127.0.0.1", later},
		{"again", ca, x509.ExtKeyUsageServerAuth, "127.0.0.1", later},
		{"ann", users, x509.ExtKeyUsageClientAuth, "ann", later},
		{"old", users, x509.ExtKeyUsageClientAuth, "ann", before},
		{"liar", liars, x509.ExtKeyUsageClientAuth, "ann", later},
	} {
		template := &x509.Certificate{
			Subject: pkix.Name{CommonName: c.subject}, NotAfter: c.until,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{c.usage},
		}
		if c.usage == x509.ExtKeyUsageServerAuth {
			template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		c.by.sign(t, template, filepath.Join(dir, c.name+".pem"))
	}
}

func newAuthority(t testing.TB, file string) *authority {
	t.Helper()
	return (&authority{}).sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: filepath.Base(file)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, file)
}

// sign writes a certificate and its key to a file; an authority without a key
// of its own lets the certificate sign itself.
func (a *authority) sign(t testing.TB, template *x509.Certificate, file string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore = serial, time.Now().Add(-time.Hour)
	parent, signer := a.cert, a.key
	if a.key == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...)
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}
