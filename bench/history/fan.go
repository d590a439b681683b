package history

import (
	"fmt"
	"io"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A Fan is a history of one root and changesets that all have it as their
// parent: as many heads, or as many branches.
type Fan struct {
	Heads    int
	Branches bool // each head on a branch of its own
}

// WriteBundle writes the history as an uncompressed bundle2 stream, as hg
// unbundle reads it.
func (d Fan) WriteBundle(w io.Writer) error {
	var g group
	file := hg.HashText(hg.NullNode, hg.NullNode, []byte("root\n"))
	text := manifestLine("root", file)
	manifest := hg.HashText(hg.NullNode, hg.NullNode, text)
	var root hg.Node
	for i := range d.Heads + 1 {
		branch, files := "default", []string(nil)
		if i == 0 {
			files = []string{"root"}
		} else if d.Branches {
			branch = fmt.Sprintf("branch-%06d", i)
		}
		text := changelogText(manifest, branch, i, files, fmt.Sprintf("changeset %d", i))
		node := hg.HashText(root, hg.NullNode, text)
		g.changelog = appendRev(g.changelog, node, root, hg.NullNode, hg.NullNode, node, hgtest.FullDelta(text))
		if i == 0 {
			root = node
		}
	}
	g.manifest = appendRev(nil, manifest, hg.NullNode, hg.NullNode, hg.NullNode, root, hgtest.FullDelta(text))
	g.files = []fileGroup{{"root", appendRev(nil, file, hg.NullNode, hg.NullNode, hg.NullNode, root, hgtest.FullDelta([]byte("root\n")))}}
	return writeBundle(w, &g)
}
