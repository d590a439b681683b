package hgtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vcsd/hg"
)

// A Rev is one revision as a changegroup of version 02 carries it. Every field
// goes out as it stands, so that tests can make it wrong.
type Rev struct {
	Node, P1, P2, Base, Link hg.Node
	Delta                    []byte
}

// NewRev returns the revision of a full text, sent as a delta against nothing.
func NewRev(p1, p2 hg.Node, text []byte) Rev {
	return Rev{Node: hg.HashText(p1, p2, text), P1: p1, P2: p2, Delta: FullDelta(text)}
}

// FullDelta returns the delta that makes text out of the empty text.
func FullDelta(text []byte) []byte { return Fragment(0, 0, text) }

// Fragment returns a delta of one fragment: bytes from start to end of the base
// are replaced by data.
func Fragment(start, end uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, start)
	b = binary.BigEndian.AppendUint32(b, end)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// A FileRev is a revision of a file.
type FileRev struct {
	Name string
	Rev  Rev
}

// A Changeset is made in memory, without hg, and may be made wrong.
type Changeset struct {
	Changelog, Manifest Rev
	Files               []FileRev

	branch string
	files  map[string]hg.Node // what the manifest lists
}

// NewChangeset returns a changeset with the files of its parent (nil: none) and
// those in files, by their texts. An empty branch means default.
func NewChangeset(parent *Changeset, branch, message string, files map[string]string) *Changeset {
	c := &Changeset{branch: branch, files: map[string]hg.Node{}}
	var p1, m1 hg.Node
	if parent != nil {
		p1, m1, c.files = parent.Changelog.Node, parent.Manifest.Node, maps.Clone(parent.files)
	}
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		r := NewRev(c.files[name], hg.NullNode, []byte(files[name]))
		c.files[name] = r.Node
		c.Files = append(c.Files, FileRev{name, r})
	}
	c.Manifest = NewRev(m1, hg.NullNode, c.manifestText())
	c.SetChangelog(p1, message, names)
	return c
}

func (c *Changeset) manifestText() []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		fmt.Fprintf(&b, "%s\x00%s\n", name, c.files[name])
	}
	return []byte(b.String())
}

// SetChangelog makes the changelog revision anew, for the manifest as it
// stands, and links all revisions of c to it.
func (c *Changeset) SetChangelog(p1 hg.Node, message string, files []string) {
	extra := ""
	if c.branch != "" {
		extra = " branch:" + c.branch
	}
	text := fmt.Sprintf("%s\nBob <bob@example.com>\n1700000000 0%s\n%s\n\n%s", c.Manifest.Node, extra, strings.Join(files, "\n"), message)
	c.Changelog = NewRev(p1, hg.NullNode, []byte(text))
	link := c.Changelog.Node
	c.Changelog.Link, c.Manifest.Link = link, link
	for i := range c.Files {
		c.Files[i].Rev.Link = link
	}
}

// Node returns the changeset's node.
func (c *Changeset) Node() hg.Node { return c.Changelog.Node }

// ChangegroupOf writes changesets, parents first, as version 02.
func ChangegroupOf(changesets ...*Changeset) []byte {
	var b []byte
	for _, c := range changesets {
		b = c.Changelog.append(b)
	}
	b = append(b, 0, 0, 0, 0)
	files := map[string][]Rev{}
	for _, c := range changesets {
		b = c.Manifest.append(b)
		for _, f := range c.Files {
			files[f.Name] = append(files[f.Name], f.Rev)
		}
	}
	b = append(b, 0, 0, 0, 0)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b = appendChunk(b, []byte(name))
		for _, r := range files[name] {
			b = r.append(b)
		}
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, 0, 0, 0, 0)
}

func (r Rev) append(b []byte) []byte {
	chunk := slices.Concat(r.Node[:], r.P1[:], r.P2[:], r.Base[:], r.Link[:], r.Delta)
	return appendChunk(b, chunk)
}

// appendChunk writes a length, which counts itself, and the data.
func appendChunk(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data)+4)), data...)
}
