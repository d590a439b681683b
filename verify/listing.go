package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
)

// fncacheName is the list of filelogs, relative to .hg.
const fncacheName = "store/fncache"

// maxSmallFileBytes bounds the files that are read whole.
const maxSmallFileBytes = 1 << 30

// A listing is the set of a store's filelog files, as they are called there
// before encoding: "data/a.i".
type listing struct {
	names map[string]struct{}
}

func (l *listing) sorted() []string { return slices.Sorted(maps.Keys(l.names)) }

// openListing reads the fncache, or in a store without one the directories.
func (v *verifier) openListing() error {
	if !v.reqs.FNCache {
		l := &listing{names: make(map[string]struct{})}
		if err := v.walkData("data", l); err != nil {
			return err
		}
		v.listing = l
		return nil
	}
	whole, err := v.settle(func() (bool, error) {
		l, whole, err := v.readFNCache()
		var corrupt *store.CorruptError
		if errors.As(err, &corrupt) {
			return false, nil
		}
		v.listing = l
		return whole, err
	})
	if err != nil {
		return err
	}
	switch {
	case v.listing == nil:
		_, _, err := v.readFNCache()
		v.reportFile(fncacheName, remedyFNCache, "%v", errors.Unwrap(err))
	case !whole:
		v.reportFile(fncacheName, remedyFNCache, "it ends inside a name")
	}
	return nil
}

// readFNCache reads the fncache. whole tells that it doesn't end inside a name.
func (v *verifier) readFNCache() (l *listing, whole bool, err error) {
	b, err := vfs.ReadFile(v.fs, fncacheName, maxSmallFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	c, err := store.ParseFNCache(b)
	if err != nil {
		return nil, false, &store.CorruptError{File: fncacheName, Err: err}
	}
	l = &listing{names: make(map[string]struct{}, c.Len())}
	for _, n := range c.Names() {
		l.names[n] = struct{}{}
	}
	return l, !c.Unterminated(), nil
}

// walkData adds the files below a directory of the store to l.
func (v *verifier) walkData(dir string, l *listing) error {
	entries, err := v.fs.ReadDir("store/" + dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		enc := dir + "/" + e.Name()
		if e.IsDir() {
			if err := v.walkData(enc, l); err != nil {
				return err
			}
			continue
		}
		if vfs.IsTempName(enc) {
			continue
		}
		name, ok := store.DecodePlain(enc)
		if !ok {
			v.reportFile("store/"+enc, remedyOrphan, "its name is none that hg makes")
			continue
		}
		l.names[store.DecodeDir(name)] = struct{}{}
	}
	return nil
}

// checkListed tells whether the listing has the files of a log.
func (v *verifier) checkListed(l *log) error {
	if v.listing == nil {
		return nil
	}
	want := []string{"data/" + l.path + ".i"}
	if !l.snap.Size().Inline {
		want = append(want, "data/"+l.path+".d")
	}
	for _, name := range want {
		if _, ok := v.listing.names[name]; ok {
			continue
		}
		// A log may have been split since.
		there, err := v.settle(func() (bool, error) {
			now, _, err := v.readFNCache()
			if err != nil || !v.reqs.FNCache {
				return false, nil
			}
			_, ok := now.names[name]
			return ok, nil
		})
		if err != nil {
			return err
		}
		if !there {
			v.report(Finding{File: fncacheName, Path: l.path, Rev: hg.NullRev, Problem: fmt.Sprintf("it lacks %s", store.EncodeDir(name)), Remedy: remedyFNCache})
		}
	}
	return nil
}

// reportIfStays reports a file that is listed and missing, unless it comes.
func (v *verifier) reportIfStays(name, onDisk string) error {
	there, err := v.settle(func() (bool, error) { return vfs.Exists(v.fs, onDisk) })
	if err == nil && !there {
		v.reportFile(fncacheName, remedyFNCache, "it lists %s, and there is no %s", store.EncodeDir(name), onDisk)
	}
	return err
}
