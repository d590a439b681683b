package wire

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"vcsd/hg"
)

// A HeadsArg is the heads argument of unbundle: the heads that the client saw,
// or their hash, or that it doesn't care. The zero value saw no heads at all,
// not even the null node.
type HeadsArg struct {
	// Force tells that the client leaves the check to parts of its bundle.
	Force bool

	// Hashed tells that Hash, the SHA-1 of the sorted nodes, stands for Nodes.
	Hashed bool
	Hash   [sha1.Size]byte

	Nodes []hg.Node
}

// ParseHeads reads the argument: words in hexadecimal, separated by spaces.
// They are "force", or "hashed" and a hash, or nodes.
func ParseHeads(arg string) (HeadsArg, error) {
	if arg == "" {
		return HeadsArg{}, nil
	}
	words := strings.Split(arg, " ")
	if len(words) == 1 && words[0] == hex.EncodeToString([]byte("force")) {
		return HeadsArg{Force: true}, nil
	}
	if len(words) == 2 && words[0] == hex.EncodeToString([]byte("hashed")) {
		hash, err := parseNode(words[1])
		return HeadsArg{Hashed: true, Hash: hash}, err
	}
	nodes, err := parseNodes(arg)
	return HeadsArg{Nodes: nodes}, err
}

// Check reports a *hg.PushRaced unless the heads are still those that the
// client saw. doing is what the server is about to do, in hg's words: "preparing
// changes" before the body is read, "unbundling changes" after that.
func (h HeadsArg) Check(current []hg.Node, doing string) error {
	if h.match(current) {
		return nil
	}
	return &hg.PushRaced{Message: "repository changed while " + doing + " - please try again"}
}

func (h HeadsArg) match(current []hg.Node) bool {
	switch {
	case h.Force:
		return true
	case h.Hashed:
		return h.Hash == HashHeads(current)
	default:
		return slices.Equal(sortedNodes(h.Nodes), sortedNodes(current))
	}
}

// HashHeads returns the hash that a client sends instead of many heads.
func HashHeads(heads []hg.Node) [sha1.Size]byte {
	var buf bytes.Buffer
	for _, n := range sortedNodes(heads) {
		buf.Write(n[:])
	}
	return sha1.Sum(buf.Bytes())
}

func sortedNodes(nodes []hg.Node) []hg.Node {
	return slices.SortedFunc(slices.Values(nodes), hg.Node.Compare)
}

func parseNode(s string) (hg.Node, error) {
	n, err := hg.ParseNode(s)
	if err != nil {
		return n, fmt.Errorf("%w: %w", hg.ErrMalformed, err)
	}
	return n, nil
}

// parseNodes reads nodes separated by single spaces; none from an empty string.
func parseNodes(s string) ([]hg.Node, error) {
	if s == "" {
		return nil, nil
	}
	nodes := make([]hg.Node, 0, (len(s)+1)/(hg.NodeHexLen+1))
	for word := range strings.SplitSeq(s, " ") {
		n, err := parseNode(word)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func appendNodes(b []byte, nodes []hg.Node) []byte {
	for i, n := range nodes {
		if i > 0 {
			b = append(b, ' ')
		}
		b = n.AppendHex(b)
	}
	return b
}
