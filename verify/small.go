package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
)

// The small files that are replaced whole, relative to .hg.
const (
	phaseRootsName = "store/phaseroots"
	journalName    = "store/journal" // of a transaction of hg
)

// smallFiles are those that a writer writes last.
type smallFiles struct {
	bookmarks, phaseRoots []byte
}

func (v *verifier) readSmall() (s smallFiles, err error) {
	if s.bookmarks, err = v.readWhole(v.reqs.BookmarksPath()); err != nil {
		return s, err
	}
	s.phaseRoots, err = v.readWhole(phaseRootsName)
	return s, err
}

// readWhole reads a file; one that is missing is empty, one that can't be read
// is reported.
func (v *verifier) readWhole(name string) ([]byte, error) {
	b, err := vfs.ReadFile(v.fs, name, maxSmallFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		v.reportErr(name, err)
	}
	return b, nil
}

// checkSmall checks the small files against the changelog. Phase roots are
// written before the changesets that they name.
func (v *verifier) checkSmall(s smallFiles) error {
	for _, f := range []struct {
		bytes []byte
		read  func(smallFiles) []byte
		check func([]byte, hasNode) []Finding
	}{
		{s.bookmarks, func(s smallFiles) []byte { return s.bookmarks }, v.checkBookmarks},
		{s.phaseRoots, func(s smallFiles) []byte { return s.phaseRoots }, v.checkPhaseRoots},
	} {
		found := f.check(f.bytes, v.hasChangeset)
		if len(found) > 0 {
			_, err := v.settle(func() (bool, error) {
				now, err := v.readSmall()
				if err == nil {
					v.withChangelogNow(func(has hasNode) { found = f.check(f.read(now), has) })
				}
				return len(found) == 0, err
			})
			if err != nil {
				return err
			}
		}
		for _, f := range found {
			v.report(f)
		}
	}
	return v.checkObsStore()
}

// hasNode tells whether there is a changeset, or that it can't be told.
type hasNode func(hg.Node) bool

func (v *verifier) hasChangeset(n hg.Node) bool {
	if v.changelog == nil {
		return true
	}
	_, ok := v.changelog.snap.Rev(n)
	return ok
}

func (v *verifier) checkBookmarks(b []byte, has hasNode) (found []Finding) {
	f := Finding{File: v.reqs.BookmarksPath(), Rev: hg.NullRev, Remedy: remedyMark}
	for line := range bytes.Lines(b) {
		text := strings.TrimSpace(string(line))
		hexNode, mark, ok := strings.Cut(text, " ")
		n, err := hg.ParseNode(hexNode)
		switch {
		case text == "":
			continue
		case !ok || err != nil:
			f.Node, f.Problem = hg.NullNode, fmt.Sprintf("line %q is no bookmark", text)
		case !has(n):
			f.Node, f.Problem = n, fmt.Sprintf("bookmark %q points to this changeset, which is missing", mark)
		default:
			continue
		}
		found = append(found, f)
	}
	return found
}

func (v *verifier) checkPhaseRoots(b []byte, has hasNode) (found []Finding) {
	f := Finding{File: phaseRootsName, Rev: hg.NullRev}
	roots, err := store.ParsePhaseRoots(b)
	if err != nil {
		f.Problem, f.Remedy = err.Error(), remedyRestore
		return []Finding{f}
	}
	for _, phase := range []hg.Phase{hg.Public, hg.Draft, hg.Secret, hg.Archived, hg.Internal} {
		for _, n := range roots[phase] {
			if !has(n) {
				f.Node, f.Problem, f.Remedy = n, "this root of phase "+phase.String()+" is missing", remedyRoot
				found = append(found, f)
			}
		}
	}
	return found
}

// checkObsStore reads the obsolescence markers, which are appended to.
func (v *verifier) checkObsStore() error {
	problem := ""
	ok, err := v.settle(func() (bool, error) {
		b, err := vfs.ReadFile(v.fs, store.ObsStorePath, maxSmallFileBytes)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			problem = err.Error()
			return false, nil
		}
		obs, err := store.ParseObsStore(b)
		if err == nil && obs.Torn() {
			err = errors.New("it ends inside a marker")
		}
		if err != nil {
			problem = err.Error()
		}
		return err == nil, nil
	})
	if err == nil && !ok {
		v.reportFile(store.ObsStorePath, remedyRestore, "%s", problem)
	}
	return err
}

// checkTransaction looks for one that a local hg left behind.
func (v *verifier) checkTransaction() error {
	gone, err := v.settle(func() (bool, error) {
		there, err := store.HasAbandoned(v.fs)
		return !there, err
	})
	if err == nil && !gone {
		v.reportFile(journalName, remedyRecover, "a transaction of a local hg was abandoned")
	}
	return err
}
