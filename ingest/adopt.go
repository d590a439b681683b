package ingest

import (
	"context"
	"io/fs"
	"path"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/store"
)

// stateAtTip returns the repository as the next push will find it. What a
// local hg did since the last record becomes a record of its own. The caller
// holds the store's lock.
func (p *Pipeline) stateAtTip(ctx context.Context) (*store.View, error) {
	if _, err := p.repo.Refresh(); err != nil {
		return nil, err
	}
	view, err := p.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	err = guarded(func() error {
		tip := p.knownTip()
		if view.Len() == tip.ChangelogLen && lastNode(view) == tip.Node {
			return nil
		}
		return p.adopt(ctx, view)
	})
	if err != nil {
		view.Close()
		return nil, err
	}
	return view, nil
}

func lastNode(v *store.View) hg.Node { return v.Changelog().Node(hg.Rev(v.Len() - 1)) }

// adopt publishes a record that says: the store was changed from outside.
//
// Order: what the other program wrote is synced, as later records go on where
// it ended and can't bring it back; the checkpoint moves up to the record
// before, as records must not be applied over that change again; then the
// record is published.
func (p *Pipeline) adopt(ctx context.Context, view *store.View) error {
	tip := p.knownTip()
	touched, err := p.touchedOutside(view)
	if err != nil {
		return err
	}
	p.checkpoint.touch(touched)
	if err := p.checkpoint.checkpoint(ctx, p); err != nil {
		return err
	}
	rec := &journal.Record{
		Seq: tip.Seq + 1, Prev: tip.Digest, Time: time.Now().UTC(), Node: p.node, Kind: journal.Adopt,
		ChangelogLen: view.Len(), Tip: lastNode(view),
	}
	p.log.InfoContext(ctx, "local changes adopted", "seq", rec.Seq, "changesets", rec.ChangelogLen)
	return p.publishRecord(ctx, &decided{view: view, pending: newPending(view)}, rec, nil)
}

// touchedOutside returns the files that another program has written since the
// tip: those of the changesets it added, or if it did anything else, all.
func (p *Pipeline) touchedOutside(view *store.View) (*journal.Touched, error) {
	tip := p.knownTip()
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
