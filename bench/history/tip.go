package history

import (
	"bytes"
	"fmt"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A Tip is a changeset on which further ones are built, each of which edits one
// file that this Tip alone knows.
type Tip struct {
	Node hg.Node

	manifestNode hg.Node
	manifest     []byte // text; replaced, never changed
	path, branch string
	file         hg.Node
	step         int
}

// NewTip returns the tip at a changeset with this manifest. What is built upon
// it lies on a branch and edits the file at path, which doesn't exist yet.
func NewTip(node, manifestNode hg.Node, manifest []byte, branch, path string) *Tip {
	return &Tip{Node: node, manifestNode: manifestNode, manifest: manifest, branch: branch, path: path}
}

// Fork returns a tip at the same changeset, for another branch and file.
func (t *Tip) Fork(branch, path string) *Tip {
	f := *t
	f.branch, f.path, f.file = branch, path, hg.NullNode
	return &f
}

// Grow makes a changeset on top of t, moves t to it, and returns the bundle
// that pushes it. The message makes its node differ from others'.
func (t *Tip) Grow(message string) []byte {
	parent := t.Node
	return push([]hg.Node{parent}, t.grow(message))
}

func (t *Tip) grow(message string) *group {
	t.step++
	text := fmt.Appendf(nil, "%s\nstep %d\n", message, t.step)
	file := hg.HashText(t.file, hg.NullNode, text)
	f := t.place()
	f.data = manifestLine(t.path, file)
	manifest := bytes.Join([][]byte{t.manifest[:f.start], f.data, t.manifest[f.end:]}, nil)
	manifestNode := hg.HashText(t.manifestNode, hg.NullNode, manifest)
	log := changelogText(manifestNode, t.branch, t.step, []string{t.path}, message)
	node := hg.HashText(t.Node, hg.NullNode, log)

	g := &group{
		changelog: appendRev(nil, node, t.Node, hg.NullNode, hg.NullNode, node, hgtest.FullDelta(log)),
		manifest:  appendRev(nil, manifestNode, t.manifestNode, hg.NullNode, t.manifestNode, node, appendFragment(nil, f)),
		files:     []fileGroup{{t.path, appendRev(nil, file, t.file, hg.NullNode, hg.NullNode, node, hgtest.FullDelta(text))}},
	}
	t.Node, t.manifestNode, t.manifest, t.file = node, manifestNode, manifest, file
	return g
}

// place finds where the manifest has t's file, or would have it.
func (t *Tip) place() (f fragment) {
	for rest := t.manifest; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		path, _, _ := bytes.Cut(rest[:n], []byte{0})
		switch c := bytes.Compare(path, []byte(t.path)); {
		case c == 0:
			f.end = f.start + n
			return f
		case c > 0:
			f.end = f.start
			return f
		}
		f.start += n
		rest = rest[n:]
	}
	f.end = f.start
	return f
}
