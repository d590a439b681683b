package config

import (
	"crypto/tls"
	"fmt"
)

// Devel is what of the section [devel] changes how TLS is served. hg's own tests
// set it.
type Devel struct {
	ServerCAFile        string // authorities of the certificates that clients show, in PEM
	ServerRequireCert   bool   // nobody is served without such a certificate
	ServerExactProtocol uint16 // the only version of TLS spoken, as crypto/tls numbers them; 0: those that are safe
}

var protocols = map[string]uint16{"": 0, "tls1.0": tls.VersionTLS10, "tls1.1": tls.VersionTLS11, "tls1.2": tls.VersionTLS12}

// Devel reads [devel].
func (c *Config) Devel() (Devel, error) {
	r := &reader{view: c.trusted, section: "devel"}
	d := Devel{
		ServerCAFile:      r.string("", "servercafile"),
		ServerRequireCert: r.bool(false, "serverrequirecert"),
	}
	exact := r.string("", "serverexactprotocol")
	var ok bool
	if d.ServerExactProtocol, ok = protocols[exact]; !ok {
		return d, fmt.Errorf("invalid value for serverexactprotocol: %s", exact)
	}
	return d, r.err()
}
