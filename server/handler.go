package server

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"vcsd/auth"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/wire"
)

// A handler answers HTTP requests for all repositories of a process.
type handler struct {
	registry *registry
	mounts   mounts
	prefix   string // of all paths, "/x" or empty
	ids      *identities
	log      *slog.Logger
}

// routes returns the handler's router.
func (h *handler) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(h.recovered)
	r.Handle("/*", http.HandlerFunc(h.serve))
	return r
}

// recovered answers for a panic, which is a fault of our own: it must not
// take the other requests along.
func (h *handler) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			h.log.ErrorContext(r.Context(), "panic", "url", r.URL.Path, "value", v, "stack", stack())
			// Some of an answer may be out: cut, it can't be taken for a whole one.
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := below(strings.Trim(h.prefix, "/"), strings.Trim(r.URL.Path, "/"))
	if !ok {
		h.notFound(w, r)
		return
	}
	name, isCommand := wire.Command(r)
	p, found := h.mounts.find(path)
	switch {
	case found && isCommand && p.rest == "":
		h.command(w, r, p)
	case found && name != "" && p.rest == "":
		h.logError(r, wire.WriteStatus(w, r, &wire.StatusError{Code: http.StatusBadRequest, Reason: "method not found"}))
	case found && p.rest == "":
		h.repositoryPage(w, r, p)
	case path == "" && name == "":
		h.listing(w, r)
	default:
		h.notFound(w, r)
	}
}

func (h *handler) notFound(w http.ResponseWriter, r *http.Request) {
	var err error
	if r.URL.Query().Has("cmd") {
		err = wire.WriteNotFound(w, r)
	} else {
		http.NotFound(w, r)
	}
	h.logError(r, err)
}

// command answers a command of the wire protocol.
func (h *handler) command(w http.ResponseWriter, r *http.Request, p place) {
	name, _ := wire.Command(r)
	h.registry.counters.requests.WithLabelValues(name).Inc()
	repo, err := h.registry.get(r.Context(), p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		h.notFound(w, r)
		return
	}
	e := &wire.Endpoint{Features: &wire.Features{}}
	if err == nil {
		e, err = h.endpoint(repo, p.prefix, r)
	}
	if err != nil {
		e.Allow = func(wire.Permission) error { return err }
	}
	h.logError(r, guarded(func() error { return e.Serve(w, r) }))
}

// guarded runs f, which reads mapped files. One that somebody truncated, as a
// local hg strip does, ends the request and not the process.
func guarded(f func() error) error {
	var err error
	if fault := vfs.Guard(func() { err = f() }); fault != nil {
		panic(fault) // recovered cuts the connection
	}
	return err
}

// endpoint returns what answers a request to the repository at a path.
func (h *handler) endpoint(repo *repository, path string, r *http.Request) (*wire.Endpoint, error) {
	s, err := repo.conf.get()
	e := &wire.Endpoint{Repo: repo, Pusher: repo, Features: &wire.Features{}}
	if err != nil {
		return e, err
	}
	id, err := h.identify(r)
	if err != nil {
		return e, err
	}
	e.Peer = peer(r, id.User)
	v, err := repo.repo.View(r.Context())
	if err != nil {
		return e, err
	}
	e.Features = s.features(v)
	v.Close()
	e.Allow = func(perm wire.Permission) error {
		if err := h.authorize(&s.web, id, r, path, perm); err != nil {
			return err
		}
		return s.hookFault(perm)
	}
	return e, nil
}

// logError logs what went wrong on our side.
func (h *handler) logError(r *http.Request, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	var status *wire.StatusError
	if errors.As(err, &status) {
		return
	}
	if _, _, known := wire.Explain(err); !known || errors.Is(err, hg.ErrUnavailable) {
		h.log.ErrorContext(r.Context(), "request failed", "url", r.URL.Path, "command", r.URL.Query().Get("cmd"), "error", err)
	}
}

// repositoryPage answers a person, or a program that asks whether there is
// something at the address.
func (h *handler) repositoryPage(w http.ResponseWriter, r *http.Request, p place) {
	if err := h.mayRead(r, p); err != nil {
		h.refusePage(w, r, err)
		return
	}
	address := "http://" + r.Host + h.prefix + "/" + p.prefix
	page(w, p.prefix, fmt.Sprintf("<p>A Mercurial repository. To get it:</p>\n<pre>hg clone %s</pre>\n", html.EscapeString(address)))
}

// mayRead tells whether a request's sender may know of a repository.
func (h *handler) mayRead(r *http.Request, p place) error {
	s, err := h.settingsOf(p.dir)
	if err != nil {
		return err
	}
	id, err := h.identify(r)
	if err != nil {
		return err
	}
	return h.authorize(&s.web, id, r, p.prefix, wire.Read)
}

// listed tells whether the sender of a request is shown a repository.
func (h *handler) listed(r *http.Request, id auth.Identity, p place) bool {
	s, err := h.settingsOf(p.dir)
	return err == nil && !s.web.Hidden && h.authorize(&s.web, id, r, p.prefix, wire.Read) == nil
}

// settingsOf reads the configuration of a repository without opening it.
func (h *handler) settingsOf(dir string) (*settings, error) {
	dir = filepath.Join(dir, ".hg")
	_, shared, err := storeOf(dir)
	if err != nil {
		return nil, err
	}
	conf, err := h.registry.repoConf(dir, shared, nil)
	if err != nil {
		return nil, err
	}
	return conf.get()
}

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

// listing names the repositories that the request's sender may read.
func (h *handler) listing(w http.ResponseWriter, r *http.Request) {
	id, err := h.identify(r)
	if err != nil {
		h.refusePage(w, r, err)
		return
	}
	paths, more := h.mounts.list()
	paths = slices.DeleteFunc(paths, func(path string) bool {
		p, ok := h.mounts.find(path)
		return !ok || !h.listed(r, id, p)
	})
	var b strings.Builder
	b.WriteString("<ul>\n")
	for _, p := range paths {
		name := html.EscapeString(p)
		fmt.Fprintf(&b, "<li><a href=\"%s/%s\">%s</a></li>\n", html.EscapeString(h.prefix), name, name)
	}
	b.WriteString("</ul>\n")
	if more {
		b.WriteString("<p>There are more.</p>\n")
	}
	page(w, "Mercurial repositories", b.String())
}

func page(w http.ResponseWriter, title, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// An error means that nobody is there to read the page.
	_, _ = io.WriteString(w, "<!doctype html>\n<title>"+html.EscapeString(title)+"</title>\n"+body)
}
