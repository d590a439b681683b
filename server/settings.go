package server

import (
	"vcsd/config"
	"vcsd/hg"
	"vcsd/hook"
	"vcsd/store"
	"vcsd/wire"
	"vcsd/wire/compression"
)

// settings are the checked values of a repository's configuration. They are
// not changed once made.
type settings struct {
	web      config.Web
	server   config.Server
	exchange config.Exchange
	engines  []compression.Engine // of answers
	hooks    *hook.Runner
	sight    store.Sight // what of a repository is exchanged; see fault
}

func newSettings(conf *config.Config, hooks *hook.Runner) (s *settings, err error) {
	s = &settings{hooks: hooks}
	if s.web, err = conf.Web(); err != nil {
		return nil, err
	}
	if s.server, err = conf.Server(); err != nil {
		return nil, err
	}
	if s.exchange, err = conf.Exchange(); err != nil {
		return nil, err
	}
	s.sight, _ = store.ParseSight(s.server.View)
	if s.exchange.ExtraFilters == notPublic && s.sight != store.Base {
		s.sight = store.Immutable
	}
	s.engines, err = wire.EnginesByName(s.server.CompressionEngines)
	return s, err
}

// notPublic is the only revset of experimental.extra-filter-revs that is
// understood.
const notPublic = "not public()"

// fault refuses what the configuration wants to be restricted in ways that this
// server doesn't know: that must not be passed over.
func (s *settings) fault(perm wire.Permission) error {
	switch {
	case perm == wire.Read:
		return nil
	case s.exchange.ExtraFilters != "" && s.exchange.ExtraFilters != notPublic:
		return hg.Abortf("experimental.extra-filter-revs = %s is not supported", s.exchange.ExtraFilters)
	}
	if _, ok := store.ParseSight(s.server.View); !ok {
		return hg.Abortf("server.view = %s is not supported", s.server.View)
	}
	return s.hookFault(perm)
}

// levels returns the levels to compress with that are set.
func (s *settings) levels() map[compression.Engine]int {
	levels := make(map[compression.Engine]int)
	if s.server.ZlibLevel > 0 {
		levels[compression.Zlib] = s.server.ZlibLevel
	}
	if s.server.ZstdLevel > 0 {
		levels[compression.Zstd] = s.server.ZstdLevel
	}
	return levels
}

// streamAllowed tells whether the store's files may be sent as they are: there
// is no keeping back of secret changesets then.
func (s *settings) streamAllowed(v *store.View) bool {
	return s.server.Uncompressed && (!v.HasSecret() || s.server.UncompressedAllowSecret)
}

// changegroups returns the versions of changegroups that pushes may have.
func (s *settings) changegroups() []string {
	versions := []string{"01", "02"}
	if s.exchange.Changegroup3 {
		versions = append(versions, "03")
	}
	return versions
}

// features returns what clients of a repository are offered.
func (s *settings) features(v *store.View) *wire.Features {
	repo := v.Repo()
	reqs := repo.Requirements()
	stream := s.streamAllowed(v)
	return &wire.Features{
		CloneBundles: repo.HasCloneBundles(),

		// In version 1, which has no place for markers, hidden changesets would
		// come back into sight.
		StreamOut: stream && !v.HasMarkers(), StreamRequirements: reqs.Streamed(), StreamPreferred: s.server.PreferUncompressed,
		Bundle2Stream: stream && s.server.Bundle2Stream,

		HeaderLen: s.server.MaxHTTPHeaderLen,
		PostArgs:  s.exchange.PostArgs,
		Engines:   s.engines,
		Levels:    s.levels(),

		Changegroups: s.changegroups(),
		Obsmarkers:   s.exchange.Obsmarkers,
		CheckRelated: s.server.CheckRelated,
		Bundle1Pull:  s.server.Bundle1("pull", reqs.GeneralDelta),
		Bundle1Push:  s.server.Bundle1("push", reqs.GeneralDelta),
		PullBundles:  s.server.PullBundle,
		NoFullPull:   s.server.DisableFullBundle,
	}
}
