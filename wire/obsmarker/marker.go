package obsmarker

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// Flags of a marker.
type Flags uint16

const (
	// BumpedFix marks a successor that mends the predecessor's phase
	// divergence.
	BumpedFix Flags = 1
	// UsingSHA256 marks nodes of 32 bytes instead of 20. Version 0 has none.
	UsingSHA256 Flags = 2
)

// A Date is when a marker was made.
type Date struct {
	Seconds float64 // since 1970, UTC
	Offset  int     // of the time zone, in seconds west of UTC
}

// A Meta is a piece of free text on a marker.
type Meta struct{ Key, Value string }

// A Marker tells that a changeset was replaced by others, or by none.
type Marker struct {
	Prec  hg.Node
	Succs []hg.Node
	Flags Flags
	Date  Date
	Meta  []Meta // in the order in which it is stored

	// Parents are the parents of Prec, if HasParents; none for a root.
	Parents    []hg.Node
	HasParents bool

	// Long holds the nodes instead of Prec, Succs and Parents if Flags has
	// UsingSHA256. No changeset of today's repositories has such a node.
	Long *LongNodes
}

// A LongNode is a node of 32 bytes.
type LongNode [32]byte

// LongNodes are the nodes of a marker with UsingSHA256.
type LongNodes struct {
	Prec    LongNode
	Succs   []LongNode
	Parents []LongNode
}

// Check returns an error, with hg's text for it, for a marker that no store
// may hold: one with the null node as a successor.
func (m *Marker) Check() error {
	if slices.Contains(m.Succs, hg.NullNode) {
		return frame.Malformed("obsmarkers", 0, "bad obsolescence marker detected: invalid successors nullid")
	}
	return nil
}

// Key returns a string that is the same for equal markers only, in whichever
// version they came.
func (m *Marker) Key() string {
	b := make([]byte, 0, 128)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(m.Date.Seconds))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Date.Offset))
	b = binary.BigEndian.AppendUint16(b, uint16(m.Flags))
	b = append(b, byte(parentCount(m)))
	b = binary.BigEndian.AppendUint32(b, uint32(succCount(m)))
	b = appendNodes(b, m)
	for _, e := range m.Meta {
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Key)))
		b = append(b, e.Key...)
		b = binary.BigEndian.AppendUint32(b, uint32(len(e.Value)))
		b = append(b, e.Value...)
	}
	return string(b)
}

// Compare orders markers as hg does where it sends them: by predecessor,
// successors, flags, metadata, date and parents.
func Compare(a, b Marker) int {
	if a.Long == nil && b.Long == nil && a.Prec != b.Prec {
		return a.Prec.Compare(b.Prec)
	}
	precA, succsA, parentsA := a.nodeBytes()
	precB, succsB, parentsB := b.nodeBytes()
	return cmp.Or(
		bytes.Compare(precA, precB),
		slices.CompareFunc(succsA, succsB, bytes.Compare),
		cmp.Compare(a.Flags, b.Flags),
		slices.CompareFunc(a.Meta, b.Meta, func(x, y Meta) int {
			return cmp.Or(strings.Compare(x.Key, y.Key), strings.Compare(x.Value, y.Value))
		}),
		cmp.Compare(a.Date.Seconds, b.Date.Seconds),
		cmp.Compare(a.Date.Offset, b.Date.Offset),
		slices.CompareFunc(parentsA, parentsB, bytes.Compare),
	)
}

// nodeBytes returns the nodes of either length.
func (m *Marker) nodeBytes() (prec []byte, succs, parents [][]byte) {
	if l := m.Long; l != nil {
		return l.Prec[:], slicesOf(l.Succs), slicesOf(l.Parents)
	}
	return m.Prec[:], slicesOf(m.Succs), slicesOf(m.Parents)
}

func slicesOf[N hg.Node | LongNode](nodes []N) [][]byte {
	out := make([][]byte, len(nodes))
	for i := range nodes {
		switch n := any(&nodes[i]).(type) {
		case *hg.Node:
			out[i] = n[:]
		case *LongNode:
			out[i] = n[:]
		}
	}
	return out
}

// noParents is the count of parents in version 1 that means that nothing is
// recorded about them.
const noParents = 3

func parentCount(m *Marker) int {
	switch {
	case !m.HasParents:
		return noParents
	case m.Long != nil:
		return len(m.Long.Parents)
	}
	return len(m.Parents)
}

func succCount(m *Marker) int {
	if m.Long != nil {
		return len(m.Long.Succs)
	}
	return len(m.Succs)
}

// appendNodes adds predecessor, successors and parents.
func appendNodes(b []byte, m *Marker) []byte {
	if l := m.Long; l != nil {
		b = append(b, l.Prec[:]...)
		for _, n := range slices.Concat(l.Succs, l.Parents) {
			b = append(b, n[:]...)
		}
		return b
	}
	b = append(b, m.Prec[:]...)
	for _, n := range m.Succs {
		b = append(b, n[:]...)
	}
	for _, n := range m.Parents {
		b = append(b, n[:]...)
	}
	return b
}
