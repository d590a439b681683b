package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// Web is the section [web] (hg help config.web).
type Web struct {
	// Who may do what. A list of only "*" is everybody.
	AllowPush, DenyPush []string
	AllowRead, DenyRead []string
	AllowPull           bool
	PushSSL             bool // pushes must come over TLS

	// How the repository is listed.
	Name, Description, Contact string
	Labels                     []string
	Hidden                     bool

	// How the listing is made.
	Descend, Collapse bool

	// RefreshInterval is how long a list of repositories stays good; 0 or less
	// means that it is made anew for each request.
	RefreshInterval time.Duration

	// Where to listen and what to say there.
	Address      string
	Port         int
	IPv6         bool
	Prefix       string // path before all others, "/x" or empty
	BaseURL      string
	Certificate  string
	ServerHeader string // of all answers; empty: none
	CSP          string // Content-Security-Policy of pages; empty: none
	AccessLog    string // "-" is standard output
	ErrorLog     string // "-" is standard error
}

// Web reads [web]. As in hgweb, what concerns the access to a repository and
// its listing counts even in a file of an owner who isn't trusted: else a
// repository would be open to all as soon as its owner is another one. What
// concerns the server as a whole comes from trusted files.
func (c *Config) Web() (Web, error) {
	own := &reader{view: c.all, section: "web"}
	w := Web{
		AllowPush:   own.list("allow-push", "allow_push"),
		DenyPush:    own.list("deny_push"),
		AllowRead:   own.list("allow_read"),
		DenyRead:    own.list("deny_read"),
		AllowPull:   own.bool(true, "allow-pull", "allowpull"),
		PushSSL:     own.bool(true, "push_ssl"),
		Name:        own.string("", "name"),
		Description: own.string("", "description"),
		Contact:     own.string("", "contact"),
		Labels:      own.list("labels"),
		Hidden:      own.bool(false, "hidden"),
	}
	r := &reader{view: c.trusted, section: "web", faults: own.faults}
	w.Descend = r.bool(true, "descend")
	w.Collapse = r.bool(false, "collapse")
	w.RefreshInterval = time.Duration(r.int(20, "refreshinterval")) * time.Second
	w.Address = r.string("", "address")
	w.Port = r.port(8000, "port")
	w.IPv6 = r.bool(false, "ipv6")
	w.Prefix = cleanPrefix(r.string("", "prefix"))
	w.BaseURL = r.string("", "baseurl")
	w.Certificate = r.string("", "certificate")
	w.ServerHeader = r.string("", "server-header")
	w.CSP = r.string("", "csp")
	w.AccessLog = r.string("-", "accesslog")
	w.ErrorLog = r.string("-", "errorlog")
	return w, r.err()
}

func cleanPrefix(s string) string {
	if s = strings.Trim(s, "/"); s == "" {
		return ""
	}
	return "/" + s
}

// port is a number or the name of a service.
func (r *reader) port(def int, key string) int {
	e, _, ok := r.view.lookup(r.section, key)
	if !ok {
		return def
	}
	port, err := ParsePort(e.value)
	if err != nil {
		r.faults = append(r.faults, err)
	}
	return port
}

// ParsePort reads the number of a port, or the name of a service.
func ParsePort(s string) (int, error) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	n, err := net.LookupPort("tcp", s)
	if err != nil {
		return 0, &sentence{"no port number associated with service '" + s + "'", err}
	}
	return n, nil
}
