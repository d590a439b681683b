package auth

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"
)

func TestProxies(t *testing.T) {
	trusted, err := ParseTrusted([]string{"10.0.0.0/8", "127.0.0.1", "::1", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxies{Trusted: trusted, UserHeader: "X-Remote-User"}
	tests := []struct {
		name, remote string
		forwarded    []string
		proto        string
		tls          bool
		addr         string // want
		proxied      bool
		secure       bool
	}{
		{"a stranger", "192.0.2.1:80", nil, "", false, "192.0.2.1", false, false},
		{"a stranger with TLS", "192.0.2.1:80", nil, "", true, "192.0.2.1", false, true},
		{"a stranger's headers", "192.0.2.1:80", []string{"198.51.100.1"}, "https", false, "192.0.2.1", false, false},
		{"a stranger's word against TLS", "192.0.2.1:80", nil, "http", true, "192.0.2.1", false, true},
		{"a proxy for itself", "10.0.0.1:80", nil, "", false, "10.0.0.1", true, false},
		{"one proxy", "10.0.0.1:80", []string{"192.0.2.1"}, "https", false, "192.0.2.1", true, true},
		{"a proxy that got it in the clear", "10.0.0.1:80", []string{"192.0.2.1"}, "http", true, "192.0.2.1", true, false},
		{"two proxies", "10.0.0.1:80", []string{"192.0.2.1, 10.0.0.2"}, "", false, "192.0.2.1", true, false},
		{"two headers", "10.0.0.1:80", []string{"192.0.2.1", "10.0.0.2"}, "", false, "192.0.2.1", true, false},
		{"what the client made up", "10.0.0.1:80", []string{"203.0.113.9, 192.0.2.1"}, "", false, "192.0.2.1", true, false},
		{"what the client made up to be trusted", "10.0.0.1:80", []string{"10.9.9.9, 192.0.2.1"}, "", false, "192.0.2.1", true, false},
		{"rubbish", "10.0.0.1:80", []string{"192.0.2.1, rubbish"}, "", false, "10.0.0.1", true, false},
		{"rubbish before", "10.0.0.1:80", []string{"rubbish, 192.0.2.1"}, "", false, "192.0.2.1", true, false},
		{"with ports", "10.0.0.1:80", []string{"192.0.2.1:99, [fd00::1]:98"}, "", false, "192.0.2.1", true, false},
		{"version 6", "[::1]:80", []string{"[2001:db8::1]"}, "", false, "2001:db8::1", true, false},
		{"version 4 as version 6", "[::ffff:10.0.0.1]:80", []string{"::ffff:192.0.2.1"}, "", false, "192.0.2.1", true, false},
		{"a list of protocols", "10.0.0.1:80", nil, "https, http", false, "10.0.0.1", true, false},
		{"a unix socket", "@", nil, "https", false, "invalid IP", false, false},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.remote
		for _, f := range tt.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if tt.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tt.proto)
		}
		var conn *tls.ConnectionState
		if tt.tls {
			conn = new(tls.ConnectionState)
		}
		c := p.Client(r, conn)
		if c.Addr.String() != tt.addr || c.Proxied != tt.proxied || c.Secure != tt.secure {
			t.Errorf("%s: %v, proxied %v, secure %v; want %s, %v, %v", tt.name, c.Addr, c.Proxied, c.Secure, tt.addr, tt.proxied, tt.secure)
		}
	}
}

func TestProxyNamesOneUser(t *testing.T) {
	p := &Proxies{UserHeader: "X-Remote-User"}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Add("X-Remote-User", "root")
	r.Header.Add("X-Remote-User", "ann")
	if got := outcome(p.Authenticate(t.Context(), r, Client{Proxied: true})); got != "Bad Request" {
		t.Errorf("two users: %s", got)
	}
	r.Header.Set("X-Remote-User", "")
	if got := outcome(p.Authenticate(t.Context(), r, Client{Proxied: true})); got != "nobody" {
		t.Errorf("an empty user: %s", got)
	}
}

func TestParseTrustedRefuses(t *testing.T) {
	for _, w := range []string{"localhost", "10.0.0.0/99", "10.0.0.1:80", ""} {
		if _, err := ParseTrusted([]string{w}); err == nil {
			t.Errorf("%q was taken", w)
		}
	}
}
