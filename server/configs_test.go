package server

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/config"
	"vcsd/internal/vfs"
	"vcsd/store"
)

// write writes a file whose time differs from that of any other in the test.
func write(t testing.TB, name, data string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	written = written.Add(time.Second)
	if err := os.Chtimes(name, written, written); err != nil {
		t.Fatal(err)
	}
}

var written = time.Unix(1_700_000_000, 0)

// A change of any file that a repository's configuration depends on counts for
// the next request; a broken one is as if it had not changed.
func TestConfigurationIsReadAgain(t *testing.T) {
	const source, share = "source", "share"
	tests := []struct {
		name string
		file string // relative to the test's directory
		repo string
	}{
		{"own file", "source/.hg/hgrc", source},
		{"include of it", "included.rc", source},
		{"file not shared", "share/.hg/hgrc-not-shared", share},
		{"file of the share's source", "source/.hg/hgrc", share},
		{"file in HGRCPATH", "rc/b.rc", source},
		{"include of that", "rc/more", source},
		{"file for --web-conf", "web.conf", source},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			hgDir := filepath.Join(dir, source, ".hg")
			if err := store.Init(vfs.NewOS(hgDir)); err != nil {
				t.Fatal(err)
			}
			reqs, err := os.ReadFile(filepath.Join(hgDir, "requires"))
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{"rc", "share/.hg"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(dir, "share/.hg/requires"), string(reqs)+"shared\nshare-safe\n")
			write(t, filepath.Join(dir, "share/.hg/sharedpath"), hgDir+"\n")
			write(t, filepath.Join(hgDir, "hgrc"), "%include ../../included.rc\n")
			write(t, filepath.Join(dir, "rc/a.rc"), "%include more\n")
			write(t, filepath.Join(dir, "rc/b.rc"), "[web]\nallow-push = nobody\n")
			write(t, filepath.Join(dir, "web.conf"), "")
			loader := config.NewLoader()
			loader.Getenv = func(key string) (string, bool) { return filepath.Join(dir, "rc"), key == "HGRCPATH" }
			load := func() (*config.Config, error) {
				c, err := loader.System()
				if err != nil {
					return nil, err
				}
				return loader.WebConf(c, filepath.Join(dir, "web.conf"))
			}
			base, err := load()
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			c := newConfigs(loader, base, load, slog.New(slog.NewTextHandler(&log, nil)))
			description := func() string {
				t.Helper()
				s, err := c.repository(filepath.Join(dir, tt.repo))
				if err != nil {
					t.Fatal(err)
				}
				return s.web.Description
			}
			if got := description(); got != "" {
				t.Fatalf("description %q at the start", got)
			}
			file := filepath.Join(dir, tt.file)
			before, _ := os.ReadFile(file)
			for _, step := range []struct{ add, want string }{
				{"[web]\ndescription = one\n", "one"},
				{"[web]\ndescription = two\n", "two"},
				{"broken\n", "two"},
				{"[web]\ndescription = three\nhidden = perhaps\n", "two"},
				{"[web]\ndescription = four\n", "four"},
			} {
				write(t, file, string(before)+step.add)
				for range 2 {
					if got := description(); got != step.want {
						t.Errorf("after %q: description %q, want %q", step.add, got, step.want)
					}
				}
			}
			if n := strings.Count(log.String(), "the last good one stands"); n != 2 {
				t.Errorf("%d complaints, want one for each of the two broken files:\n%s", n, log.String())
			}
		})
	}
}

func TestConfigurationOfReplacedRepository(t *testing.T) {
	dirs := initRepos(t, 2)
	write(t, filepath.Join(dirs[1], ".hg/hgrc"), "[web]\ndescription = other\n")
	c := testConfigs(t)
	if s, err := c.repository(dirs[0]); err != nil || s.web.Description != "" {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := errors.Join(os.Rename(dirs[0], dirs[0]+".old"), os.Rename(dirs[1], dirs[0])); err != nil {
		t.Fatal(err)
	}
	if s, err := c.repository(dirs[0]); err != nil || s.web.Description != "other" {
		t.Errorf("after it was replaced: %+v, %v", s, err)
	}
	if _, err := c.repository(dirs[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no repository: %v", err)
	}
}

// A file of an owner who isn't trusted is told of once, in hg's words.
func TestUntrustedFileIsTold(t *testing.T) {
	dir := initRepos(t, 1)[0]
	hgrc := filepath.Join(dir, ".hg/hgrc")
	write(t, hgrc, "[hooks]\nincoming = true\n")
	var log bytes.Buffer
	c := testConfigs(t)
	c.log = slog.New(slog.NewTextHandler(&log, nil))
	c.loader.UID = 1 + os.Getuid()
	for range 3 {
		if _, err := c.repository(dir); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "not trusting file "+hgrc+" from untrusted user"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, log.String())
	}
}
