package store

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A fingerprint tells whether the files that a state is made of are still the
// same. Filelogs and the manifest need no watching: whoever appends to them
// appends to the changelog.
type fingerprint struct {
	changelog, phaseRoots, bookmarks, obsStore filePrint
}

type filePrint struct {
	size       int64
	mtime      int64 // nanoseconds
	dev, inode uint64
}

// rewrote tells whether the changelog is not the old one with more at its end.
func (f fingerprint) rewrote(old fingerprint) bool {
	a, b := old.changelog, f.changelog
	return b.size < a.size || b.inode != a.inode || b.dev != a.dev ||
		(b.size == a.size && b.mtime != a.mtime)
}

func readFingerprint(fsys vfs.FS, reqs Requirements) (fp fingerprint, err error) {
	for _, f := range []struct {
		name string
		to   *filePrint
	}{
		{"store/00changelog.i", &fp.changelog},
		{"store/phaseroots", &fp.phaseRoots},
		{bookmarksFile(reqs), &fp.bookmarks},
		{"store/obsstore", &fp.obsStore},
	} {
		info, err := fsys.Stat(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fp, err
		}
		*f.to = filePrint{info.Size, info.ModTime.UnixNano(), info.Dev, info.Ino}
	}
	return fp, nil
}

// BookmarksPath returns where bookmarks are kept, relative to .hg.
func (r *Repo) BookmarksPath() string { return bookmarksFile(r.reqs) }

// bookmarksFile returns where bookmarks are kept, relative to .hg.
func bookmarksFile(reqs Requirements) string {
	if reqs.BookmarksInStore {
		return "store/bookmarks"
	}
	return "bookmarks"
}

// maxSmallFileBytes bounds the files that a state reads whole.
const maxSmallFileBytes = 1 << 30

func (r *Repo) readSmall(name string) ([]byte, error) {
	b, err := vfs.ReadFile(r.fs, name, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// cloneBundlesName lists bundles that clients may start a clone from, one a
// line with its attributes (hg help -e clonebundles). People write it.
const cloneBundlesName = "clonebundles.manifest"

// CloneBundles returns the list of clone bundles as it is; empty if there is
// none.
func (r *Repo) CloneBundles() ([]byte, error) { return r.readSmall(cloneBundlesName) }

// HasCloneBundles tells whether there is such a list.
func (r *Repo) HasCloneBundles() bool {
	_, err := r.fs.Stat(cloneBundlesName)
	return err == nil
}

// fncacheName is the list of filelogs, relative to .hg.
const fncacheName = "store/fncache"

// FNCache returns the list of filelogs. The caller holds the store's lock.
func (r *Repo) FNCache() (*FNCache, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	info, err := r.fs.Stat(fncacheName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.fncache != nil && r.fncache.size == info.Size {
		return r.fncache, nil
	}
	b, err := r.readSmall(fncacheName)
	if err != nil {
		return nil, err
	}
	r.fncache, err = ParseFNCache(b)
	return r.fncache, err
}

// ExpectFNCache tells which list the file will hold once the append that was
// planned is made. If it is not made, the size tells, and the file is read.
func (r *Repo) ExpectFNCache(c *FNCache) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fncache = c
}

// readBookmarks returns the bookmarks that point to changesets there are, as
// hg does.
func (r *Repo) readBookmarks(cl *revlog.Snapshot) (map[string]hg.Node, error) {
	b, err := r.readSmall(bookmarksFile(r.reqs))
	if err != nil {
		return nil, err
	}
	marks := ParseBookmarks(b)
	for name, n := range marks {
		if _, ok := cl.Rev(n); !ok || n.IsNull() {
			delete(marks, name)
		}
	}
	return marks, nil
}

func (r *Repo) readPhaseRoots() (PhaseRoots, error) {
	b, err := r.readSmall("store/phaseroots")
	if err != nil {
		return nil, err
	}
	return ParsePhaseRoots(b)
}

// readFiltered returns the changesets that clients don't see: hg's view
// "served", without what is hidden and what is secret; and those that are
// obsolete, seen or not. nil means none.
func (r *Repo) readFiltered(st *state) (set, obsolete *dag.Set, err error) {
	if set, obsolete, err = r.readHidden(st); err != nil {
		return nil, nil, err
	}
	for _, rev := range st.phases.NonPublic() {
		if st.phases.Phase(rev) >= hg.Secret {
			if set == nil {
				set = dag.NewSet(st.changelog.Len())
			}
			set.Add(rev)
		}
	}
	return set, obsolete, nil
}

// readHidden returns the changesets that are obsolete and that nothing visible
// stands on, and all that are obsolete; nil if there are none.
func (r *Repo) readHidden(st *state) (hidden, obsolete *dag.Set, err error) {
	b, err := r.readSmall("store/obsstore")
	if err != nil || len(b) == 0 {
		return nil, nil, err
	}
	obs, err := ParseObsStore(b)
	if err != nil {
		return nil, nil, fmt.Errorf("store/obsstore: %w", err)
	}
	if obsolete = ObsoleteRevs(st.changelog, st.phases, obs); obsolete.Len() == 0 {
		return nil, nil, nil
	}
	pinned, err := r.pinned(st)
	if err != nil {
		return nil, nil, err
	}
	hidden = HiddenRevs(st.changelog, st.phases, obsolete, pinned)
	if hidden.Len() == 0 {
		hidden = nil
	}
	return hidden, obsolete, nil
}

// pinned returns the changesets that stay visible though they are obsolete.
func (r *Repo) pinned(st *state) ([]hg.Rev, error) {
	nodes, err := WorkingParents(r.fs)
	if err != nil {
		return nil, err
	}
	for _, n := range st.bookmarks {
		nodes = append(nodes, n)
	}
	local, err := r.readSmall("localtags")
	if err != nil {
		return nil, err
	}
	for _, e := range parseTags(local) {
		nodes = append(nodes, e.node)
	}
	var revs []hg.Rev
	for _, n := range nodes {
		if rev, ok := st.changelog.Rev(n); ok && rev != hg.NullRev {
			revs = append(revs, rev)
		}
	}
	return revs, nil
}
