package bundle2

import (
	"encoding/binary"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// An entry of phase-heads and check:phases is 4 bytes of phase, big-endian,
// and 20 bytes of node.
const phaseHeadLen = 4 + hg.NodeLen

// A PhaseHead is a node and the phase that it has, or is to get.
type PhaseHead struct {
	Phase hg.Phase
	Node  hg.Node
}

// AppendPhaseHeads adds the payload of a phase-heads or check:phases part.
func AppendPhaseHeads(b []byte, heads []PhaseHead) []byte {
	for _, h := range heads {
		b = binary.BigEndian.AppendUint32(b, uint32(h.Phase))
		b = append(b, h.Node[:]...)
	}
	return b
}

// DecodePhaseHeads reads the payload of a phase-heads or check:phases part.
// Phases that hg doesn't have are malformed.
func DecodePhaseHeads(b []byte) ([]PhaseHead, error) {
	if len(b)%phaseHeadLen != 0 {
		return nil, frame.Malformed("phase heads", int64(len(b)), "bad phase-heads stream")
	}
	heads := make([]PhaseHead, len(b)/phaseHeadLen)
	for i := range heads {
		e := b[i*phaseHeadLen:][:phaseHeadLen]
		phase := binary.BigEndian.Uint32(e)
		if phase > maxByte || !hg.Phase(phase).Valid() {
			return nil, frame.Malformed("phase heads", int64(i*phaseHeadLen), "unknown phase %d", int32(phase))
		}
		heads[i] = PhaseHead{hg.Phase(phase), hg.Node(e[4:])}
	}
	return heads, nil
}
