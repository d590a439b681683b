package bundle2

import (
	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// An entry of hgtagsfnodes is a changeset's node and the node of its .hgtags
// file.
const tagsFnodeLen = 2 * hg.NodeLen

// A TagsFnode tells which revision of .hgtags a changeset has.
type TagsFnode struct{ Changeset, File hg.Node }

// AppendTagsFnodes adds the payload of an hgtagsfnodes part.
func AppendTagsFnodes(b []byte, fnodes []TagsFnode) []byte {
	for _, f := range fnodes {
		b = append(append(b, f.Changeset[:]...), f.File[:]...)
	}
	return b
}

// DecodeTagsFnodes reads the payload of an hgtagsfnodes part.
func DecodeTagsFnodes(b []byte) ([]TagsFnode, error) {
	if len(b)%tagsFnodeLen != 0 {
		return nil, frame.Malformed("hgtagsfnodes", int64(len(b)), "bad hgtagsfnodes stream of %d bytes", len(b))
	}
	fnodes := make([]TagsFnode, len(b)/tagsFnodeLen)
	for i := range fnodes {
		e := b[i*tagsFnodeLen:][:tagsFnodeLen]
		fnodes[i] = TagsFnode{hg.Node(e[:hg.NodeLen]), hg.Node(e[hg.NodeLen:])}
	}
	return fnodes, nil
}
