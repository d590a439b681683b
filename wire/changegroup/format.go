package changegroup

import (
	"encoding/binary"
	"fmt"

	"vcsd/hg"
)

// A Version is one of the forms of a changegroup.
type Version uint8

const (
	// V01 has deltas against the revision before in the group, or against p1.
	V01 Version = 1
	// V02 names the base of each delta.
	V02 Version = 2
	// V03 adds flags, and a segment for tree manifests.
	V03 Version = 3
)

// ParseVersion reads the value of a changegroup part's "version" parameter.
func ParseVersion(s string) (Version, bool) {
	switch s {
	case "01":
		return V01, true
	case "02":
		return V02, true
	case "03":
		return V03, true
	}
	return 0, false
}

func (v Version) String() string { return fmt.Sprintf("%02d", uint8(v)) }

// headerLen returns the length of a delta header in bytes.
func (v Version) headerLen() int {
	switch v {
	case V01:
		return headerLen01
	case V02:
		return headerLen02
	}
	return headerLen03
}

// A chunk is a big-endian int32 with the length of the whole chunk, itself
// included, and the data. Length 0 is the empty chunk, which ends a group, a
// segment or the changegroup; 1 to 4 mean nothing.
const lengthLen = 4

// A delta chunk's data starts with a header. The first three nodes are the
// same in all versions.
const (
	offNode = 0  // 20 bytes
	offP1   = 20 // 20 bytes
	offP2   = 40 // 20 bytes

	offLink01   = 60 // 20 bytes: the changeset that introduced the revision
	headerLen01 = 80

	offBase     = 60 // 20 bytes: the revision the delta applies to
	offLink     = 80 // 20 bytes
	headerLen02 = 100
	offFlags    = 100 // 2 bytes, in version 03
	headerLen03 = 102
)

var (
	_ [headerLen01]byte = [offLink01 + hg.NodeLen]byte{}
	_ [headerLen02]byte = [offLink + hg.NodeLen]byte{}
	_ [headerLen03]byte = [offFlags + 2]byte{}
)

// A Header tells to which revision a delta leads, and from which.
type Header struct {
	Node   hg.Node
	P1, P2 hg.Node
	// Base is the revision to which the delta applies; NullNode means the
	// empty text. In version 01 it isn't sent: it is the revision before in
	// the same group, or P1 for the first.
	Base hg.Node
	// Link is the changeset that introduced the revision; in the changelog,
	// the revision itself.
	Link  hg.Node
	Flags hg.RevFlags // version 03
}

// decode reads a header from the start of b, but for Base in version 01.
func (h *Header) decode(v Version, b []byte) {
	h.Node = hg.Node(b[offNode:offP1])
	h.P1 = hg.Node(b[offP1:offP2])
	h.P2 = hg.Node(b[offP2:][:hg.NodeLen])
	h.Flags = 0
	if v == V01 {
		h.Link = hg.Node(b[offLink01:headerLen01])
		return
	}
	h.Base = hg.Node(b[offBase:offLink])
	h.Link = hg.Node(b[offLink:headerLen02])
	if v == V03 {
		h.Flags = hg.RevFlags(binary.BigEndian.Uint16(b[offFlags:]))
	}
}

// append adds the encoded header to b.
func (h *Header) append(v Version, b []byte) []byte {
	b = append(b, h.Node[:]...)
	b = append(b, h.P1[:]...)
	b = append(b, h.P2[:]...)
	if v != V01 {
		b = append(b, h.Base[:]...)
	}
	b = append(b, h.Link[:]...)
	if v == V03 {
		b = binary.BigEndian.AppendUint16(b, uint16(h.Flags))
	}
	return b
}

// A Kind is a kind of revlog that a group belongs to.
type Kind uint8

// The kinds, in the order in which their groups follow each other.
const (
	Changelog Kind = 1 + iota
	Manifest       // the flat manifest, or that of the root directory
	Tree           // the manifest of a directory; version 03 only
	File
)

func (k Kind) String() string {
	switch k {
	case Changelog:
		return "changelog"
	case Manifest:
		return "manifest"
	case Tree:
		return "tree"
	case File:
		return "file"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// A Group is the revisions of one revlog.
type Group struct {
	Kind Kind
	// Path is the file's path as sent, unchecked; for a Tree the directory's,
	// with a slash at its end; else empty.
	Path string
}

func (g Group) String() string {
	if g.Path == "" {
		return g.Kind.String()
	}
	return fmt.Sprintf("%s %q", g.Kind, g.Path)
}
