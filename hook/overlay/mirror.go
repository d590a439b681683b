package overlay

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vcsd/internal/vfs"
)

const (
	// realLink is a link in each directory of a View's store to the real
	// directory; files are links that go through it. Names of that length fit
	// into an inode, where absolute ones would take a block each. hg writes no
	// capital letters into a store.
	realLink = "R"

	// racy is how long ago a directory must have changed for its time to tell
	// that it didn't change again.
	racy = 2 * time.Second

	store = "store"
)

// create makes the parts of a View that stay.
func (v *View) create() error {
	if err := v.fs.RemoveAll(v.dir); err != nil {
		return err
	}
	for _, dir := range []string{v.hg(store), v.hg("cache"), v.hg("wcache"), v.keptDir(), v.pool.linksDir()} {
		if err := v.fs.MkdirAll(dir); err != nil {
			return err
		}
	}
	if err := v.requires(); err != nil {
		return err
	}
	return v.addDir(store)
}

// lock makes sure that a lock of the View is held.
func (v *View) lock(name string) error {
	err := v.fs.Symlink(v.pool.lock, v.hg(name))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// addDir adds a directory of the real store to the View, and what is in it.
func (v *View) addDir(dir string) error {
	if err := v.fs.MkdirAll(v.hg(dir)); err != nil {
		return err
	}
	if err := v.fs.Symlink(v.shared(dir), v.hg(path.Join(dir, realLink))); err != nil {
		return err
	}
	v.dirs[dir] = time.Time{}
	return v.list(dir)
}

// mirror follows what happened to the repository's names since the last use.
// Contents need no care, as the names are links.
func (v *View) mirror() error {
	if err := errors.Join(v.mirrorOutside(), v.lock(workingLock), v.lock(storeLock)); err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(v.dirs)) {
		listed, known := v.dirs[dir]
		if !known {
			continue // gone with one above it
		}
		in, err := v.fs.Stat(v.shared(dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue // as the one above it will tell
		}
		if err != nil {
			return err
		}
		if listed.IsZero() || !in.ModTime.Equal(listed) {
			if err := v.list(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// list compares a directory of the View with the real one and mends it.
func (v *View) list(dir string) error {
	in, err := v.fs.Stat(v.shared(dir))
	if err != nil {
		return err
	}
	entries, err := v.fs.ReadDir(v.shared(dir))
	if err != nil {
		return err
	}
	links := make(map[string]string, 2*len(entries))
	dirs := make(map[string]bool)
	for _, e := range entries {
		switch name := e.Name(); {
		case passing(name):
		case e.IsDir():
			dirs[name] = true
		default:
			addLink(links, name)
		}
	}
	stays := func(name string) bool {
		return name == realLink || dirs[name] && v.has(path.Join(dir, name)) || path.Join(dir, name) == storeLock
	}
	if err := v.reconcile(dir, links, stays); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if sub := path.Join(dir, name); !v.has(sub) {
			if err := v.addDir(sub); err != nil {
				return err
			}
		}
	}
	v.dirs[dir] = settled(in.ModTime)
	return nil
}

func (v *View) has(dir string) bool { _, ok := v.dirs[dir]; return ok }

// settled returns t if a change after it would show in the time of a
// directory, or else the zero time.
func settled(t time.Time) time.Time {
	if time.Since(t) < racy {
		return time.Time{}
	}
	return t
}

// addLink adds a link to a real file. An inline revlog gets one for its data
// too, which lead nowhere until somebody splits it while the View is in use.
func addLink(links map[string]string, name string) {
	links[name] = realLink + "/" + name
	if radix, ok := strings.CutSuffix(name, ".i"); ok {
		links[radix+".d"] = realLink + "/" + radix + ".d"
	}
}

// passing tells whether a name stands for something that is no part of a
// repository's state: locks, what transactions leave, temporary files.
func passing(name string) bool {
	return name == "lock" || name == "wlock" || strings.HasPrefix(name, "journal") || strings.HasPrefix(name, "undo") ||
		strings.HasSuffix(name, ".pending") || strings.HasSuffix(name, ".i.a") || vfs.IsTempName(name)
}

// reconcile makes a directory of the View, relative to its .hg, have these
// links, by name, what stays, and nothing else.
func (v *View) reconcile(dir string, links map[string]string, stays func(name string) bool) error {
	entries, err := v.fs.ReadDir(v.hg(dir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch _, wanted := links[name]; {
		case stays(name):
			delete(links, name)
		case wanted && e.Type() == fs.ModeSymlink:
			delete(links, name)
		default:
			if err := v.fs.RemoveAll(filepath.Join(v.hg(dir), name)); err != nil {
				return err
			}
			v.forget(path.Join(dir, name))
		}
	}
	for name, target := range links {
		if err := v.pool.link(target, filepath.Join(v.hg(dir), name)); err != nil {
			return err
		}
	}
	return nil
}

// forget drops a directory and those below it.
func (v *View) forget(dir string) {
	maps.DeleteFunc(v.dirs, func(d string, _ time.Time) bool { return d == dir || strings.HasPrefix(d, dir+"/") })
}
