package config

import "time"

// Vcsd is the section [vcsd], which is this server's own. In it, unknown keys
// are errors; zero values of limits mean the default of the package that has
// the limit. Sizes are in bytes, or with a unit ("10MB"); times are in seconds,
// or with a unit ("1m30s").
type Vcsd struct {
	// Who is who. Without Htpasswd, users are those that a front server names.
	Htpasswd   string // file of names and hashed passwords
	Realm      string // for the browser's question
	UserHeader string // header in which a trusted front server names the user

	// Where things are kept.
	State   string // directory of the coordination service; see --state
	Journal string // directory of commit records; empty: inside each repository
	Node    string // name of this machine; empty: the host's name

	// The coordination service. Without Etcd, an embedded one.
	Etcd         []string // addresses
	EtcdCA       string   // files for TLS
	EtcdCert     string
	EtcdKey      string
	LeaseTTL     time.Duration // default 5 s
	OutcomeTTL   time.Duration // how long a push is remembered, default 24 h
	PublishWait  time.Duration // how long a push waits for its turn
	LockWait     time.Duration // how long for a local hg
	DrainTimeout time.Duration // how long running requests get at the end

	// Limits.
	MaxPushBytes       int64 // of a bundle
	MaxTextBytes       int64 // of a revision
	QuarantineBytes    int64 // of all pushes in flight
	MaxChangesets      int   // of a push
	PushSlots          int   // pushes worked on at once
	PushQueue          int   // pushes waiting for a slot
	QueueWait          time.Duration
	PullSlots          int
	CacheBytes         int64
	HookTimeout        time.Duration
	JournalRetention   time.Duration
	PregenerateBundles bool // make bundles for full clones by itself; default yes

	// Where metrics and health are served, besides the repositories; empty:
	// nowhere.
	AdminAddress string
}

// WebhookPrefix begins the keys of [vcsd] that describe webhooks: "webhook.NAME"
// and its sub-options.
const WebhookPrefix = "webhook."

// Vcsd reads [vcsd], from trusted files only.
func (c *Config) Vcsd() (Vcsd, error) {
	r := &reader{view: c.trusted, section: "vcsd", locate: true}
	v := Vcsd{
		Htpasswd:           r.string("", "htpasswd"),
		Realm:              r.string("Mercurial", "realm"),
		UserHeader:         r.string("", "user-header"),
		State:              r.string("", "state"),
		Journal:            r.string("", "journal"),
		Node:               r.string("", "node"),
		Etcd:               r.list("etcd"),
		EtcdCA:             r.string("", "etcd-ca"),
		EtcdCert:           r.string("", "etcd-cert"),
		EtcdKey:            r.string("", "etcd-key"),
		LeaseTTL:           r.duration(5*time.Second, "lease-ttl"),
		OutcomeTTL:         r.duration(24*time.Hour, "outcome-ttl"),
		PublishWait:        r.duration(0, "publish-wait"),
		LockWait:           r.duration(0, "lock-wait"),
		DrainTimeout:       r.duration(30*time.Second, "drain-timeout"),
		MaxPushBytes:       r.bytes(0, "max-push-bytes"),
		MaxTextBytes:       r.bytes(0, "max-text-bytes"),
		QuarantineBytes:    r.bytes(0, "quarantine-bytes"),
		MaxChangesets:      r.atLeast(0, 0, "max-changesets"),
		PushSlots:          r.atLeast(0, 0, "push-slots"),
		PushQueue:          r.atLeast(0, 0, "push-queue"),
		QueueWait:          r.duration(0, "queue-wait"),
		PullSlots:          r.atLeast(0, 0, "pull-slots"),
		CacheBytes:         r.bytes(0, "cache-bytes"),
		HookTimeout:        r.duration(0, "hook-timeout"),
		JournalRetention:   r.duration(0, "journal-retention"),
		PregenerateBundles: r.bool(true, "pregenerate-bundles"),
		AdminAddress:       r.string("", "admin-address"),
	}
	r.unknown(WebhookPrefix)
	return v, r.err()
}
