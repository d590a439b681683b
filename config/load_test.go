package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const strangerID = 4242

// ownedFS says that the files with these base names belong to a stranger.
type ownedFS struct {
	FS
	strangers []string
}

func (o ownedFS) ReadFile(name string) ([]byte, Info, error) {
	data, info, err := o.FS.ReadFile(name)
	if slices.Contains(o.strangers, filepath.Base(name)) {
		info.UID, info.GID = strangerID, strangerID
	}
	return data, info, err
}

func trustLoader(env map[string]string) *Loader {
	l := newTestLoader(env)
	l.FS = ownedFS{OS(), []string{"hgrc", "hgrc-not-shared"}}
	l.UserName = func(id int) string { return map[int]string{strangerID: "eve"}[id] }
	l.GroupName = func(id int) string { return map[int]string{strangerID: "guests"}[id] }
	return l
}

func TestTrust(t *testing.T) {
	const hgrc = "[hooks]\nincoming = rm -rf /\n[web]\ndeny_read = *\n"
	tests := []struct {
		name    string
		system  string
		hgrc    string
		trusted bool
		warning string
	}{
		{"stranger", "", hgrc, false, "not trusting file HGRC from untrusted user eve, group guests"},
		{"trusted user", "[trusted]\nusers = bob, eve\n", hgrc, true, ""},
		{"trusted group", "[trusted]\ngroups = guests\n", hgrc, true, ""},
		{"everybody", "[trusted]\nusers = *\n", hgrc, true, ""},
		{"star among names", "[trusted]\nusers = bob *\n", hgrc, true, ""},
		{"somebody else", "[trusted]\nusers = guests\ngroups = eve\n", hgrc, false, "not trusting file HGRC from untrusted user eve, group guests"},
		{"no report", "[ui]\nreport_untrusted = no\n", hgrc, false, ""},
		{"trusts itself", "", "[trusted]\nusers = eve\n" + hgrc, false, "not trusting file HGRC from untrusted user eve, group guests"},
		{"fault", "[ui]\nreport_untrusted = no\n", hgrc + "fault\n", false, "ignored HGRC:5: fault"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"system.rc": tt.system, "r/.hg/hgrc": tt.hgrc})
			l := trustLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "system.rc")})
			base, err := l.System()
			if err != nil {
				t.Fatal(err)
			}
			c, err := l.Repository(base, filepath.Join(dir, "r/.hg"), "")
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := c.Get("hooks", "incoming"); ok != tt.trusted {
				t.Errorf("hook counts: %v, want %v", ok, tt.trusted)
			}
			warning := strings.ReplaceAll(strings.Join(c.Warnings(), "\n"), filepath.Join(dir, "r/.hg/hgrc"), "HGRC")
			if warning != tt.warning {
				t.Errorf("warning %q, want %q", warning, tt.warning)
			}
			if web, err := c.Web(); err != nil || !slices.Equal(web.DenyRead, []string{"*"}) {
				t.Errorf("deny_read of the owner = %q, %v; want it to count", web.DenyRead, err)
			}
			if len(base.Items("hooks")) != 0 {
				t.Error("the repository's file changed the base")
			}
		})
	}
}

func TestHasSection(t *testing.T) {
	const hgrc = "[a]\nx = 1\n[empty]\n[emptied]\ny = 1\n%unset y\n"
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"r/.hg/hgrc": hgrc, "system.rc": "[system]\n"})
	for trusted, want := range map[string]string{"": "system", "eve": "a emptied empty system"} {
		l := trustLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "system.rc")})
		base, err := l.System(Item{Section: "trusted", Key: "users", Value: trusted})
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Repository(base, filepath.Join(dir, "r/.hg"), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range []string{"a", "emptied", "empty", "none", "system"} {
			if c.HasSection(name) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("trusting %q: sections %v, want %s", trusted, got, want)
		}
	}
}

func TestOverridesWinOverRepository(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"r/.hg/hgrc": "[a]\nx = file\n%unset y\n", "s.rc": "[a]\ny = s\n"})
	l := newTestLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "s.rc")})
	base, err := l.System(Item{"a", "x", "option", "--config"}, Item{"a", "y", "option", "--config"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Repository(base, filepath.Join(dir, "r/.hg"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"x", "y"} {
		if got := c.String("a", key, ""); got != "option" || c.Source("a", key) != "--config" {
			t.Errorf("a.%s = %q from %s, want that of the option", key, got, c.Source("a", key))
		}
	}
	if got := c.With(Item{"a", "x", "later", "test"}).String("a", "x", ""); got != "later" {
		t.Errorf("With: a.x = %q, want later", got)
	}
	if got := c.String("a", "x", ""); got != "option" {
		t.Errorf("With changed its receiver: a.x = %q", got)
	}
}

func TestWhichFilesCount(t *testing.T) {
	files := map[string]string{
		"d/b.rc": "[o]\nv = b\n", "d/a.rc": "[o]\nv = a\n", "d/c.txt": "[o]\nv = c\n",
		"f": "[o]\nv = f\n", "home/.hgrc": "[o]\nv = home\n", "home/.config/hg/hgrc": "[o]\nv = config\n",
		"xdg/hg/hgrc": "[o]\nv = xdg\n", "inst/etc/mercurial/hgrc": "[o]\nv = inst\n",
		"inst/etc/mercurial/hgrc.d/z.rc": "[o]\nv = z\n",
		"r/.hg/hgrc":                     "[o]\nv = repo\n", "s/.hg/hgrc": "[o]\nv = shared\nw = shared\n",
		"r2/.hg/hgrc-not-shared": "[o]\nv = own\n", "r2/.hg/hgrc": "[o]\nv = r2\n",
	}
	tests := []struct {
		name               string
		env                map[string]string
		inst, repo, shared string
		want               string
	}{
		{"nothing", map[string]string{"HGRCPATH": ""}, "", "", "", ""},
		{"directory", map[string]string{"HGRCPATH": "DIR/d"}, "", "", "", "b"},
		{"list", map[string]string{"HGRCPATH": "DIR/d:DIR/nosuch::DIR/f"}, "", "", "", "f"},
		{"list, other order", map[string]string{"HGRCPATH": "DIR/f:DIR/d"}, "", "", "", "b"},
		{"variable", map[string]string{"HGRCPATH": "$D/f", "D": "DIR"}, "", "", "", "f"},
		{"user", map[string]string{"HOME": "DIR/home"}, "", "", "", "config"},
		{"XDG_CONFIG_HOME", map[string]string{"HOME": "DIR/home", "XDG_CONFIG_HOME": "DIR/xdg"}, "", "", "", "xdg"},
		{"XDG_CONFIG_HOME not absolute", map[string]string{"HOME": "DIR/home", "XDG_CONFIG_HOME": "xdg"}, "", "", "", "config"},
		{"installation", map[string]string{"HOME": "DIR/nosuch"}, "DIR/inst", "", "", "z"},
		{"repository", map[string]string{"HGRCPATH": "DIR/f"}, "", "DIR/r/.hg", "", "repo"},
		{"skipped repository", map[string]string{"HGRCPATH": "DIR/f", "HGRCSKIPREPO": ""}, "", "DIR/r/.hg", "", "f"},
		{"shared", map[string]string{"HGRCPATH": ""}, "", "DIR/r/.hg", "DIR/s/.hg", "repo"},
		{"not shared", map[string]string{"HGRCPATH": ""}, "", "DIR/r2/.hg", "DIR/s/.hg", "own"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, files)
			at := func(s string) string { return strings.ReplaceAll(s, "DIR", dir) }
			env := map[string]string{}
			for k, v := range tt.env {
				env[k] = at(v)
			}
			l := newTestLoader(env)
			l.Install = at(tt.inst)
			c, err := l.System()
			if err == nil && tt.repo != "" {
				c, err = l.Repository(c, at(tt.repo), at(tt.shared))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.String("o", "v", ""); got != tt.want {
				t.Errorf("o.v = %q, want %q", got, tt.want)
			}
			if got := c.String("o", "w", ""); tt.shared != "" && got != "shared" {
				t.Errorf("o.w = %q, want that of the shared repository", got)
			}
		})
	}
}

func TestStale(t *testing.T) {
	tests := []struct {
		name   string
		change func(dir string) error
		want   bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"another file", func(d string) error { return os.WriteFile(filepath.Join(d, "other"), nil, 0o666) }, false},
		{"file rewritten", func(d string) error { return os.WriteFile(filepath.Join(d, "rc/a.rc"), []byte("[a]\nx=12\n"), 0o666) }, true},
		{"file touched", func(d string) error { return os.Chtimes(filepath.Join(d, "rc/a.rc"), time.Time{}, time.Unix(1, 0)) }, true},
		{"file gone", func(d string) error { return os.Remove(filepath.Join(d, "rc/a.rc")) }, true},
		{"include appeared", func(d string) error { return os.WriteFile(filepath.Join(d, "rc/inc"), nil, 0o666) }, true},
		{"repository's file appeared", func(d string) error { return os.WriteFile(filepath.Join(d, "hgrc"), nil, 0o666) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, map[string]string{"rc/a.rc": "[a]\n%include inc\nx=1\n"})
			l := newTestLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "rc")})
			c, err := l.System()
			if err != nil {
				t.Fatal(err)
			}
			if c, err = l.Repository(c, dir, ""); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			if got := c.Stale(); got != tt.want {
				t.Errorf("Stale() = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	l := newTestLoader(map[string]string{"HOME": "/home/u/", "A": "x", "A_1": "y"})
	tests := []struct{ in, want string }{
		{"~", "/home/u"}, {"~/a", "/home/u/a"}, {"~nosuchuser/a", "~nosuchuser/a"}, {"a~", "a~"},
		{"$A", "x"}, {"${A}b", "xb"}, {"$A_1-$A", "y-x"}, {"$B", "$B"}, {"$", "$"}, {"${A", "${A"}, {"$$A", "$x"}, {"${}", "${}"},
	}
	for _, tt := range tests {
		if got := l.expand(tt.in); got != tt.want {
			t.Errorf("expand(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/.hg", "b/c/.hg", "b/c/sub/.hg", "b/c/.hg/patches/.hg", "b/empty", "target/in/.hg"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"b/link", "a/link", "b/loop"} {
		if err := os.Symlink(map[bool]string{true: "..", false: "../target"}[link == "b/loop"], filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		conf string
		want string // name=directory, by spaces
	}{
		{"one", "[paths]\n/x/y/ = DIR/a\n", "x/y=a"},
		{"not looked at", "[paths]\nx = DIR/nosuch\n", "x=nosuch"},
		{"root", "[paths]\n/ = DIR/a\n", "=a"},
		{"two directories", "[paths]\nx = DIR/a/* , DIR/b/c\n", "x=b/c"},
		{"star", "[paths]\n/ = DIR/b/*\n", "link/in=b/link/in loop/a=b/loop/a c=b/c c/.hg/patches=b/c/.hg/patches"},
		{"two stars", "[paths]\np = DIR/b/**\n", "p/link/in=b/link/in p/loop/a=b/loop/a p/c=b/c p/c/.hg/patches=b/c/.hg/patches p/c/sub=b/c/sub"},
		{"links inside of repositories", "[paths]\np = DIR/a/**\n", "p=a"},
		{"collection", "[collections]\nDIR/b = DIR/b/c\n", "c=b/c c/.hg/patches=b/c/.hg/patches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "web.conf")
			writeFiles(t, filepath.Dir(file), map[string]string{"web.conf": strings.ReplaceAll(tt.conf, "DIR", dir)})
			l := newTestLoader(nil)
			// What a user has in [paths] is nothing to serve.
			c, err := l.WebConf(New(Item{"paths", "default", dir + "/a", "hgrc"}), file)
			if err != nil {
				t.Fatal(err)
			}
			paths, err := l.Paths(c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range paths {
				rel, err := filepath.Rel(dir, p.Dir)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p.Name+"="+rel)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("paths of %q\n got %s\nwant %s", tt.conf, s, tt.want)
			}
		})
	}
}

func TestBelow(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a b/.hg", "a b/sub/$x/.hg"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newTestLoader(nil).Below(dir)
	want := []Path{{"a b", dir + "/a b"}, {"a b/sub/$x", dir + "/a b/sub/$x"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Below = %v, %v, want %v", got, err, want)
	}
}

func TestPathsMissing(t *testing.T) {
	l := newTestLoader(nil)
	c := New(Item{servedSection, "x", "/nosuch/*", "test"}, Item{servedSection, "y", "/tmp/z", "test"})
	paths, err := l.Paths(c)
	if err == nil || !slices.Equal(paths, []Path{{"y", "/tmp/z"}}) {
		t.Errorf("Paths = %v, %v; want an error and the other path", paths, err)
	}
}

func TestWebConfMissing(t *testing.T) {
	_, err := newTestLoader(nil).WebConf(New(), "/nonexist")
	if want := "No such file or directory: '/nonexist'"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
