package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"vcsd/config"
)

// clientTLS returns how to speak TLS to etcd; nil if nothing is configured.
func clientTLS(v config.Vcsd) (*tls.Config, error) {
	if v.EtcdCA == "" && v.EtcdCert == "" {
		return nil, nil
	}
	c := new(tls.Config)
	if v.EtcdCA != "" {
		pem, err := os.ReadFile(v.EtcdCA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("vcsd.etcd-ca: no certificate in %s", v.EtcdCA)
		}
	}
	if v.EtcdCert != "" {
		cert, err := tls.LoadX509KeyPair(v.EtcdCert, v.EtcdKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}
