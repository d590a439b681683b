package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
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
	configs  *configs
	catalog  *catalog
	prefix   string // of all paths, "/x" or empty
	server   string // web.server-header; may be empty
	ids      *identities
	log      *slog.Logger
}

// routes returns the handler's router. Which repository is meant is known when
// the catalog was asked; methods that nobody knows are wire's to answer.
func (h *handler) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(h.recovered, h.signed)
	r.HandleFunc("/*", h.serve)
	r.MethodNotAllowed(h.serve)
	r.NotFound(h.serve)
	return r
}

// signed names the server in all answers, if it has a name.
func (h *handler) signed(next http.Handler) http.Handler {
	if h.server == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", h.server)
		next.ServeHTTP(w, r)
	})
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
	p, found := h.catalog.find(path)
	switch {
	case found && isCommand && p.rest == "":
		h.command(w, r, p)
	case found && name != "" && p.rest == "":
		h.logError(r, wire.WriteStatus(w, r, &wire.StatusError{Code: http.StatusBadRequest, Reason: "method not found"}))
	case found && p.rest == "":
		h.repositoryPage(w, r, p)
	case name == "" && (!found || h.catalog.fixed == "" && isIndex(path)):
		h.listing(w, r, path)
	default:
		h.notFound(w, r)
	}
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

func (h *handler) notFound(w http.ResponseWriter, r *http.Request) {
	var err error
	if r.URL.Query().Has("cmd") {
		err = wire.WriteNotFound(w, r)
	} else {
		http.NotFound(w, r)
	}
	h.logError(r, err)
}

// command answers a command of the wire protocol. The repository is opened
// only for who may do what is asked for.
func (h *handler) command(w http.ResponseWriter, r *http.Request, p place) {
	name, _ := wire.Command(r)
	h.registry.counters.requests.WithLabelValues(name).Inc()
	c, err := h.caller(r, p)
	if errors.Is(err, fs.ErrNotExist) {
		h.notFound(w, r)
		return
	}
	e := &wire.Endpoint{Peer: peer(r, ""), Features: &wire.Features{}}
	release := func() {}
	defer func() { release() }()
	if err != nil {
		e.Allow = func(wire.Permission) error { return err }
	} else {
		e.Peer.User, e.Allow = c.id.User, c.allow
		e.Open = func(ctx context.Context) (err error) {
			release, err = h.open(ctx, e, c, p.dir)
			return err
		}
	}
	h.logError(r, guarded(func() error { return e.Serve(w, r) }))
}

// open makes an endpoint answer for the repository in dir until release is
// called.
func (h *handler) open(ctx context.Context, e *wire.Endpoint, c *caller, dir string) (release func(), err error) {
	repo, release, err := h.registry.use(ctx, dir)
	if err != nil {
		return func() {}, err
	}
	v, err := repo.repo.View(ctx)
	if err != nil {
		return release, err
	}
	defer v.Close()
	e.Repo, e.Pusher, e.Features = repo, repo, c.settings.features(v)
	return release, nil
}

// A caller is who sent a request to a repository.
type caller struct {
	id       auth.Identity
	settings *settings
	allow    func(wire.Permission) error
}

// caller finds out who sent a request and what a repository lets them do,
// without opening it.
func (h *handler) caller(r *http.Request, p place) (*caller, error) {
	s, err := h.configs.repository(p.dir)
	if err != nil {
		return nil, err
	}
	id, err := h.identify(r)
	if err != nil {
		return nil, err
	}
	return &caller{id, s, func(perm wire.Permission) error {
		if err := h.authorize(&s.web, id, r, p.prefix, perm); err != nil {
			return err
		}
		return s.fault(perm)
	}}, nil
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
