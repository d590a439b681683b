package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/config"
)

func testIdentities(t *testing.T) *identities {
	t.Helper()
	ids, err := newIdentities(config.Vcsd{Realm: "Mercurial"})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestPages asks for what isn't a command.
func TestPages(t *testing.T) {
	dirs := initRepos(t, 3)
	write(t, filepath.Join(dirs[0], ".hg/hgrc"), "[web]\ndescription = first & <best>\nname = The First\n")
	write(t, filepath.Join(dirs[1], ".hg/hgrc"), "[web]\nallow_read = ann\n")
	write(t, filepath.Join(dirs[2], ".hg/hgrc"), "[web]\nhidden = yes\n")
	root := filepath.Dir(dirs[0])
	for _, tt := range []struct {
		name, method, target string
		settings             string // of [web]
		code                 int
		want                 string // in the answer
		not                  string // not in the answer
	}{
		{"listing", "GET", "/", "", 200, `<a href="/r0/">The First</a> first &amp; &lt;best&gt;`, "r1"},
		{"raw listing", "GET", "/?style=raw", "", 200, "\n/r0/\n", "r1"},
		{"hidden", "GET", "/?style=raw", "", 200, "", "r2"},
		{"head", "HEAD", "/", "", 200, "", "listing"},
		{"options", "OPTIONS", "/", "", 405, "", ""},
		{"made up method", "BREW", "/r0", "", 405, "", ""},
		{"repository", "GET", "/r0", "", 200, "hg clone http://example.com/r0<", ""},
		{"repository, slash", "GET", "/r0/", "", 200, "<title>The First</title>", ""},
		{"repository, head", "HEAD", "/r0", "", 200, "", ""},
		{"repository, options", "OPTIONS", "/r0", "", 405, "", ""},
		{"not to be read", "GET", "/r1", "", 401, "read not authorized", "clone"},
		{"hidden repository", "GET", "/r2", "", 200, "hg clone http://example.com/r2<", ""},
		{"base address", "GET", "/r0", "baseurl=https://hg.example.org/scm/", 200, "hg clone https://hg.example.org/scm/r0<", ""},
		{"base address in the listing", "GET", "/?style=raw", "baseurl=https://hg.example.org/scm/", 200, "\n/scm/r0/\n", ""},
		{"nothing there", "GET", "/nosuch", "", 404, "", ""},
		{"nothing behind", "GET", "/r0/x", "", 404, "", ""},
		{"index", "GET", "/index", "", 200, "The First", ""},
		{"policy", "GET", "/", "csp=default-src 'none'", 200, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var items []config.Item
			if key, value, ok := strings.Cut(tt.settings, "="); ok {
				items = []config.Item{{Section: "web", Key: key, Value: value}}
			}
			configs := testConfigs(t, items...)
			h := &handler{
				registry: testRegistry(t, 1, time.Hour), configs: configs, ids: testIdentities(t), log: slog.New(slog.DiscardHandler),
				catalog: &catalog{configs: configs, log: slog.New(slog.DiscardHandler), root: root},
			}
			w := httptest.NewRecorder()
			h.routes().ServeHTTP(w, httptest.NewRequest(tt.method, tt.target, nil))
			body := w.Body.String()
			if w.Code != tt.code || !strings.Contains(body, tt.want) || tt.not != "" && strings.Contains(body, tt.not) {
				t.Errorf("%s %s: %d %q, want %d and %q but not %q", tt.method, tt.target, w.Code, body, tt.code, tt.want, tt.not)
			}
			if got := w.Header().Get("Content-Security-Policy"); (got != "") != strings.HasPrefix(tt.settings, "csp=") {
				t.Errorf("policy %q", got)
			}
			if w.Code == http.StatusMethodNotAllowed && w.Header().Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if n := h.registry.count(); n > 0 {
				t.Errorf("%d repositories were opened for a page", n)
			}
		})
	}
}

// A command opens a repository for those only who may do what it does.
func TestRefusedCommandOpensNothing(t *testing.T) {
	dirs := initRepos(t, 1)
	configs := testConfigs(t, config.Item{Section: "web", Key: "deny_read", Value: "*"}, config.Item{Section: "web", Key: "allow-push", Value: "ann"})
	h := &handler{
		registry: testRegistry(t, 1, time.Hour), configs: configs, ids: testIdentities(t), log: slog.New(slog.DiscardHandler),
		catalog: &catalog{configs: configs, log: slog.New(slog.DiscardHandler), root: filepath.Dir(dirs[0])},
	}
	for _, cmd := range []string{"capabilities", "heads", "batch&cmds=heads+", "unbundle&heads=666f726365", "getbundle"} {
		w := httptest.NewRecorder()
		body := &countedBody{}
		h.routes().ServeHTTP(w, httptest.NewRequest("POST", "/r0?cmd="+cmd, body))
		if w.Code != http.StatusUnauthorized || h.registry.count() > 0 || body.n > 0 {
			t.Errorf("%s: %d, %d repositories open, %d bytes read, want 401 and none", cmd, w.Code, h.registry.count(), body.n)
		}
	}
}

// A countedBody has no end.
type countedBody struct{ n int }

func (b *countedBody) Read(p []byte) (int, error) {
	b.n += len(p)
	return len(p), nil
}
