package bundle2

import (
	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// AppendHeads adds the payload of a check:heads or check:updated-heads part.
func AppendHeads(b []byte, heads []hg.Node) []byte {
	for _, n := range heads {
		b = append(b, n[:]...)
	}
	return b
}

// DecodeHeads reads the payload of a check:heads or check:updated-heads part.
func DecodeHeads(b []byte) ([]hg.Node, error) {
	if len(b)%hg.NodeLen != 0 {
		return nil, frame.Malformed("heads", int64(len(b)), "bad heads stream of %d bytes", len(b))
	}
	return nodes(b), nil
}

// nodes splits b, whose length is a multiple of a node's.
func nodes(b []byte) []hg.Node {
	ns := make([]hg.Node, len(b)/hg.NodeLen)
	for i := range ns {
		ns[i] = hg.Node(b[i*hg.NodeLen:][:hg.NodeLen])
	}
	return ns
}
