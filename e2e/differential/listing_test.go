package differential

import (
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// TestListings compares what is listed, in the style for programs, and where
// pages are. vcsd finds repositories by --root and by a file.
func TestListings(t *testing.T) {
	t.Parallel()
	root := tree(t)
	h := hgtest.New(t)
	for repo, rc := range map[string]string{
		"hidden": "hidden = yes\n", "private": "deny_read = *\n", "named": "name = Another Name\ndescription = d\n",
		"hidden/inside": "", "deep/er/one": "", "deep/er/two": "",
	} {
		h.Run("init", filepath.Join(root, repo))
		h.In(filepath.Join(root, repo)).Write(".hg/hgrc", "[web]\n"+rc)
	}
	for _, settings := range [][]string{
		nil, {"web.descend=no"}, {"web.collapse=yes"}, {"web.collapse=yes", "web.descend=no"},
		{"web.baseurl=https://hg.example.org/scm/"}, {"web.prefix=/x/y"},
	} {
		p := servePair(t, root, settings...)
		byFile := hgtest.Serve(t, hgtest.ServerOptions{Root: root, Config: settings})
		prefix := ""
		if len(settings) == 1 && strings.HasPrefix(settings[0], "web.prefix=") {
			prefix = "/x/y"
		}
		for _, path := range []string{
			"/", "/index", "/group", "/group/", "/group/index", "/deep", "/deep/er", "/hidden/index", "/r/index",
			"/nosuch", "/nosuch/", "/nosuch/index", "/deep/nosuch", "/grou",
		} {
			head := "GET " + prefix + path + "?style=raw HTTP/1.1\nHost: h"
			want, _ := dial(t, origin(p.stock.URL)).ask(head, "")
			for _, s := range []*hgtest.Server{p.vcsd, byFile} {
				got, _ := dial(t, origin(s.URL)).ask(head, "")
				if want.code == 200 && (got.status != want.status || got.mediaType != want.mediaType || string(got.raw) != string(want.raw)) || got.code != want.code {
					t.Errorf("%v %s: got %s %s %q\nstock says %s %s %q", settings, path, got.status, got.mediaType, got.raw, want.status, want.mediaType, want.raw)
				}
			}
		}
	}
}
