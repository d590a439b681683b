package history

import (
	"bytes"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// Together makes a changeset on top of each tip, which starts a head, moves the
// tips to them, and returns the one bundle that pushes them all.
func Together(tips []*Tip, message string) []byte {
	var all group
	for _, t := range tips {
		g := t.grow(message)
		all.changelog = append(all.changelog, g.changelog...)
		all.manifest = append(all.manifest, g.manifest...)
		all.files = append(all.files, g.files...)
	}
	return push(nil, &all)
}

// push returns the bundle that pushes a group on top of the heads it updates.
func push(updates []hg.Node, g *group) []byte {
	var b bytes.Buffer
	if err := g.writeTo(&b); err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return hgtest.Bundle2(hgtest.PushParts(updates, b.Bytes())...)
}
