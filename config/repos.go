package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// A Path is a repository and where it is served.
type Path struct {
	Name string // below the prefix, without slashes at its ends; may be empty
	Dir  string // the directory that holds .hg
}

// servedSection holds what a --web-conf file has in [paths].
const servedSection = "hgweb-paths"

// Paths finds the repositories that a --web-conf file names, in [paths] and
// [collections] (hg help hgweb). Of two with the same name the later counts.
// What is named without a wildcard is taken without looking. An error doesn't
// keep the others from being found.
func (l *Loader) Paths(c *Config) ([]Path, error) {
	var found []Path
	var faults []error
	for _, it := range c.Items(servedSection) {
		for _, dir := range ParseList(it.Value) {
			paths, err := l.served(strings.Trim(it.Key, "/"), l.expand(dir))
			found, faults = append(found, paths...), append(faults, err)
		}
	}
	for _, it := range c.Items("collections") {
		paths, err := l.collection(it.Key, l.expand(it.Value))
		found, faults = append(found, paths...), append(faults, err)
	}
	return lastOfEach(found), errors.Join(faults...)
}

func lastOfEach(paths []Path) []Path {
	last := map[string]int{}
	for i, p := range paths {
		last[p.Name] = i
	}
	var out []Path
	for i, p := range paths {
		if last[p.Name] == i {
			out = append(out, p)
		}
	}
	return out
}

// served expands one directory of [paths]. "/*" at its end means all
// repositories below it, "/**" also those inside of repositories.
func (l *Loader) served(prefix, dir string) ([]Path, error) {
	root, wildcard := filepath.Split(dir)
	if wildcard != "*" && wildcard != "**" {
		dir, err := filepath.Abs(dir)
		return []Path{{prefix, dir}}, err
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return l.walked(prefix, root, wildcard == "**")
}

// Below finds the repositories in a directory, below it, and inside of each
// other, with their names relative to it.
func (l *Loader) Below(dir string) ([]Path, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return l.walked("", dir, true)
}

func (l *Loader) walked(prefix, root string, nested bool) ([]Path, error) {
	dirs, err := l.walk(root, nested)
	var paths []Path
	for _, d := range dirs {
		below := strings.TrimPrefix(d[len(root):], "/")
		paths = append(paths, Path{strings.Trim(prefix+"/"+below, "/"), d})
	}
	return paths, err
}

// collection finds the repositories below root and cuts prefix from their
// paths.
func (l *Loader) collection(prefix, root string) ([]Path, error) {
	dirs, err := l.walk(root, false)
	var paths []Path
	for _, d := range dirs {
		name := strings.TrimLeft(strings.TrimPrefix(filepath.Clean(d), prefix), "/")
		abs, aerr := filepath.Abs(d)
		paths, err = append(paths, Path{name, abs}), errors.Join(err, aerr)
	}
	return paths, err
}

// walk finds the repositories in root and below, in the order of their names.
// Links are followed, but no directory is entered twice.
func (l *Loader) walk(root string, nested bool) ([]string, error) {
	w := &walker{fs: l.FS, seen: map[[2]uint64]bool{}}
	if info, err := l.FS.Stat(root); err != nil {
		return nil, err
	} else {
		w.enter(info)
	}
	if _, err := l.FS.ReadDir(root); err != nil {
		return nil, err
	}
	w.walk(root, nested)
	return w.found, nil
}

type walker struct {
	fs    FS
	seen  map[[2]uint64]bool // device and inode of the directories entered
	found []string
}

func (w *walker) enter(i Info) bool {
	id := [2]uint64{i.Dev, i.Inode}
	fresh := !w.seen[id]
	w.seen[id] = true
	return fresh
}

// walk passes over directories that can't be read.
func (w *walker) walk(dir string, nested bool) {
	names, err := w.fs.ReadDir(dir)
	if err != nil {
		return
	}
	hg := filepath.Join(dir, ".hg")
	if !slices.Contains(names, ".hg") || !w.isDir(hg) {
		w.below(dir, names, nested)
		return
	}
	w.found = append(w.found, dir)
	// A patch queue is a repository of its own.
	if patches := filepath.Join(hg, "patches"); w.isDir(filepath.Join(patches, ".hg")) {
		w.found = append(w.found, patches)
	}
	if nested {
		w.inside(dir, names)
	}
}

// below goes into the directories of one that is no repository: links first, as
// hg does. What a link leads to isn't searched for nested repositories.
func (w *walker) below(dir string, names []string, nested bool) {
	var plain []string
	for _, name := range names {
		sub := filepath.Join(dir, name)
		switch info, err := w.fs.Stat(sub); {
		case err != nil || !info.Dir || !w.enter(info):
		case w.fs.IsLink(sub):
			w.walk(sub, false)
		default:
			plain = append(plain, sub)
		}
	}
	for _, sub := range plain {
		w.walk(sub, nested)
	}
}

// inside goes into the directories of a repository, and follows no link there.
func (w *walker) inside(dir string, names []string) {
	for _, name := range names {
		sub := filepath.Join(dir, name)
		if name != ".hg" && w.isDir(sub) && !w.fs.IsLink(sub) {
			w.walk(sub, true)
		}
	}
}

func (w *walker) isDir(name string) bool {
	info, err := w.fs.Stat(name)
	return err == nil && info.Dir
}
