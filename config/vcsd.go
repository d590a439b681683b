package config

import "time"

// Vcsd is the section [vcsd], which is this server's own. In it, unknown keys
// are errors; zero values of limits mean the default of the package that has
// the limit. Sizes are in bytes, or with a unit ("10MB"); times are in seconds,
// or with a unit ("1m30s").
type Vcsd struct {
	// Who is who. Without any of these everybody is anonymous.
	Htpasswd        string   // file of names and hashed passwords
	Tokens          string   // file of hashed tokens, which take the place of passwords
	Realm           string   // for the question after them, default Mercurial
	ClientCA        string   // file of authorities whose client certificates count, in PEM
	TrustedProxies  []string // addresses and networks
	ProxyUserHeader string   // in which those name a user

	State string // directory of the embedded etcd; see --state
	Node  string // name of this process in records; empty: host and pid

	// The coordination service. Without Etcd, an embedded one.
	Etcd       []string // addresses
	EtcdCA     string   // file of certificates to trust, in PEM
	EtcdCert   string   // files of the certificate to show
	EtcdKey    string
	LeaseTTL   time.Duration // how long a dead process holds its branches, default 5 s
	OutcomeTTL time.Duration // how long a push is remembered, default 24 h

	PublishWait  time.Duration // how long a push waits for its turn
	LockWait     time.Duration // how long for a local hg
	DrainDelay   time.Duration // how long connections are accepted after SIGTERM, default 0
	DrainTimeout time.Duration // how long requests in flight get at the end, default 30 s

	// Limits.
	MaxPushBytes    int64 // of a bundle
	MaxTextBytes    int64 // of a revision
	MaxChangesets   int   // of a push
	QuarantineBytes int64 // of all pushes in flight to one repository
	CacheBytes      int64 // of the indexes of filelogs
	SpoolBytes      int64 // of answers that several clients read while they are made

	// PullBundles is how many changesets have to be new before a bundle is made
	// of them that clones are served from; 0: none is ever made.
	PullBundles int

	// AdminAddress is where metrics and readiness are served, apart from the
	// repositories; empty: nowhere.
	AdminAddress string

	HookTimeout time.Duration // how long one hook may run
	HookSlots   int           // hooks run at once

	PushSlots int           // pushes received and verified at once
	PushQueue int           // pushes that wait for a slot, or for their turn after that
	QueueWait time.Duration // how long each waits for a slot at most

	OpenRepositories int           // that stay open beside those in use
	IdleTime         time.Duration // how long one stays open that nobody uses
}

// Vcsd reads [vcsd], from trusted files only.
func (c *Config) Vcsd() (Vcsd, error) {
	r := &reader{view: c.trusted, section: "vcsd", locate: true}
	v := Vcsd{
		Htpasswd:        r.string("", "htpasswd"),
		Tokens:          r.string("", "tokens"),
		Realm:           r.string("Mercurial", "realm"),
		ClientCA:        r.string("", "client-ca"),
		TrustedProxies:  r.list("trusted-proxies"),
		ProxyUserHeader: r.string("", "proxy-user-header"),
		State:           r.string("", "state"),
		Node:            r.string("", "node"),
		Etcd:            r.list("etcd"),
		EtcdCA:          r.string("", "etcd-ca"),
		EtcdCert:        r.string("", "etcd-cert"),
		EtcdKey:         r.string("", "etcd-key"),
		LeaseTTL:        r.duration(5*time.Second, "lease-ttl"),
		OutcomeTTL:      r.duration(24*time.Hour, "outcome-ttl"),
		PublishWait:     r.duration(0, "publish-wait"),
		LockWait:        r.duration(0, "lock-wait"),
		DrainDelay:      r.duration(0, "drain-delay"),
		DrainTimeout:    r.duration(30*time.Second, "drain-timeout"),
		MaxPushBytes:    r.bytes(0, "max-push-bytes"),
		MaxTextBytes:    r.bytes(0, "max-text-bytes"),
		MaxChangesets:   r.atLeast(0, 0, "max-changesets"),
		QuarantineBytes: r.bytes(0, "quarantine-bytes"),
		CacheBytes:      r.bytes(0, "cache-bytes"),
		SpoolBytes:      r.bytes(0, "spool-bytes"),
		PullBundles:     r.atLeast(0, 500, "pull-bundles"),
		AdminAddress:    r.string("", "admin-address"),
		HookTimeout:     r.duration(0, "hook-timeout"),
		HookSlots:       r.atLeast(1, 64, "hook-slots"),
		PushSlots:       r.atLeast(1, 64, "push-slots"),
		PushQueue:       r.atLeast(0, 10_000, "push-queue"),
		QueueWait:       r.duration(10*time.Minute, "queue-wait"),

		OpenRepositories: r.atLeast(1, 256, "open-repositories"),
		IdleTime:         r.duration(10*time.Minute, "idle-time"),
	}
	r.unknown()
	return v, r.err()
}
