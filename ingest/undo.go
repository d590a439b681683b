package ingest

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"vcsd/journal"
)

// undoFile is what hg rollback looks for.
const undoFile = "store/undo"

// dropUndo removes what the last transaction of a local hg left for hg rollback,
// which would truncate the store to what it was before that, and take away
// pushes that came since. The caller holds the store's lock.
func (p *Pipeline) dropUndo() error {
	if _, err := p.fs.Stat(undoFile); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// First what makes the others count.
	if err := p.fs.Remove(undoFile); err != nil {
		return err
	}
	// The checkpoint makes it durable that they are gone.
	p.checkpoint.touch(journal.TouchedFiles(undoFile))
	for _, dir := range []string{"store", ""} {
		entries, err := p.fs.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "undo.") {
				continue
			}
			if err := p.fs.Remove(path.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
