package hgtest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Repo unpacks a repository of testdata/repos into a fresh directory and
// returns that directory, which holds .hg and no working directory.
func Repo(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	RepoAt(t, name, dir)
	return filepath.Join(dir, "repo")
}

// RepoAt unpacks a repository of testdata/repos as dir/repo.
func RepoAt(t testing.TB, name, dir string) {
	t.Helper()
	f, err := os.Open(filepath.Join(moduleRoot(t), "testdata", "repos", name, "repo.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("repository %q: %v", name, err)
	}
	if err := unpack(tar.NewReader(z), dir); err != nil {
		t.Fatalf("repository %q: %v", name, err)
	}
}

// Repos returns the names of all repositories of testdata/repos, but for those
// named in except.
func Repos(t testing.TB, except ...string) []string {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(moduleRoot(t), "testdata", "repos", "*", "repo.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no repositories in testdata/repos: %v", err)
	}
	var names []string
	for _, a := range archives {
		if name := filepath.Base(filepath.Dir(a)); !slices.Contains(except, name) {
			names = append(names, name)
		}
	}
	return names
}

// RepoState returns the lines of a repository's state.txt: requirements, then
// one line for each changeset (rev, node, phase, branch, ...), then markers.
func RepoState(t testing.TB, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(moduleRoot(t), "testdata", "repos", name, "state.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func unpack(r *tar.Reader, dir string) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeReg:
			err = unpackFile(r, name)
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(r io.Reader, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// moduleRoot returns the directory of go.mod.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}

// CopyTree copies a directory, which dst must not hold yet.
func CopyTree(src, dst string) error { return os.CopyFS(dst, os.DirFS(src)) }
