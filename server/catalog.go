package server

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vcsd/config"
)

// A catalog knows which repositories are served, and where.
type catalog struct {
	configs *configs
	log     *slog.Logger

	// root serves every repository below a directory, also those that come
	// later; empty if a configuration names them.
	root string
	// fixed is the one repository that is served; empty if there are more.
	fixed string

	mu    sync.Mutex
	paths []config.Path     // in the order of listings; guarded by mu
	names map[string]string // name to directory; guarded by mu
	conf  *config.Config    // that they were found by; nil before; guarded by mu
	at    time.Time         // when they were found; guarded by mu
	fault string            // what was wrong then; guarded by mu
}

// A place is a repository found for a URL path.
type place struct {
	dir    string // of its working copy
	prefix string // the part of the URL path that names it, without slashes at its ends
	rest   string // the part behind it
}

// maxURLPath is the longest URL path that may name a repository, in bytes.
const maxURLPath = 4096

// find returns the repository that a URL path names.
func (c *catalog) find(urlPath string) (p place, ok bool) {
	urlPath = strings.Trim(urlPath, "/")
	if len(urlPath) > maxURLPath || strings.Contains(urlPath, "//") {
		return place{}, false
	}
	if c.root != "" {
		p, ok = c.below(urlPath)
	} else {
		p, ok = c.named(urlPath)
	}
	if !ok {
		return place{}, false
	}
	// A repository with two names must not be opened twice.
	if dir, err := filepath.EvalSymlinks(p.dir); err == nil {
		p.dir = dir
	}
	if !isRepository(p.dir) {
		return place{}, false
	}
	return p, true
}

// named finds a repository by the longest name that the path begins with.
func (c *catalog) named(urlPath string) (place, bool) {
	names := c.current().names
	for name := urlPath; ; {
		if dir, ok := names[name]; ok {
			return place{dir: dir, prefix: name, rest: strings.Trim(urlPath[len(name):], "/")}, true
		}
		if name == "" {
			return place{}, false
		}
		name = name[:max(0, strings.LastIndexByte(name, '/'))]
	}
}

// below finds the innermost repository on the way from the root. Components
// that are ".hg" or lead elsewhere name nothing, so no file outside the root and
// none inside a .hg is ever looked at.
func (c *catalog) below(urlPath string) (found place, ok bool) {
	if !safePath(urlPath) {
		return place{}, false
	}
	for walked := 0; ; {
		dir := filepath.Join(c.root, filepath.FromSlash(urlPath[:walked]))
		if isRepository(dir) {
			found, ok = place{dir: dir, prefix: urlPath[:walked], rest: strings.Trim(urlPath[walked:], "/")}, true
		}
		if walked == len(urlPath) || !isDir(dir) {
			return found, ok
		}
		next := strings.TrimPrefix(urlPath[walked:], "/")
		name, _, _ := strings.Cut(next, "/")
		walked = len(urlPath) - len(next) + len(name)
	}
}

func safePath(p string) bool {
	if p == "" {
		return true
	}
	for c := range strings.SplitSeq(p, "/") {
		if c == "" || c == "." || c == ".." || strings.ContainsAny(c, "\x00\\") || strings.EqualFold(c, ".hg") {
			return false
		}
	}
	return true
}

// list returns the repositories in the order in which hgweb lists them.
func (c *catalog) list() []config.Path { return c.current().paths }

// found is what a catalog found. It is not changed.
type found struct {
	paths []config.Path
	names map[string]string
}

// current looks for repositories unless that was done lately, with the same
// configuration.
func (c *catalog) current() found {
	conf := c.configs.server()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conf != conf || !c.fresh(conf) {
		c.lookLocked(conf)
	}
	return found{c.paths, c.names}
}

// fresh tells whether what was found is still good (web.refreshinterval).
func (c *catalog) fresh(conf *config.Config) bool {
	web, err := conf.Web()
	return err == nil && web.RefreshInterval > 0 && time.Since(c.at) < web.RefreshInterval
}

func (c *catalog) lookLocked(conf *config.Config) {
	paths, err := c.look(conf)
	fault := ""
	if err != nil {
		if fault = err.Error(); fault != c.fault {
			c.log.Warn("not all repositories found", "error", err)
		}
	}
	c.paths, c.conf, c.at, c.fault = paths, conf, time.Now(), fault
	c.names = make(map[string]string, len(paths))
	for _, p := range paths {
		c.names[p.Name] = p.Dir
	}
}

func (c *catalog) look(conf *config.Config) ([]config.Path, error) {
	switch {
	case c.fixed != "":
		return []config.Path{{Name: "", Dir: c.fixed}}, nil
	case c.root != "":
		paths, err := c.configs.loader.Below(c.root)
		return slices.DeleteFunc(paths, func(p config.Path) bool { return !safePath(p.Name) }), err
	}
	return c.configs.loader.Paths(conf)
}
