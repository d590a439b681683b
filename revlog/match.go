package revlog

import (
	"encoding/hex"

	"vcsd/hg"
)

// MatchPrefix finds the revisions whose node begins with hexPrefix, digits of
// either case, and that visible admits (nil admits all). count is 0, 1 or 2,
// where 2 stands for more as well; node is the match if there is exactly one.
// A prefix of no digits, of more than 40 or with anything else in it matches
// nothing. All entries are looked at, except for a whole node.
func (s *Snapshot) MatchPrefix(hexPrefix string, visible func(hg.Rev) bool) (node hg.Node, count int) {
	if visible == nil {
		visible = func(hg.Rev) bool { return true }
	}
	if len(hexPrefix) == hg.NodeHexLen {
		return s.matchWhole(hexPrefix, visible)
	}
	low, mask, ok := parsePrefix(hexPrefix)
	if !ok {
		return hg.NullNode, 0
	}
	for rev := range s.n {
		n := s.entry(rev).node()
		if !matches(n, &low, &mask) || !visible(rev) {
			continue
		}
		if count++; count == 2 {
			return hg.NullNode, 2
		}
		node = *n
	}
	return node, count
}

func (s *Snapshot) matchWhole(digits string, visible func(hg.Rev) bool) (hg.Node, int) {
	node, err := hg.ParseNode(digits)
	if err != nil {
		return hg.NullNode, 0
	}
	rev, ok := s.Rev(node)
	if !ok || rev == hg.NullRev || !visible(rev) {
		return hg.NullNode, 0
	}
	return node, 1
}

// parsePrefix returns the node that has the digits and zeros after them, and a
// mask of the bits that they decide.
func parsePrefix(digits string) (low, mask hg.Node, ok bool) {
	if len(digits) == 0 || len(digits) > hg.NodeHexLen {
		return low, mask, false
	}
	even := digits
	for i := range digits {
		mask[i/2] |= 0xf0 >> (4 * (i % 2))
	}
	if len(digits)%2 == 1 {
		even += "0"
	}
	_, err := hex.Decode(low[:], []byte(even))
	return low, mask, err == nil
}

func matches(n, low, mask *hg.Node) bool {
	// The first byte decides almost always.
	if n[0]&mask[0] != low[0] {
		return false
	}
	for i := 1; i < hg.NodeLen && mask[i] != 0; i++ {
		if n[i]&mask[i] != low[i] {
			return false
		}
	}
	return true
}
