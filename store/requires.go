package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// Requirements say how a repository is stored (hg help
// internals.requirements). Only those that vcsd honours ever get here.
type Requirements struct {
	names []string // sorted

	// Shared: the store is that of another repository. Store is the other's
	// .hg directory; without Shared it is empty, which is the .hg at hand.
	Shared bool
	Store  string

	ShareSafe bool // the store has requirements of its own

	FNCache, DotEncode bool // how names are encoded

	GeneralDelta      bool // a delta's base may be any revision
	SparseRevlog      bool // delta chains may span much of the file
	Zstd              bool // new chunks are compressed with zstd, else zlib
	PersistentNodemap bool // hg keeps node tables beside changelog and manifest

	BookmarksInStore bool // store/bookmarks, else bookmarks

	InternalPhase, ArchivedPhase bool // phases above secret may occur
}

// The requirements by name.
const (
	reqStore     = "store"
	reqRevlogV1  = "revlogv1"
	reqShareSafe = "share-safe"
	reqShared    = "shared"
	reqRelShared = "relshared"
)

// fields finds what a requirement sets; nil is a requirement that changes
// nothing for a server. What has no entry here is refused.
var fields = map[string]func(*Requirements) *bool{
	reqStore:    nil,
	reqRevlogV1: nil,

	reqShareSafe: func(r *Requirements) *bool { return &r.ShareSafe },
	reqShared:    func(r *Requirements) *bool { return &r.Shared },
	reqRelShared: func(r *Requirements) *bool { return &r.Shared },

	"fncache":                 func(r *Requirements) *bool { return &r.FNCache },
	"dotencode":               func(r *Requirements) *bool { return &r.DotEncode },
	"generaldelta":            func(r *Requirements) *bool { return &r.GeneralDelta },
	"sparserevlog":            func(r *Requirements) *bool { return &r.SparseRevlog },
	"revlog-compression-zstd": func(r *Requirements) *bool { return &r.Zstd },
	"exp-compression-zstd":    func(r *Requirements) *bool { return &r.Zstd },
	"exp-compression-zlib":    nil,
	"exp-compression-none":    nil,
	"persistent-nodemap":      func(r *Requirements) *bool { return &r.PersistentNodemap },
	"bookmarksinstore":        func(r *Requirements) *bool { return &r.BookmarksInStore },
	"internal-phase-2":        func(r *Requirements) *bool { return &r.InternalPhase },
	"exp-archived-phase":      func(r *Requirements) *bool { return &r.ArchivedPhase },

	// These concern the working copy alone.
	"exp-sparse":              nil,
	"dirstate-v2":             nil,
	"dirstate-tracked-key-v1": nil,
}

// streamFixed are those that a stream clone takes over, because they show in
// the bytes of the store.
var streamFixed = []string{
	"bookmarksinstore", "exp-archived-phase", "generaldelta", "internal-phase-2",
	"revlog-compression-zstd", reqRevlogV1, "sparserevlog",
}

// maxRequiresBytes bounds a requires or sharedpath file.
const maxRequiresBytes = 1 << 20

// ReadRequirements reads what the repository requires whose .hg directory is
// the root of fsys. One that vcsd can't honour is an *hg.Abort that names it.
func ReadRequirements(fsys vfs.FS) (Requirements, error) {
	names, err := readRequires(fsys, "requires")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Requirements{}, err
	}
	store, err := readSharedPath(fsys, names)
	if err != nil {
		return Requirements{}, err
	}
	own := slices.Contains(names, reqShareSafe)
	if store != "" {
		theirs, err := readRequires(fsys, path.Join(store, "requires"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Requirements{}, err
		}
		if safe := slices.Contains(theirs, reqShareSafe); safe != own {
			return Requirements{}, shareMismatch(safe)
		}
	}
	if own {
		more, err := readRequires(fsys, path.Join(store, "store/requires"))
		if err != nil {
			return Requirements{}, err
		}
		names = append(names, more...)
	}
	r, err := NewRequirements(names...)
	r.Store = store
	return r, err
}

func shareMismatch(sourceIsSafe bool) error {
	e := hg.Abortf("share source does not support share-safe requirement")
	if sourceIsSafe {
		e = hg.Abortf("version mismatch: source uses share-safe functionality while the current share does not")
	}
	e.Hint = "see `hg help config.format.use-share-safe` for more information"
	return e
}

// NewRequirements returns what a set of names requires.
func NewRequirements(names ...string) (Requirements, error) {
	r := Requirements{names: slices.Compact(slices.Sorted(slices.Values(names)))}
	var unknown []string
	for _, name := range r.names {
		field, ok := fields[name]
		switch {
		case !ok && !isAlnum(name):
			return Requirements{}, hg.Abortf(".hg/requires file is corrupt")
		case !ok:
			unknown = append(unknown, name)
		case field != nil:
			*field(&r) = true
		}
	}
	if len(unknown) > 0 {
		e := hg.Abortf("repository requires features unknown to this Mercurial: %s", strings.Join(unknown, " "))
		e.Hint = "see https://mercurial-scm.org/wiki/MissingRequirement for more information"
		return Requirements{}, e
	}
	for _, name := range []string{reqRevlogV1, reqStore} {
		if !r.Has(name) {
			e := hg.Abortf("repository lacks the requirement %s: its format is too old", name)
			e.Hint = "hg debugupgraderepo can convert it"
			return Requirements{}, e
		}
	}
	return r, nil
}

// isAlnum tells whether a requirement begins as all of them do.
func isAlnum(name string) bool {
	return name != "" && (isLetter(name[0]) || '0' <= name[0] && name[0] <= '9')
}

// Names returns the requirements, sorted. The slice is the caller's.
func (r Requirements) Names() []string { return slices.Clone(r.names) }

// Has reports whether the repository has a requirement.
func (r Requirements) Has(name string) bool {
	_, ok := slices.BinarySearch(r.names, name)
	return ok
}

// Encoder returns how the store encodes the names of files.
func (r Requirements) Encoder() Encoder {
	switch {
	case r.FNCache && r.DotEncode:
		return EncodeDot
	case r.FNCache:
		return EncodeHybrid
	}
	return EncodePlain
}

// Streamed returns the requirements that a clone takes over when it gets the
// store's files as they are, sorted.
func (r Requirements) Streamed() []string {
	var names []string
	for _, name := range streamFixed {
		if r.Has(name) {
			names = append(names, name)
		}
	}
	return names
}

// readRequires reads the lines of a requires file.
func readRequires(fsys vfs.FS, name string) ([]string, error) {
	b, err := vfs.ReadFile(fsys, name, maxRequiresBytes)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// readSharedPath returns the .hg directory whose store a share uses; it is
// empty for a repository with a store of its own.
func readSharedPath(fsys vfs.FS, names []string) (string, error) {
	relative := slices.Contains(names, reqRelShared)
	if !relative && !slices.Contains(names, reqShared) {
		return "", nil
	}
	b, err := vfs.ReadFile(fsys, "sharedpath", maxRequiresBytes)
	if err != nil {
		return "", err
	}
	store := strings.TrimRight(string(b), "\n")
	if store == "" || !relative && !path.IsAbs(store) {
		return "", hg.Abortf(".hg/sharedpath is not an absolute path: %q", store)
	}
	if _, err := fsys.Stat(store); err != nil {
		return "", fmt.Errorf(".hg/sharedpath points to nonexistent directory %s: %w", store, err)
	}
	return store, nil
}
