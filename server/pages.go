package server

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"vcsd/auth"
	"vcsd/config"
	"vcsd/wire"
)

// The pages are for people, and for programs that ask what is there. The
// listing in the style "raw" is hgweb's: a path a line, as it is.

// repositoryPage tells what is at the address of a repository.
func (h *handler) repositoryPage(w http.ResponseWriter, r *http.Request, p place) {
	c, err := h.caller(r, p)
	if err == nil {
		err = h.authorize(&c.settings.web, c.id, r, p.prefix, wire.Read)
	}
	if err != nil {
		h.refusePage(w, r, err)
		return
	}
	web := &c.settings.web
	name := web.Name
	if name == "" {
		name = p.prefix
	}
	var b strings.Builder
	if web.Description != "" {
		fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(web.Description))
	}
	address := strings.TrimSuffix(h.origin(r)+escaped(h.link(p.prefix)), "/")
	fmt.Fprintf(&b, "<p>A Mercurial repository. To get it:</p>\n<pre>hg clone %s</pre>\n", html.EscapeString(address))
	h.page(w, r, name, b.String())
}

// origin returns where clients find this server: what web.baseurl says, or what
// the request's sender has found.
func (h *handler) origin(r *http.Request) string {
	if web, err := h.configs.server().Web(); err == nil && web.BaseURL != "" {
		if u, err := url.Parse(web.BaseURL); err == nil && u.Host != "" {
			return u.Scheme + "://" + u.Host
		}
	}
	host := r.Host
	if forwarded := r.Header.Get("X-Forwarded-Host"); forwarded != "" && clientOf(r).Proxied {
		host = forwarded
	}
	return peer(r, "").Scheme + "://" + host
}

// link returns the path of a repository or a directory of them.
func (h *handler) link(name string) string {
	prefix := h.prefix
	if web, err := h.configs.server().Web(); err == nil && web.BaseURL != "" {
		if u, err := url.Parse(web.BaseURL); err == nil {
			prefix = strings.TrimSuffix(u.Path, "/")
		}
	}
	return strings.TrimSuffix(prefix+"/"+name, "/") + "/"
}

func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

func (h *handler) refusePage(w http.ResponseWriter, r *http.Request, err error) {
	var status *wire.StatusError
	if !errors.As(err, &status) {
		h.logError(r, err)
		h.notFound(w, r)
		return
	}
	maps.Copy(w.Header(), status.Header)
	wire.SetReason(r, status.Code, status.Reason)
	http.Error(w, status.Reason, status.Code)
}

// isIndex tells whether a path asks for a listing even where there is a
// repository.
func isIndex(path string) bool { return path == "index" || strings.HasSuffix(path, "/index") }

// listing names the repositories in and below a directory of the URL space that
// the request's sender may read.
func (h *handler) listing(w http.ResponseWriter, r *http.Request, path string) {
	dir, _ := strings.CutSuffix("/"+path, "/index")
	dir = strings.Trim(dir, "/")
	if dir != "" {
		dir += "/"
	}
	paths := h.catalog.list()
	if dir != "" && !hasDirectory(paths, dir) {
		h.notFound(w, r)
		return
	}
	id, err := h.identify(r)
	if err != nil {
		h.refusePage(w, r, err)
		return
	}
	web, err := h.configs.server().Web()
	if err != nil {
		h.refusePage(w, r, err)
		return
	}
	l := &lister{dir: dir, descend: web.Descend, collapse: web.Collapse, shown: func(p config.Path) *settings { return h.shown(r, id, p) }}
	if r.URL.Query().Get("style") == "raw" {
		h.rawListing(w, r, l.rows(paths))
		return
	}
	var b strings.Builder
	b.WriteString("<ul>\n")
	for _, row := range l.rows(paths) {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a>", html.EscapeString(escaped(h.link(row.path))), html.EscapeString(row.name))
		if row.description != "" {
			fmt.Fprintf(&b, " %s", html.EscapeString(row.description))
		}
		b.WriteString("</li>\n")
	}
	b.WriteString("</ul>\n")
	h.page(w, r, "Mercurial repositories", b.String())
}

func hasDirectory(paths []config.Path, dir string) bool {
	for _, p := range paths {
		if strings.HasPrefix(p.Name, dir) {
			return true
		}
	}
	return false
}

// shown returns the settings of a repository if the sender of a request is to
// see it in a listing.
func (h *handler) shown(r *http.Request, id auth.Identity, p config.Path) *settings {
	s, err := h.configs.repository(p.Dir)
	if err != nil || s.web.Hidden || h.authorize(&s.web, id, r, p.Name, wire.Read) != nil {
		return nil
	}
	return s
}

// A row of a listing is a repository, or a directory that stands for those
// below it.
type row struct {
	path        string // below the prefix
	name        string // to show
	description string
}

// A lister makes the rows of one listing.
type lister struct {
	dir               string // what is listed: empty, or with a slash at its end
	descend, collapse bool   // web.descend, web.collapse
	shown             func(config.Path) *settings
}

func (l *lister) rows(paths []config.Path) []row {
	var rows []row
	repos, dirs := make(map[string]bool), make(map[string]bool)
	for _, p := range paths {
		name, ok := strings.CutPrefix(p.Name, l.dir)
		if !ok {
			continue
		}
		top, _, nested := strings.Cut(name, "/")
		switch {
		case nested && !l.descend, nested && l.collapse && dirs[top]:
			continue
		case nested && l.collapse && !repos[top]:
			p, name = config.Path{Name: l.dir + top, Dir: collapsed(p.Dir, name)}, top
			if !isRepository(p.Dir) {
				dirs[top] = true
				rows = append(rows, row{path: p.Name, name: top + "/"})
				continue
			}
		}
		s := l.shown(p)
		if s == nil {
			continue
		}
		repos[name] = true
		show := s.web.Name
		if show == "" {
			show = name
		}
		rows = append(rows, row{path: p.Name, name: show, description: s.web.Description})
	}
	return rows
}

// collapsed returns the directory that the first part of a name stands for, of
// the directory that all of it stands for.
func collapsed(dir, name string) string {
	for range strings.Count(name, "/") {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (h *handler) rawListing(w http.ResponseWriter, r *http.Request, rows []row) {
	var b strings.Builder
	b.WriteString("\n")
	for _, row := range rows {
		b.WriteString(h.link(row.path) + "\n")
	}
	b.WriteString("\n")
	h.answer(w, r, "text/plain; charset=utf-8", b.String())
}

func (h *handler) page(w http.ResponseWriter, r *http.Request, title, body string) {
	h.answer(w, r, "text/html; charset=utf-8", "<!doctype html>\n<title>"+html.EscapeString(title)+"</title>\n<h1>"+html.EscapeString(title)+"</h1>\n"+body)
}

// answer sends a page, to those who ask for one.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, mediaType, body string) {
	if web, err := h.configs.server().Web(); err == nil && web.CSP != "" {
		w.Header().Set("Content-Security-Policy", web.CSP)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
		h.logError(r, wire.WritePage(w, r, mediaType, body))
	default:
		h.logError(r, wire.WriteStatus(w, r, wire.MethodNotAllowed()))
	}
}

func isRepository(dir string) bool { return isDir(filepath.Join(dir, ".hg")) }

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
