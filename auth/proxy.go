package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the web servers in front of this one that may speak for their
// clients.
type Proxies struct {
	// Trusted are their addresses. From elsewhere their headers mean nothing.
	Trusted []netip.Prefix

	// UserHeader is the header in which they name the user whom they have
	// authenticated, as a web server tells a hgweb in REMOTE_USER. Empty: they
	// don't.
	UserHeader string
}

// ParseTrusted reads addresses and networks, as "10.0.0.1" and "10.0.0.0/8".
func ParseTrusted(words []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, w := range words {
		if addr, err := netip.ParseAddr(w); err == nil {
			addr = addr.Unmap().WithZone("")
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(w)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network", w)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (p *Proxies) trusts(a netip.Addr) bool {
	return a.IsValid() && slices.ContainsFunc(p.Trusted, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Client tells where a request came from. conn is the state of TLS of its
// connection, nil without TLS. Behind trusted proxies, the client is the last
// address in X-Forwarded-For that is none of theirs, and X-Forwarded-Proto
// tells how it came.
func (p *Proxies) Client(r *http.Request, conn *tls.ConnectionState) Client {
	c := Client{Addr: address(r.RemoteAddr), Secure: conn != nil}
	if conn != nil {
		c.Certificates = conn.PeerCertificates
	}
	if !p.trusts(c.Addr) {
		return c
	}
	c.Proxied = true
	c.Addr = p.forwarded(c.Addr, r.Header.Values("X-Forwarded-For"))
	if proto := elements(r.Header.Values("X-Forwarded-Proto")); len(proto) > 0 {
		// The last one is that of the proxy which we know.
		c.Secure = strings.EqualFold(proto[len(proto)-1], "https")
	}
	return c
}

// forwarded goes back the way a request came, for as long as the one who tells
// is trusted.
func (p *Proxies) forwarded(from netip.Addr, header []string) netip.Addr {
	for _, s := range slices.Backward(elements(header)) {
		a := address(s)
		if !p.trusts(from) || !a.IsValid() {
			break
		}
		from = a
	}
	return from
}

func elements(header []string) []string {
	var out []string
	for _, h := range header {
		for s := range strings.SplitSeq(h, ",") {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

// address reads an address with or without a port. One of IPv4 that is written
// as one of IPv6 is that of IPv4.
func address(s string) netip.Addr {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone("")
}

// Authenticate implements Authenticator: it takes the word of a trusted proxy.
func (p *Proxies) Authenticate(_ context.Context, r *http.Request, from Client) (Identity, bool, error) {
	if p.UserHeader == "" || !from.Proxied {
		return Identity{}, false, nil
	}
	users := r.Header.Values(p.UserHeader)
	switch len(users) {
	case 0:
		return Identity{}, false, nil
	case 1:
		return Identity{User: users[0]}, users[0] != "", nil
	}
	// A proxy that adds its header to that of a client would let the client
	// choose.
	return Identity{}, false, &Refusal{Status: http.StatusBadRequest, Reason: "the proxy named more than one user"}
}
