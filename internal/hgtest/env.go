package hgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clientRC is what a client of tests has configured: a user, a fixed clock for
// reproducible nodes, and no questions asked.
const clientRC = `[ui]
username = Ann <ann@example.com>
merge = :other
interactive = no
[devel]
default-date = 1700000000 0
`

// hgPath returns the Mercurial command: $HG, or hg on the PATH.
func hgPath(t testing.TB) string {
	t.Helper()
	name := os.Getenv("HG")
	if name == "" {
		name = "hg"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("tests need Mercurial (Debian package mercurial): %v", err)
	}
	return path
}

// Env returns an environment in which hg and vcsd depend on nothing of this
// machine but the PATH: home and hgrc name what they read and write instead.
func Env(home, hgrc string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + home,
		"XDG_STATE_HOME=" + filepath.Join(home, "state"),
		"TMPDIR=" + os.TempDir(),
		"HGRCPATH=" + hgrc,
		"HGENCODING=utf-8",
		"LC_ALL=C.UTF-8",
		"TZ=UTC",
		"HGPLAIN=1",
		"HGEDITOR=false",
		"PYTHONDONTWRITEBYTECODE=1",
		"no_proxy=127.0.0.1,localhost",
	}
	for _, v := range []string{"GORACE", "GOCOVERDIR", "SYSTEMROOT"} {
		if s, ok := os.LookupEnv(v); ok {
			env = append(env, v+"="+s)
		}
	}
	return env
}

// writeFile writes a file below an existing or missing directory.
func writeFile(t testing.TB, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hgrcOf renders "section.key=value" settings as the text of an hgrc.
func hgrcOf(t testing.TB, settings []string) string {
	t.Helper()
	var b strings.Builder
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		section, key, ok2 := strings.Cut(name, ".")
		if !ok || !ok2 {
			t.Fatalf("setting %q is not section.key=value", s)
		}
		b.WriteString("[" + section + "]\n" + key + " = " + value + "\n")
	}
	return b.String()
}
