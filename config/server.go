package config

import "strings"

// Server is the section [server] (hg help config.server).
type Server struct {
	MaxHTTPHeaderLen   int // bytes
	CompressionEngines []string
	ZlibLevel          int // up to 9; below 1 is the engine's default
	ZstdLevel          int // up to 22; below 1 is the engine's default

	Uncompressed            bool // offer stream clones
	UncompressedAllowSecret bool
	PreferUncompressed      bool
	Bundle2Stream           bool
	DisableFullBundle       bool
	PullBundle              bool

	// CheckRelated is concurrent-push-mode: check-related, not strict.
	CheckRelated bool

	Validate               bool
	BookmarksPushkeyCompat bool

	View string // what of a repository is exchanged

	bundle1 map[string]*bool
}

// Server reads [server].
func (c *Config) Server() (Server, error) {
	r := &reader{view: c.trusted, section: "server"}
	s := Server{
		MaxHTTPHeaderLen:        r.atLeast(1, 1024, "maxhttpheaderlen"),
		CompressionEngines:      r.list("compressionengines"),
		ZlibLevel:               min(r.int(-1, "zliblevel"), 9),
		ZstdLevel:               min(r.int(3, "zstdlevel"), 22),
		Uncompressed:            r.bool(true, "uncompressed"),
		UncompressedAllowSecret: r.bool(false, "uncompressedallowsecret"),
		PreferUncompressed:      r.bool(false, "preferuncompressed"),
		Bundle2Stream:           r.bool(true, "bundle2.stream"),
		DisableFullBundle:       r.bool(false, "disablefullbundle"),
		PullBundle:              r.bool(false, "pullbundle"),
		CheckRelated:            r.string("check-related", "concurrent-push-mode") == "check-related",
		Validate:                r.bool(false, "validate"),
		BookmarksPushkeyCompat:  r.bool(true, "bookmarks-pushkey-compat"),
		View:                    r.string("served", "view"),
		bundle1:                 map[string]*bool{},
	}
	if _, ok := c.Get("server", "bundle2.stream"); !ok { // it has an older name
		old := &reader{view: c.trusted, section: "experimental"}
		s.Bundle2Stream = old.bool(true, "bundle2.stream")
		r.faults = append(r.faults, old.faults...)
	}
	for _, key := range []string{"bundle1", "bundle1gd", "bundle1.pull", "bundle1gd.pull", "bundle1.push", "bundle1gd.push"} {
		s.bundle1[key] = r.optional(key)
	}
	return s, r.err()
}

// Bundle1 reports whether clients older than bundle2 may do action, "pull" or
// "push", with a repository that has the generaldelta requirement or not.
func (s *Server) Bundle1(action string, generalDelta bool) bool {
	for _, suffix := range []string{"." + action, ""} {
		if v := s.bundle1["bundle1gd"+suffix]; v != nil && generalDelta {
			return *v
		}
		if v := s.bundle1["bundle1"+suffix]; v != nil {
			return *v
		}
	}
	return true
}

// Exchange are the keys of other sections that change what a server exchanges.
type Exchange struct {
	Publish bool // phases.publish: pushed changesets become public

	CreateMarkers bool // take obsolescence markers (experimental.evolution)
	Obsmarkers    bool // and offer to exchange them
	Instabilities bool // tell pushers what they leave unstable
	Changegroup3  bool // offer changegroup version 03 without need

	SingleHead           bool // experimental.single-head-per-branch
	SingleHeadPublicOnly bool // what is not public doesn't count for it
	SingleHeadClosed     bool // closed heads do

	ExtraFilters string // experimental.extra-filter-revs, a revset of changesets to hide

	PostArgs bool // experimental.httppostargs
	PushVars bool // push.pushvars.server: hand pushed variables to hooks
}

// Exchange reads them.
func (c *Config) Exchange() (Exchange, error) {
	phases := &reader{view: c.trusted, section: "phases"}
	push := &reader{view: c.trusted, section: "push"}
	r := &reader{view: c.trusted, section: "experimental"}
	e := Exchange{
		Publish:              phases.bool(true, "publish"),
		Changegroup3:         r.bool(false, "changegroup3") || r.bool(false, "treemanifest"),
		Instabilities:        r.bool(true, "evolution.report-instabilities"),
		SingleHead:           r.bool(false, "single-head-per-branch"),
		SingleHeadPublicOnly: r.bool(false, "single-head-per-branch:public-changes-only"),
		SingleHeadClosed:     r.bool(false, "single-head-per-branch:account-closed-heads"),
		ExtraFilters:         r.string("", "extra-filter-revs"),
		PostArgs:             r.bool(false, "httppostargs"),
		PushVars:             push.bool(false, "pushvars.server"),
	}
	e.CreateMarkers = c.evolution(r, "createmarkers")
	e.Obsmarkers = e.CreateMarkers && c.evolution(r, "exchange")
	r.faults = append(append(r.faults, phases.faults...), push.faults...)
	return e, r.err()
}

// evolution reads one of the options on obsolescence: its own key, or else the
// general one, which is a switch or a list of options.
func (c *Config) evolution(r *reader, option string) bool {
	if v := r.optional("evolution." + option); v != nil {
		return *v
	}
	general, _ := c.Get("experimental", "evolution")
	if v, ok := ParseBool(general); ok {
		return v
	}
	own, _ := c.Get("experimental", "evolution.createmarkers")
	for _, word := range ParseList(general) {
		if word == "all" || word == option {
			return true
		}
	}
	return option == "createmarkers" && strings.TrimSpace(own) != ""
}
