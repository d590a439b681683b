package server

import (
	"cmp"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"vcsd/config"
)

// A mount puts repositories of a directory below a path of the URL space.
type mount struct {
	prefix string // slash-separated, without slashes at its ends
	dir    string // absolute
	depth  depth
}

// depth tells which directories of a mount are served.
type depth int

const (
	single depth = iota // dir is the repository
	outer               // all repositories below dir, but none inside another ("/*")
	nested              // all repositories below dir ("/**")
)

// mounts are tried in order: longest prefix first, as in hgweb.
type mounts []mount

func newMounts(ms []mount) mounts {
	slices.SortStableFunc(ms, func(a, b mount) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return ms
}

// mountsOf reads [paths] and [collections] of a --web-conf file. Relative
// directories start at base.
func mountsOf(conf *config.Config, base string) mounts {
	var ms []mount
	for _, it := range conf.Items("paths") {
		m := mount{prefix: strings.Trim(it.Key, "/"), depth: single}
		dir, last := filepath.Split(it.Value)
		switch last {
		case "*":
			m.depth = outer
		case "**":
			m.depth = nested
		default:
			dir = it.Value
		}
		m.dir = absolute(base, dir)
		ms = append(ms, m)
	}
	for _, it := range conf.Items("collections") {
		dir := absolute(base, it.Value)
		rest := strings.TrimPrefix(filepath.ToSlash(dir), filepath.ToSlash(filepath.Clean(it.Key)))
		ms = append(ms, mount{prefix: strings.Trim(rest, "/"), dir: dir, depth: outer})
	}
	return newMounts(ms)
}

func absolute(base, dir string) string {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(base, dir)
}

// A place is a repository found for a URL path.
type place struct {
	dir    string // of its working copy
	prefix string // the part of the URL path that names it, without slashes at its ends
	rest   string // the part behind it
}

// maxURLPath is the longest URL path that may name a repository, in bytes.
const maxURLPath = 4096

// find returns the repository that a URL path names. Components that are ".hg"
// or lead elsewhere name nothing, so no file outside the mounts and
// none inside a .hg is ever looked at.
func (ms mounts) find(urlPath string) (place, bool) {
	urlPath = strings.Trim(urlPath, "/")
	if len(urlPath) > maxURLPath || !safePath(urlPath) {
		return place{}, false
	}
	for _, m := range ms {
		rest, ok := below(m.prefix, urlPath)
		if !ok {
			continue
		}
		if p, ok := m.find(rest); ok {
			p.prefix = path.Join(m.prefix, p.prefix)
			// A repository with two names must not be opened twice.
			if dir, err := filepath.EvalSymlinks(p.dir); err == nil {
				p.dir = dir
			}
			return p, true
		}
	}
	return place{}, false
}

// below returns what of urlPath is behind prefix.
func below(prefix, urlPath string) (rest string, ok bool) {
	if prefix == "" {
		return urlPath, true
	}
	rest, ok = strings.CutPrefix(urlPath, prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
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

func (m mount) find(rest string) (place, bool) {
	if m.depth == single {
		return place{dir: m.dir, rest: rest}, isRepository(m.dir)
	}
	var found place
	ok := false
	dir, walked := m.dir, 0
	for {
		if isRepository(dir) {
			found, ok = place{dir: dir, prefix: strings.Trim(rest[:walked], "/"), rest: strings.Trim(rest[walked:], "/")}, true
			if m.depth == outer {
				return found, true
			}
		}
		if walked >= len(rest) {
			return found, ok
		}
		next := strings.TrimPrefix(rest[walked:], "/")
		name, _, _ := strings.Cut(next, "/")
		dir = filepath.Join(dir, name)
		walked = len(rest) - len(next) + len(name)
		if !isDir(dir) {
			return found, ok
		}
	}
}

func isRepository(dir string) bool { return isDir(filepath.Join(dir, ".hg")) }

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// maxListed bounds how many repositories a listing names.
const maxListed = 1000

// list returns the URL paths of the repositories, sorted; more tells that
// there are others.
func (ms mounts) list() (paths []string, more bool) {
	seen := make(map[string]bool)
	for _, m := range ms {
		if m.walk("", 0, func(rel string) bool {
			seen[path.Join(m.prefix, rel)] = true
			return len(seen) < maxListed
		}) {
			continue
		}
		more = true
		break
	}
	for p := range seen {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths, more
}

// maxWalkDepth bounds how deep a listing looks for repositories.
const maxWalkDepth = 8

// walk calls yield for each repository until it returns false.
func (m mount) walk(rel string, level int, yield func(rel string) bool) bool {
	dir := filepath.Join(m.dir, filepath.FromSlash(rel))
	isRepo := isRepository(dir)
	if isRepo && !yield(rel) {
		return false
	}
	if m.depth == single || isRepo && m.depth == outer || level == maxWalkDepth {
		return true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true // what can't be read is not listed
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if !m.walk(path.Join(rel, e.Name()), level+1, yield) {
			return false
		}
	}
	return true
}
