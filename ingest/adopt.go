package ingest

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/refs"
	"vcsd/store"
)

// stateAtTip returns the repository as the next push will find it. What a
// local hg did since the record of tip becomes a record of its own, whose tip
// is returned. The caller holds the store's lock.
func (p *Pipeline) stateAtTip(ctx context.Context, tip refs.Tip) (*store.View, refs.Tip, error) {
	if _, err := p.repo.Refresh(); err != nil {
		return nil, tip, err
	}
	view, err := p.repo.View(ctx)
	if err != nil {
		return nil, tip, err
	}
	err = guarded(func() (err error) {
		moved, err := p.markersMoved(ctx, tip)
		if err != nil || !moved && view.Len() == tip.ChangelogLen && lastNode(view) == tip.Node {
			return err
		}
		tip, err = p.adopt(ctx, view, tip)
		return err
	})
	if err != nil {
		view.Close()
		return nil, tip, err
	}
	return view, tip, nil
}

// A markerFile tells whether the file of markers is as it was.
type markerFile struct {
	size       int64
	dev, inode uint64
	at         journal.ID // the record that was linked last
}

// noteMarkers notes the file of markers as it is at a record. The caller holds
// the store's lock.
func (p *Pipeline) noteMarkers(at journal.ID) error {
	now, err := p.markerFile(at)
	if err == nil {
		p.markersAt = &now
	}
	return err
}

func (p *Pipeline) markerFile(at journal.ID) (markerFile, error) {
	info, err := p.fs.Stat(store.ObsStorePath)
	if errors.Is(err, fs.ErrNotExist) {
		return markerFile{at: at}, nil
	}
	return markerFile{info.Size, info.Dev, info.Ino, at}, err
}

// markersMoved tells whether somebody else changed the file of markers since
// this process linked the record at the tip. Where that is not known, what
// there is is made durable: later records go on where it ended. The caller holds
// the store's lock.
func (p *Pipeline) markersMoved(ctx context.Context, tip refs.Tip) (bool, error) {
	now, err := p.markerFile(tipID(tip))
	if err != nil {
		return false, err
	}
	if known := p.markersAt; known != nil && known.at == now.at {
		return *known != now, nil
	}
	if now.size > 0 {
		err = p.finishedFirst(ctx, tipID(tip), func() error {
			return p.syncAlone(ctx, journal.TouchedFiles(store.ObsStorePath), []string{store.ObsStorePath}, nil)
		})
	}
	if err == nil {
		p.markersAt = &now
	}
	return false, err
}

func lastNode(v *store.View) hg.Node { return v.Changelog().Node(hg.Rev(v.Len() - 1)) }

// adopt publishes a record that says: the store was changed from outside. It
// returns the tip after it.
//
// Order: what the other program wrote is synced, as later records go on where
// it ended and can't bring it back; the checkpoint moves up to the record
// before, as records must not be applied over that change again; then the
// record is published.
func (p *Pipeline) adopt(ctx context.Context, view *store.View, tip refs.Tip) (refs.Tip, error) {
	touched, err := p.touchedOutside(view, tip)
	if err != nil {
		return tip, err
	}
	p.checkpoint.touchOutside(touched)
	err = p.finishedFirst(ctx, tipID(tip), func() error { return p.checkpoint.checkpoint(ctx, p) })
	if err != nil {
		return tip, err
	}
	rec := &journal.Record{
		Seq: tip.Seq + 1, Prev: tip.Digest, Time: time.Now().UTC(), Node: p.node, Kind: journal.Adopt,
		ChangelogLen: view.Len(), Tip: lastNode(view),
	}
	p.log.InfoContext(ctx, "local changes adopted", "seq", rec.Seq, "changesets", rec.ChangelogLen)
	return p.publishRecord(ctx, &decided{view: view, pending: newPending(view), tip: tip}, rec, nil)
}

// touchedOutside returns the files that another program has written since the
// tip: those of the changesets it added, or if it did anything else, all.
func (p *Pipeline) touchedOutside(view *store.View, tip refs.Tip) (*journal.Touched, error) {
	n := tip.ChangelogLen
	cl := view.Changelog()
	if tip.Seq == 0 || n > cl.Len() || cl.Node(hg.Rev(n-1)) != tip.Node || cl.Len()-n > maxAdoptedChangesets {
		files, err := storeFiles(p.fs, "store", nil)
		return journal.TouchedFiles(append(files, p.repo.BookmarksPath())...), err
	}
	files := []string{
		"store/00changelog.i", "store/00changelog.d", "store/00manifest.i", "store/00manifest.d",
		"store/fncache", "store/phaseroots", "store/obsstore", p.repo.BookmarksPath(),
	}
	for r := hg.Rev(n); int(r) < cl.Len(); r++ {
		text, err := cl.Text(r)
		if err != nil {
			return nil, err
		}
		c, err := store.ParseChangeset(text)
		if err != nil {
			return nil, err
		}
		for _, f := range c.Files() {
			if store.CheckPath(f) == nil {
				files = append(files, p.repo.FilelogRadix(string(f))+".i", p.repo.FilelogData(string(f)))
			}
		}
	}
	return journal.TouchedFiles(files...), nil
}

// maxAdoptedChangesets is up to how many changesets it is worth to look which
// files they touch.
const maxAdoptedChangesets = 10_000

// storeFiles appends the regular files below dir to files.
func storeFiles(fsys vfs.FS, dir string, files []string) ([]string, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			if files, err = storeFiles(fsys, name, files); err != nil {
				return nil, err
			}
		case e.Type()&fs.ModeType == 0:
			files = append(files, name)
		}
	}
	return files, nil
}
