package store

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"vcsd/hg"
)

// tagsFile is the file in the working copy that holds the tags.
const tagsFile = ".hgtags"

// A tagEntry is where a tag points to and where it pointed before.
type tagEntry struct {
	node    hg.Node // NullNode: the tag was removed
	history []hg.Node
}

// tagCache keeps the tags of a state once somebody asked for one.
type tagCache struct {
	mu   sync.Mutex
	tags map[string]tagEntry // guarded by mu; nil until read
}

func (v *View) tags(ctx context.Context) (map[string]tagEntry, error) {
	c := &v.state.tags
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tags != nil {
		return c.tags, nil
	}
	all := make(map[string]tagEntry)
	if err := v.readTags(ctx, all); err != nil {
		return nil, err
	}
	local, err := v.repo.readSmall("localtags")
	if err != nil {
		return nil, err
	}
	mergeTags(all, parseTags(local))
	c.tags = all
	return all, nil
}

// readTags merges the tags files of all heads, oldest head first: where they
// disagree the newest head wins, unless its tag is known to be superseded.
func (v *View) readTags(ctx context.Context, all map[string]tagEntry) error {
	log, err := v.Filelog(ctx, tagsFile)
	if err != nil {
		return err
	}
	defer log.Close()
	if log.Len() == 0 {
		return nil
	}
	seen := make(map[hg.Node]bool)
	for _, head := range v.HeadRevs() {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := v.fileNode(head, tagsFile)
		if err != nil {
			return err
		}
		if n.IsNull() || seen[n] {
			continue
		}
		seen[n] = true
		r, ok := log.Rev(n)
		if !ok {
			continue
		}
		text, err := log.Text(r)
		if err != nil {
			return err
		}
		_, data := SplitFileText(text)
		mergeTags(all, parseTags(data))
	}
	return nil
}

// fileNode returns the revision of a file in a changeset, NullNode if the
// changeset does not have the file.
func (v *View) fileNode(r hg.Rev, file string) (hg.Node, error) {
	text, err := v.Changelog().Text(r)
	if err != nil {
		return hg.NullNode, err
	}
	c, err := ParseChangeset(text)
	if err != nil {
		return hg.NullNode, err
	}
	mr, ok := v.Manifest().Rev(c.Manifest)
	if !ok || mr == hg.NullRev {
		return hg.NullNode, nil
	}
	m, err := v.Manifest().Text(mr)
	if err != nil {
		return hg.NullNode, err
	}
	e, _, err := FindEntry(m, file)
	return e.Node, err
}

// parseTags reads a tags file: a line "NODE NAME" for each move of a tag, the
// last one counts. Lines that are not of that form are passed over, as hg does.
func parseTags(b []byte) map[string]tagEntry {
	tags := make(map[string]tagEntry)
	for line := range bytes.Lines(b) {
		hexNode, name, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !ok {
			continue
		}
		n, err := hg.ParseNode(hexNode)
		if err != nil {
			continue
		}
		key := string(bytes.TrimSpace(name))
		e, had := tags[key]
		if had {
			e.history = append(e.history, e.node)
		}
		e.node = n
		tags[key] = e
	}
	return tags
}

// mergeTags puts newer tags over all. One that all already saw replaced does
// not come back.
func mergeTags(all, newer map[string]tagEntry) {
	for name, a := range newer {
		b, ok := all[name]
		if !ok {
			all[name] = a
			continue
		}
		if a.node != b.node && slices.Contains(b.history, a.node) &&
			(!slices.Contains(a.history, b.node) || len(b.history) > len(a.history)) {
			a.node = b.node
		}
		for _, n := range b.history {
			if !slices.Contains(a.history, n) {
				a.history = append(a.history, n)
			}
		}
		all[name] = a
	}
}
