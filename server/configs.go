package server

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"vcsd/config"
	"vcsd/hook"
	"vcsd/internal/vfs"
)

// configs hold the configuration of the server and of its repositories. It is
// read again when a file that it depends on changed, appeared or went. One that
// is broken then is as good as not changed: the last good one stands.
type configs struct {
	loader *config.Loader
	log    *slog.Logger
	// load reads and checks the configuration of the server as a whole.
	load func() (*config.Config, error)
	// hooks tells how those of repositories are run. Constant after the start.
	hooks hook.Options

	mu    sync.Mutex
	base  *config.Config                    // guarded by mu
	fault string                            // of the last load; guarded by mu
	repos *simplelru.LRU[string, *repoConf] // by directory; guarded by mu
}

// maxRepoConfs bounds the repositories whose configuration is remembered.
const maxRepoConfs = 16384

// newConfigs starts with base, which load has returned.
func newConfigs(loader *config.Loader, base *config.Config, load func() (*config.Config, error), log *slog.Logger) *configs {
	repos, err := simplelru.NewLRU[string, *repoConf](maxRepoConfs, nil)
	if err != nil {
		panic(err) // the number above is wrong
	}
	c := &configs{loader: loader, load: load, log: log, base: base, repos: repos}
	c.warn(base.Warnings(), nil)
	return c
}

// server returns the configuration of the server as a whole.
func (c *configs) server() *config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.base.Stale() {
		return c.base
	}
	next, err := c.load()
	if err != nil {
		c.fault = c.keep(c.fault, "", err)
		return c.base
	}
	c.warn(next.Warnings(), c.base.Warnings())
	c.log.Info("configuration read again")
	c.base, c.fault = next, ""
	return next
}

// keep logs once why what was read last stands.
func (c *configs) keep(before, repo string, err error) (fault string) {
	fault = err.Error()
	if fault != before {
		c.log.Error("configuration is broken, the last good one stands", "repo", repo, "error", err)
	}
	return fault
}

// warn logs the warnings that are new.
func (c *configs) warn(now, before []string) {
	for _, w := range now {
		if !slices.Contains(before, w) {
			c.log.Warn("configuration", "warning", w)
		}
	}
}

// repository returns the settings of the repository in dir as its files are
// now. What is no repository is fs.ErrNotExist.
func (c *configs) repository(dir string) (*settings, error) {
	info, err := vfs.NewOS(dir).Stat(".hg")
	if err != nil {
		return nil, err
	}
	base := c.server()
	r, err := c.repoConf(dir, info)
	if err != nil {
		return nil, err
	}
	return r.get(base)
}

// repoConf returns what is remembered of a repository, or a new one: also where
// the directory was replaced.
func (c *configs) repoConf(dir string, info vfs.Info) (*repoConf, error) {
	c.mu.Lock()
	r, ok := c.repos.Get(dir)
	c.mu.Unlock()
	if ok && r.ino == info.Ino && r.dev == info.Dev {
		return r, nil
	}
	_, shared, err := storeOf(filepath.Join(dir, ".hg"))
	if err != nil {
		return nil, err
	}
	r = &repoConf{configs: c, dir: dir, shared: shared, ino: info.Ino, dev: info.Dev}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.repos.Add(dir, r)
	return r, nil
}

// A repoConf is the configuration of one repository.
type repoConf struct {
	configs  *configs
	dir      string
	shared   string // the .hg that it shares its hgrc with; may be empty
	ino, dev uint64 // of .hg

	mu      sync.Mutex
	base    *config.Config // that conf was derived from; guarded by mu
	conf    *config.Config // guarded by mu
	current *settings      // of conf; nil before the first; guarded by mu
	fault   string         // of the last attempt to read it; guarded by mu
}

// get returns the settings on top of base.
func (r *repoConf) get(base *config.Config) (*settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.base == base && !r.conf.Stale() {
		return r.current, nil
	}
	conf, err := r.configs.loader.Repository(base, filepath.Join(r.dir, ".hg"), r.shared)
	var s *settings
	if err == nil {
		s, err = newSettings(conf, newHooks(conf, r.dir, r.configs.hooks))
	}
	switch {
	case err == nil:
		before := base.Warnings()
		if r.conf != nil {
			before = append(before, r.conf.Warnings()...)
		}
		r.configs.warn(conf.Warnings(), before)
		logFaults(r.configs.log.With("repo", r.dir), s.hooks)
		r.base, r.conf, r.current, r.fault = base, conf, s, ""
		return s, nil
	case r.current != nil:
		r.fault = r.configs.keep(r.fault, r.dir, err)
		return r.current, nil
	}
	return nil, err
}
