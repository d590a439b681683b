package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vcsd/config"
)

// catalogTree makes directories that look like repositories and returns where.
func catalogTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"r/.hg/store", "r/sub/nested/.hg", "group/inner/.hg", "group/other/.hg"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("r", filepath.Join(root, "zalias")); err != nil {
		t.Fatal(err)
	}
	return root
}

func testCatalog(t *testing.T, items ...config.Item) *catalog {
	return &catalog{configs: testConfigs(t, items...), log: slog.New(slog.DiscardHandler)}
}

// namedCatalog returns a catalog as of a --web-conf file with these [paths].
func namedCatalog(t *testing.T, paths string, items ...config.Item) (c *catalog, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "web.conf")
	write(t, file, "[paths]\n"+paths)
	c = testCatalog(t, items...)
	load := c.configs.load
	c.configs.load = func() (*config.Config, error) {
		base, err := load()
		if err != nil {
			return nil, err
		}
		return c.configs.loader.WebConf(base, file)
	}
	base, err := c.configs.load()
	if err != nil {
		t.Fatal(err)
	}
	c.configs.base = base
	return c, file
}

func TestFind(t *testing.T) {
	root := catalogTree(t)
	byRoot := testCatalog(t)
	byRoot.root = root
	byName, _ := namedCatalog(t, "one/r = "+root+"/r\ntop = "+root+"/*\nall = "+root+"/**\ngone = "+root+"/gone\n")
	whole := testCatalog(t)
	whole.fixed = root + "/r"
	for _, tt := range []struct {
		c    *catalog
		path string
		dir  string // below root; empty if nothing is found
		want place
	}{
		{byRoot, "r", "r", place{prefix: "r"}},
		{byRoot, "/r/", "r", place{prefix: "r"}},
		{byRoot, "r/x/y", "r", place{prefix: "r", rest: "x/y"}},
		{byRoot, "r/sub/nested", "r/sub/nested", place{prefix: "r/sub/nested"}},
		{byRoot, "r/sub/nested/z", "r/sub/nested", place{prefix: "r/sub/nested", rest: "z"}},
		{byRoot, "group/inner", "group/inner", place{prefix: "group/inner"}},
		{byRoot, "group", "", place{}},
		{byRoot, "", "", place{}},
		{byRoot, "r/.hg", "", place{}},
		{byRoot, "r/.HG/store", "", place{}},
		{byRoot, "group/../r", "", place{}},
		{byRoot, "./r", "", place{}},
		{byRoot, "r\x00", "", place{}},
		{byRoot, "group\\inner", "", place{}},
		{byRoot, "group//inner", "", place{}},
		{byName, "top/r/sub/nested", "r", place{prefix: "top/r", rest: "sub/nested"}},
		{byName, "all/r/sub/nested", "r/sub/nested", place{prefix: "all/r/sub/nested"}},
		{byName, "one/r", "r", place{prefix: "one/r"}},
		{byName, "one/r/x", "r", place{prefix: "one/r", rest: "x"}},
		{byName, "one/rr", "", place{}},
		{byName, "one", "", place{}},
		{byName, "gone", "", place{}},
		{byName, "top/r/../group/inner", "r", place{prefix: "top/r", rest: "../group/inner"}},
		{whole, "", "r", place{}},
		{whole, "x", "r", place{rest: "x"}},
	} {
		got, ok := tt.c.find(tt.path)
		want := tt.want
		if tt.dir != "" {
			want.dir = filepath.Join(root, tt.dir)
		}
		if ok != (tt.dir != "") || got != want {
			t.Errorf("find(%q) = %+v, %v, want %+v", tt.path, got, ok, want)
		}
	}
}

// web.refreshinterval tells how long a list stays good; below a root a new
// repository is found at once.
func TestRefreshInterval(t *testing.T) {
	for _, tt := range []struct {
		interval string
		want     bool
	}{
		{"0", true}, {"-1", true}, {"1000", false},
	} {
		root := catalogTree(t)
		interval := config.Item{Section: "web", Key: "refreshinterval", Value: tt.interval}
		byName, _ := namedCatalog(t, "/ = "+root+"/*\n", interval)
		byRoot := testCatalog(t, interval)
		byRoot.root = root
		byName.find("r")
		byRoot.list()
		if err := os.MkdirAll(filepath.Join(root, "new/.hg"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, ok := byName.find("new"); ok != tt.want {
			t.Errorf("refreshinterval %s: a new repository is found: %v, want %v", tt.interval, ok, tt.want)
		}
		if _, ok := byRoot.find("new"); !ok {
			t.Errorf("refreshinterval %s: a new repository below the root is not found", tt.interval)
		}
		listed := slices.ContainsFunc(byRoot.list(), func(p config.Path) bool { return p.Name == "new" })
		if listed != tt.want {
			t.Errorf("refreshinterval %s: a new repository is listed: %v, want %v", tt.interval, listed, tt.want)
		}
	}
}

// Changed [paths] count at once, whatever the interval.
func TestPathsAreReadAgain(t *testing.T) {
	root := catalogTree(t)
	c, file := namedCatalog(t, "a = "+root+"/r\n", config.Item{Section: "web", Key: "refreshinterval", Value: "1000"})
	if _, ok := c.find("a"); !ok {
		t.Fatal("a is not found")
	}
	write(t, file, "[paths]\nb = "+root+"/r\n")
	if _, ok := c.find("b"); !ok {
		t.Error("b is not found")
	}
	if _, ok := c.find("a"); ok {
		t.Error("a is still found")
	}
}

func TestListing(t *testing.T) {
	root := catalogTree(t)
	c, _ := namedCatalog(t, "/ = "+root+"/**\n")
	for _, tt := range []struct {
		name              string
		dir               string
		descend, collapse bool
		hidden            string
		want              []string
	}{
		{"all", "", true, false, "", []string{"group/inner", "group/other", "r", "r/sub/nested"}},
		{"hidden", "", true, false, "r", []string{"group/inner", "group/other", "r/sub/nested"}},
		{"no descent", "", false, false, "", []string{"r"}},
		{"collapsed", "", true, true, "", []string{"group/", "r", "r/sub/nested"}},
		{"subdirectory", "group/", true, true, "", []string{"inner", "other"}},
		{"inside a repository", "r/", true, true, "", []string{"sub/"}},
	} {
		l := &lister{dir: tt.dir, descend: tt.descend, collapse: tt.collapse, shown: func(p config.Path) *settings {
			if p.Name == tt.hidden {
				return nil
			}
			return new(settings)
		}}
		var got []string
		for _, r := range l.rows(c.list()) {
			got = append(got, r.name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
