package server

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"vcsd/config"
	"vcsd/hook"
	"vcsd/store"
	"vcsd/wire"
	"vcsd/wire/compression"
)

// repoConf is the configuration of one repository. It is read again when the
// repository's own hgrc changes.
type repoConf struct {
	loader *config.Loader
	base   *config.Config
	dir    string       // the repository's .hg
	shared string       // the .hg that it shares its store with; may be empty
	hooks  hook.Options // how its hooks are run
	log    *slog.Logger // hears of hooks that can't be run; may be nil

	mu      sync.Mutex
	print   []config.Info // of the files read; guarded by mu
	current *settings     // guarded by mu
}

// settings are the checked values of a repository's configuration. They are
// not changed once made.
type settings struct {
	web      config.Web
	server   config.Server
	exchange config.Exchange
	engines  []compression.Engine // of answers
	hooks    *hook.Runner
}

// repoConf reads the configuration of the repository whose .hg is dir.
func (g *registry) repoConf(dir, shared string, log *slog.Logger) (*repoConf, error) {
	c := &repoConf{loader: g.loader, base: g.conf, dir: dir, shared: shared, hooks: g.hooks, log: log}
	_, err := c.get()
	return c, err
}

// get returns the settings as the files are now.
func (c *repoConf) get() (*settings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.fingerprint()
	if c.current != nil && slices.Equal(now, c.print) {
		return c.current, nil
	}
	conf, err := c.loader.Repository(c.base, c.dir, c.shared)
	if err != nil {
		return nil, err
	}
	s, err := newSettings(conf, newHooks(conf, filepath.Dir(c.dir), c.hooks))
	if err != nil {
		return nil, err
	}
	if c.log != nil {
		logFaults(c.log, s.hooks)
	}
	c.current, c.print = s, now
	return s, nil
}

// fingerprint tells whether the repository's own files changed. A file that
// is missing has the zero Info.
func (c *repoConf) fingerprint() []config.Info {
	var prints []config.Info
	for _, name := range []string{"hgrc", "hgrc-not-shared"} {
		info, _ := c.loader.FS.Stat(filepath.Join(c.dir, name))
		prints = append(prints, info)
	}
	return prints
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
	s.engines, err = wire.EnginesByName(s.server.CompressionEngines)
	return s, err
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

// streamAllowed tells whether the store's files may be sent as they are. They
// hold hidden changesets too, and a client could not tell without the markers.
func (s *settings) streamAllowed(v *store.View) bool {
	return s.server.Uncompressed && !v.HasMarkers() && (v.AllVisible() || s.server.UncompressedAllowSecret)
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

		StreamOut: stream, StreamRequirements: reqs.Streamed(), StreamPreferred: s.server.PreferUncompressed,
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
		NoFullPull:   s.server.DisableFullBundle,
	}
}
