package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vcsd/internal/vfs"
)

// mirrorOutside links what is not in the store: the files of the working copy,
// those in .hg, and caches. hg replaces files of caches by renaming, which
// leaves the real ones alone, and writes to others under locks alone.
func (v *View) mirrorOutside() error {
	work, err := v.linksTo(v.pool.o.Root, func(name string) bool { return name == ".hg" })
	if err != nil {
		return err
	}
	if err := v.reconcile("..", work, func(name string) bool { return name == ".hg" }); err != nil {
		return err
	}
	for dir, real := range map[string]string{"cache": v.shared("cache"), "wcache": v.own("wcache")} {
		links, err := v.linksTo(real, func(string) bool { return false })
		if err != nil {
			return err
		}
		if err := v.reconcile(dir, links, func(string) bool { return false }); err != nil {
			return err
		}
	}
	return v.mirrorHG()
}

// ownNames are the entries of .hg that a View has itself, or not at all.
var ownNames = []string{store, "cache", "wcache", "requires", "hgrc", workingLock}

var hiddenNames = []string{"vcsd", "sharedpath", "shared", "bookmarks", "strip-backup"}

func (v *View) mirrorHG() error {
	links, err := v.linksTo(v.own(""), func(name string) bool {
		return slices.Contains(ownNames, name) || slices.Contains(hiddenNames, name)
	})
	if err != nil {
		return err
	}
	if ok, err := vfs.Exists(v.fs, v.shared("bookmarks")); err != nil {
		return err
	} else if ok {
		links["bookmarks"] = v.shared("bookmarks")
	}
	if err := v.reconcile("", links, func(name string) bool { return slices.Contains(ownNames, name) }); err != nil {
		return err
	}
	return v.hgrc()
}

// linksTo returns a link to each entry of a real directory that is neither
// passing nor left out.
func (v *View) linksTo(dir string, leaveOut func(name string) bool) (map[string]string, error) {
	entries, err := v.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	links := make(map[string]string, len(entries))
	for _, e := range entries {
		if name := e.Name(); !leaveOut(name) && !passing(name) {
			links[name] = filepath.Join(dir, name)
		}
	}
	return links, nil
}

// maxRequiresBytes bounds a requires file.
const maxRequiresBytes = 64 << 10

// requires writes the View's requirements: those of the real root, but with a
// store of its own.
func (v *View) requires() error {
	b, err := vfs.ReadFile(v.fs, v.own("requires"), maxRequiresBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names := strings.Fields(string(b))
	v.hgrcs = []string{v.own("hgrc")}
	if v.shared("") != v.own("") && slices.Contains(names, "share-safe") {
		v.hgrcs = []string{v.shared("hgrc"), v.own("hgrc")}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "shared" || name == "relshared" })
	return vfs.WriteAtomic(v.fs, v.hg("requires"), []byte(strings.Join(names, "\n")+"\n"), false)
}

// hgrc gives the View the configuration of the repository. hg trusts files by
// their owner. What the server's user owns is included, so that includes
// relative to it are found; a file of another user is linked, so that hg sees
// whose it is.
func (v *View) hgrc() error {
	name := v.own("hgrc")
	var text string
	for _, f := range v.hgrcs {
		in, err := v.fs.Stat(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case int(in.UID) == os.Getuid() && includable(f):
			text += "%include " + f + "\n"
		case f == name:
			return errors.Join(v.removeIfThere(v.hg("hgrc")), v.fs.Symlink(name, v.hg("hgrc")))
		}
	}
	return vfs.WriteAtomic(v.fs, v.hg("hgrc"), []byte(text), false)
}

// includable tells whether hg would find a file by "%include".
func includable(name string) bool {
	return !strings.ContainsAny(name, "$~\n\r") && strings.TrimSpace(name) == name
}

func (v *View) removeIfThere(name string) error {
	err := v.fs.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
