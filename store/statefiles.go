package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// sameFile tells whether a file is still the one that it was, which may have
// grown.
func (p filePrint) sameFile(now filePrint) bool {
	return p.dev == now.dev && p.inode == now.inode && p.size <= now.size
}

// rewrote tells whether the changelog is not the old one with more at its end.
func (f fingerprint) rewrote(old fingerprint) bool {
	a, b := old.changelog, f.changelog
	return b.size < a.size || b.inode != a.inode || b.dev != a.dev ||
		f.wroteAgain(old)
}

// wroteAgain tells whether the changelog is the old file, as long as it was, and
// was written to: by who made sure that what stood there gets to the disk, or by
// who took changesets away and added others.
func (f fingerprint) wroteAgain(old fingerprint) bool {
	a, b := old.changelog, f.changelog
	return b.inode == a.inode && b.dev == a.dev && b.size == a.size && b.mtime != a.mtime
}

func readFingerprint(fsys vfs.FS, reqs Requirements) (fp fingerprint, err error) {
	for _, f := range []struct {
		name string
		to   *filePrint
	}{
		{"store/00changelog.i", &fp.changelog},
		{phaseRootsName, &fp.phaseRoots},
		{reqs.BookmarksPath(), &fp.bookmarks},
		{ObsStorePath, &fp.obsStore},
	} {
		info, err := fsys.Stat(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fp, err
		}
		*f.to = printOf(info)
	}
	return fp, nil
}

func printOf(info vfs.Info) filePrint {
	return filePrint{info.Size, info.ModTime.UnixNano(), info.Dev, info.Ino}
}

// BookmarksPath returns where bookmarks are kept, relative to .hg.
func (r *Repo) BookmarksPath() string { return r.reqs.BookmarksPath() }

// BookmarksPath returns where bookmarks are kept, relative to .hg.
func (r Requirements) BookmarksPath() string {
	if r.BookmarksInStore {
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

// FNCacheAppend returns what adds to the list of filelogs those names that it
// lacks: these names, the bytes, and the offset to write them at. It is the truth
// for as long as the caller holds the store's lock. The offset is -1 if the file
// ends inside a name, as a killed program may have left it: hg refuses to read
// it, nothing can be appended to it, and the bytes are to replace it.
func (r *Repo) FNCacheAppend(names []string) (missing []string, data []byte, off int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cache, err := r.fncacheLocked()
	if err != nil {
		return nil, nil, 0, err
	}
	for _, n := range names {
		if !cache.Has(n) {
			missing = append(missing, n)
		}
	}
	if cache.Unterminated() {
		return missing, EncodeFNCache(append(cache.Names(), missing...)), -1, nil
	}
	data, off = cache.AppendForm(missing)
	return missing, data, off, nil
}

func (r *Repo) fncacheLocked() (*FNCache, error) {
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
	return r.fncache, corrupt(fncacheName, err)
}

// ExpectFNCache tells that the change planned for missing names will be made.
// If it is not made, the size tells, and the file is read. The caller holds the
// store's lock.
func (r *Repo) ExpectFNCache(missing []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cache, err := r.fncacheLocked()
	if err != nil {
		return err
	}
	if cache.Unterminated() {
		r.fncache = nil // as the size may be the same afterwards
	} else {
		r.fncache = cache.Added(missing)
	}
	return nil
}

// readBookmarks returns the bookmarks that point to changesets there are, as
// hg does.
func (r *Repo) readBookmarks(cl *revlog.Snapshot) (map[string]hg.Node, error) {
	b, err := r.readSmall(r.BookmarksPath())
	if err != nil {
		return nil, err
	}
	marks := ParseBookmarks(b)
	for name, n := range marks {
		if _, ok := cl.Rev(n); !ok {
			delete(marks, name)
		}
	}
	return marks, nil
}

func (r *Repo) readPhaseRoots() (PhaseRoots, error) {
	b, err := r.readSmall(phaseRootsName)
	if err != nil {
		return nil, err
	}
	roots, err := ParsePhaseRoots(b)
	return roots, corrupt(phaseRootsName, err)
}

// phaseRootsName is where the phases are kept, relative to .hg.
const phaseRootsName = "store/phaseroots"

// readHidden returns the changesets that hg shows nobody: those that are
// obsolete and that nothing visible stands on, and those in phases for that; and
// all that are obsolete. nil means none.
func (r *Repo) readHidden(st *state) (hidden, obsolete *dag.Set, err error) {
	if st.obs, err = r.readObsStore(st.print.obsStore); err != nil {
		return nil, nil, err
	}
	obsolete = ObsoleteRevs(st.changelog, st.phases, st.obs)
	if obsolete.Len() == 0 {
		obsolete = nil
		if !st.phases.hides() {
			return nil, nil, nil
		}
	}
	pinned, err := r.pinned(st.changelog, st.bookmarks)
	if err != nil {
		return nil, nil, err
	}
	hidden = HiddenRevs(st.changelog, st.phases, obsolete, pinned)
	if hidden.Len() == 0 {
		hidden = nil
	}
	return hidden, obsolete, nil
}

// ObsStorePath is where obsolescence markers are kept, relative to .hg.
const ObsStorePath = "store/obsstore"

// readObsStore returns the markers of the file as print has it. Where it only
// grew, what it was is not read again. The caller holds mu.
func (r *Repo) readObsStore(print filePrint) (*ObsStore, error) {
	if print.size == 0 {
		r.obs, r.obsFile = nil, print
		return nil, nil
	}
	if r.obs != nil && print == r.obsFile {
		return r.obs, nil
	}
	obs, err := r.obs.next(r.fs, print.size, r.obsFile.sameFile(print))
	if err != nil {
		return nil, err
	}
	if obs.torn {
		if err := r.checkTorn(obs, print); err != nil {
			return nil, err
		}
	}
	r.obs, r.obsFile = obs, print
	return obs, nil
}

// checkTorn tells whether a marker that isn't whole is one that somebody is
// writing, with the store's lock, or was until now.
func (r *Repo) checkTorn(obs *ObsStore, print filePrint) error {
	// The lock is a link to nowhere.
	if _, err := r.fs.Lstat(LockName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := r.fs.Stat(ObsStorePath)
	if err != nil || printOf(info) != print {
		return err // the next look sees what there is now
	}
	return obs.tornError()
}

// next returns the store of a file of size bytes, which perhaps is the one
// that s was read from and has only grown.
func (s *ObsStore) next(fsys vfs.FS, size int64, grown bool) (_ *ObsStore, err error) {
	if size > maxSmallFileBytes {
		return nil, &CorruptError{ObsStorePath, fmt.Errorf("it has %d bytes", size)}
	}
	f, err := fsys.Open(ObsStorePath)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	read := func(from int64) ([]byte, error) {
		b := make([]byte, size-from)
		_, err := io.ReadFull(io.NewSectionReader(f, from, size-from), b)
		return b, err
	}
	if grown && s.Len() > 0 && size >= s.size {
		b, err := read(s.size - int64(len(s.tail)))
		if err != nil {
			return nil, err
		}
		// Who strips markers and then adds some may leave a file that only grew.
		if bytes.HasPrefix(b, s.tail) {
			next, err := s.continued(b[len(s.tail):])
			return next, corrupt(ObsStorePath, err)
		}
	}
	b, err := read(0)
	if err != nil {
		return nil, err
	}
	next, err := ParseObsStore(b)
	return next, corrupt(ObsStorePath, err)
}

// pinned returns the changesets that stay visible though they are obsolete.
func (r *Repo) pinned(g RevGraph, bookmarks map[string]hg.Node) ([]hg.Rev, error) {
	nodes, err := WorkingParents(r.fs)
	if err != nil {
		return nil, err
	}
	for _, n := range bookmarks {
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
		if rev, ok := g.Rev(n); ok && rev != hg.NullRev {
			revs = append(revs, rev)
		}
	}
	return revs, nil
}
