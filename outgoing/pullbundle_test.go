package outgoing

import (
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/wire/compression"
)

// TestFindPullBundle: what hg would pick of a list. The graph is 0-1-2, 1-3.
func TestFindPullBundle(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init")
	h.Run("debugbuilddag", "+3<2+1")
	known := h.Nodes("sort(all(), rev)")
	node := func(rev int) string { return known[rev].String() }
	for _, name := range []string{"a", "b", "sub/c"} {
		h.Write(".hg/"+name, name)
	}
	h.Write("outside", "x")
	lines := func(l ...string) string { return strings.Join(l, "\n") + "\n" }
	all := []int{2, 3}
	tests := []struct {
		name          string
		list          string
		heads, common []int  // revs
		client        string // engines
		want          string // file; empty: none
	}{
		{"none", "", all, nil, "zstd", ""},
		{"everything", "a heads=" + node(2) + ";" + node(3), all, nil, "", "a"},
		{"quoted", "a h%65ads=" + node(2) + "%3B" + node(3), all, nil, "", "a"},
		{"first that fits", lines("# comment", "", "a heads="+node(3)+" bases="+node(1), "b heads="+node(0), "sub/c heads="+node(1)), all, nil, "", "b"},
		{"based on what the client has", lines("b heads="+node(1), "a heads="+node(3)+" bases="+node(1)), all, []int{1}, "", "a"},
		{"below a directory", "sub/c heads=" + node(1), all, nil, "", "sub/c"},
		{"more than is wanted", "a heads=" + node(2) + ";" + node(3), []int{2}, nil, "", ""},
		{"nothing new", "a heads=" + node(0), all, []int{1}, "", ""},
		{"nothing new, named", "a heads=" + node(1), all, []int{1}, "", ""},
		{"no heads named", "a", all, nil, "", "a"},
		{"file missing", lines("nosuch heads="+node(1), "a heads="+node(0)), all, nil, "", "a"},
		{"compression unknown to the client", lines("a BUNDLESPEC=zstd-v2", "b BUNDLESPEC=gzip-v2"), all, nil, "zlib", "b"},
		{"compression known", lines("a BUNDLESPEC=zstd-v2", "b BUNDLESPEC=gzip-v2"), all, nil, "zstd", "a"},
		{"parameters", "a BUNDLESPEC=none-v2;obsolescence%3Dyes", all, nil, "none", "a"},
		{"no specification at all", "a BUNDLESPEC=v2", all, nil, "none", ""},
		{"stream", "a BUNDLESPEC=none-packed1", all, nil, "none", ""},
		{"zstd in version 1", "a BUNDLESPEC=zstd-v1", all, nil, "zstd", ""},
		{"bad heads", lines("a heads=zz", "b"), all, nil, "", "b"},
		{"unknown heads", lines("a heads="+strings.Repeat("12", 20), "b"), all, nil, "", "b"},
		{"unknown bases", lines("a bases="+strings.Repeat("12", 20), "b"), all, nil, "", "b"},
		{"malformed", lines("a heads", "b"), all, nil, "", "b"},
		{"outside", lines("../outside", "/etc/passwd", "sub/../../outside", "b"), all, nil, "", "b"},
		{"a directory", lines("sub", "b"), all, nil, "", "b"},
	}
	v := viewOf(t, openAt(t, h.Dir))
	for _, tt := range tests {
		h.Write(".hg/"+pullBundlesName, tt.list)
		nodes := func(revs []int) (out []hg.Node) {
			for _, r := range revs {
				out = append(out, known[r])
			}
			return out
		}
		b, err := FindPullBundle(t.Context(), v, nodes(tt.heads), nodes(tt.common), func(e compression.Engine) bool {
			return strings.Contains(tt.client, e.WireName())
		})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := ""
		if b != nil {
			var sink fakeSink
			if err := b.WriteTo(&sink); err != nil || b.Bytes != int64(sink.Len()) {
				t.Errorf("%s: %d bytes of %d, %v", tt.name, sink.Len(), b.Bytes, err)
			}
			got = sink.String()
			if filepath.Base(tt.want) == got {
				got = tt.want
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
