package bundle2

import (
	"encoding/binary"
	"math"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// An entry of cache:rev-branch-cache is, each 4 bytes and big-endian, the
// length of the branch's name, the number of changesets that leave it open and
// the number of those that close it; the name; and the nodes, first those that
// leave it open.
const branchHeadLen = 3 * 4

// BranchNodes are the changesets of a bundle that lie on one branch.
type BranchNodes struct {
	Branch       string
	Open, Closed []hg.Node
}

// AppendBranchCache adds the payload of a cache:rev-branch-cache part.
func AppendBranchCache(b []byte, branches []BranchNodes) []byte {
	for _, br := range branches {
		b = binary.BigEndian.AppendUint32(b, uint32(len(br.Branch)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(br.Open)))
		b = binary.BigEndian.AppendUint32(b, uint32(len(br.Closed)))
		b = append(b, br.Branch...)
		b = AppendHeads(b, br.Open)
		b = AppendHeads(b, br.Closed)
	}
	return b
}

// DecodeBranchCache reads the payload of a cache:rev-branch-cache part.
func DecodeBranchCache(b []byte) ([]BranchNodes, error) {
	var branches []BranchNodes
	for off := int64(0); off < int64(len(b)); {
		e := b[off:]
		if len(e) < branchHeadLen {
			return nil, badBranchCache(off)
		}
		name := int64(binary.BigEndian.Uint32(e))
		open := int64(binary.BigEndian.Uint32(e[4:])) * hg.NodeLen
		closed := int64(binary.BigEndian.Uint32(e[8:])) * hg.NodeLen
		e = e[branchHeadLen:]
		// Each is below 20 * 2^32, so the sum doesn't overflow.
		n := name + open + closed
		if name > math.MaxUint16 || int64(len(e)) < n {
			return nil, badBranchCache(off)
		}
		branches = append(branches, BranchNodes{
			Branch: string(e[:name]),
			Open:   nodes(e[name : name+open]),
			Closed: nodes(e[name+open : n]),
		})
		off += branchHeadLen + n
	}
	return branches, nil
}

func badBranchCache(off int64) error {
	return frame.Malformed("rev-branch-cache", off, "bad rev-branch-cache stream")
}
