package hg

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
)

// NodeLen is the length of a node in bytes; NodeHexLen that of its
// hexadecimal form.
const (
	NodeLen    = 20
	NodeHexLen = 2 * NodeLen
)

// A Node names a revision for everybody: the SHA-1 of its parents' nodes and
// its full text (hg help internals.revlogs, "Hash Computation").
type Node [NodeLen]byte

var (
	// NullNode stands for "no revision": the parent of a root, and the only
	// head of an empty repository.
	NullNode Node

	// WorkingNode is the pseudo-node of a working directory. It is never
	// stored, so no revision may have it.
	WorkingNode = Node(bytes.Repeat([]byte{0xff}, NodeLen))
)

// IsNull reports whether n is NullNode.
func (n Node) IsNull() bool { return n == NullNode }

// String returns n as 40 lower-case hexadecimal digits.
func (n Node) String() string { return hex.EncodeToString(n[:]) }

// Short returns the first 12 hexadecimal digits of n, for messages.
func (n Node) Short() string { return hex.EncodeToString(n[:6]) }

// Compare orders nodes by their bytes.
func (n Node) Compare(m Node) int { return bytes.Compare(n[:], m[:]) }

// AppendHex appends the 40 hexadecimal digits of n to b.
func (n Node) AppendHex(b []byte) []byte { return hex.AppendEncode(b, n[:]) }

// ParseNode reads 40 hexadecimal digits of either case.
func ParseNode[T string | []byte](s T) (Node, error) {
	var n Node
	if len(s) != NodeHexLen {
		return n, fmt.Errorf("node of %d digits, want %d", len(s), NodeHexLen)
	}
	if _, err := hex.Decode(n[:], []byte(s)); err != nil {
		return Node{}, fmt.Errorf("node %q: %w", s, err)
	}
	return n, nil
}

// HashText returns the node of the revision that has these parents and this
// full text. The order of the parents does not matter.
func HashText(p1, p2 Node, text []byte) Node {
	if p1.Compare(p2) > 0 {
		p1, p2 = p2, p1
	}
	h := sha1.New()
	h.Write(p1[:])
	h.Write(p2[:])
	h.Write(text)
	return Node(h.Sum(nil))
}

// MarshalText returns n as 40 hexadecimal digits.
func (n Node) MarshalText() ([]byte, error) { return n.AppendHex(nil), nil }

// UnmarshalText reads 40 hexadecimal digits.
func (n *Node) UnmarshalText(b []byte) (err error) {
	*n, err = ParseNode(b)
	return err
}
