package obsmarker

import (
	"encoding/binary"
	"fmt"
	"math"

	"vcsd/hg"
)

// A marker of version 1, big-endian.
const (
	offSize    = 0  // 4 bytes: length of the marker, this field included
	offDate    = 4  // 8 bytes: IEEE 754, seconds since 1970
	offZone    = 12 // 2 bytes: signed, minutes west of UTC
	offFlags   = 14 // 2 bytes
	offSuccs   = 16 // 1 byte: number of successors
	offParents = 17 // 1 byte: number of parents; 3 means not recorded
	offMetas   = 18 // 1 byte: number of metadata entries
	fixedLenV1 = 19
	// Then: predecessor, successors, parents, each of 20 or 32 bytes; the
	// lengths of key and value of each metadata entry, a byte each; the keys
	// and values.
)

// minMarkerV1 is the length of the shortest marker.
const minMarkerV1 = fixedLenV1 + hg.NodeLen

// parseV1 reads one marker from the start of data.
func parseV1(data []byte) (m Marker, size int, err error) {
	if len(data) < fixedLenV1 {
		return m, 0, tooShort("marker", fixedLenV1, len(data))
	}
	claimed := binary.BigEndian.Uint32(data[offSize:])
	if claimed < minMarkerV1 {
		return m, 0, fmt.Errorf("marker of %d bytes, less than %d", claimed, minMarkerV1)
	}
	if int64(claimed) > int64(len(data)) {
		return m, 0, fmt.Errorf("marker is too short, %d bytes expected, got %d", claimed, len(data))
	}
	size = int(claimed)
	data = data[:size]
	if err := m.fixedV1(data); err != nil {
		return m, 0, err
	}
	rest, err := m.nodesV1(data)
	if err != nil {
		return m, 0, err
	}
	return m, size, m.metaV1(rest, int(data[offMetas]))
}

// sizeV1 returns how long the marker at the start of data says it is, 0 if that
// is not there.
func sizeV1(data []byte) int64 {
	if len(data) < offDate {
		return 0
	}
	return max(1, int64(binary.BigEndian.Uint32(data[offSize:])))
}

// fixedV1 reads date and flags.
func (m *Marker) fixedV1(data []byte) error {
	m.Date.Seconds = math.Float64frombits(binary.BigEndian.Uint64(data[offDate:]))
	m.Date.Offset = int(int16(binary.BigEndian.Uint16(data[offZone:]))) * 60
	m.Flags = Flags(binary.BigEndian.Uint16(data[offFlags:]))
	// hg stores such a date and then can't show any marker of the repository.
	if math.IsNaN(m.Date.Seconds) || math.IsInf(m.Date.Seconds, 0) {
		return fmt.Errorf("date %v is no number of seconds", m.Date.Seconds)
	}
	return nil
}

// nodesV1 reads the nodes and returns what follows them.
func (m *Marker) nodesV1(data []byte) ([]byte, error) {
	succs, parents := int(data[offSuccs]), int(data[offParents])
	if parents > noParents {
		return nil, fmt.Errorf("%d parents", parents)
	}
	m.HasParents = parents != noParents
	if !m.HasParents {
		parents = 0
	}
	width := hg.NodeLen
	if m.Flags&UsingSHA256 != 0 {
		width = len(LongNode{})
	}
	need := (1 + succs + parents) * width
	rest := data[fixedLenV1:]
	if len(rest) < need {
		return nil, tooShort("list of nodes", need, len(rest))
	}
	if width == hg.NodeLen {
		m.Prec = hg.Node(rest[:width])
		m.Succs, m.Parents = split[hg.Node](rest[width:], succs, parents)
		return rest[need:], nil
	}
	m.Long = &LongNodes{Prec: LongNode(rest[:width])}
	m.Long.Succs, m.Long.Parents = split[LongNode](rest[width:], succs, parents)
	return rest[need:], nil
}

// split returns the a nodes at the start of data and the b nodes after them.
func split[N hg.Node | LongNode](data []byte, a, b int) (as, bs []N) {
	if a+b == 0 {
		return nil, nil
	}
	var zero N
	nodes := make([]N, a+b)
	for i := range nodes {
		nodes[i] = N(data[i*len(zero):][:len(zero)])
	}
	return nodes[:a:a], nodes[a:]
}

// metaV1 reads n metadata entries, which must fill data.
func (m *Marker) metaV1(data []byte, n int) error {
	if len(data) < 2*n {
		return tooShort("metadata", 2*n, len(data))
	}
	sizes, text := data[:2*n], string(data[2*n:])
	if n > 0 {
		m.Meta = make([]Meta, n)
	}
	for i := range m.Meta {
		k, v := int(sizes[2*i]), int(sizes[2*i+1])
		if len(text) < k+v {
			return tooShort("metadata", k+v, len(text))
		}
		m.Meta[i] = Meta{text[:k], text[k : k+v]}
		text = text[k+v:]
	}
	if text != "" {
		return fmt.Errorf("%d bytes after the metadata", len(text))
	}
	return nil
}

// AppendV1 adds m in version 1. It fails for what that version can't express:
// more than 255 successors, metadata entries, or bytes of a key or value; a
// time zone beyond 16 bits of minutes.
func AppendV1(b []byte, m *Marker) ([]byte, error) {
	if err := m.checkV1(); err != nil {
		return b, err
	}
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(m.Date.Seconds))
	b = binary.BigEndian.AppendUint16(b, uint16(floorMinutes(m.Date.Offset)))
	b = binary.BigEndian.AppendUint16(b, uint16(m.Flags))
	b = append(b, byte(succCount(m)), byte(parentCount(m)), byte(len(m.Meta)))
	b = appendNodes(b, m)
	for _, e := range m.Meta {
		b = append(b, byte(len(e.Key)), byte(len(e.Value)))
	}
	for _, e := range m.Meta {
		b = append(append(b, e.Key...), e.Value...)
	}
	binary.BigEndian.PutUint32(b[start+offSize:], uint32(len(b)-start))
	return b, nil
}

// checkV1 tells whether version 1 can express m.
func (m *Marker) checkV1() error {
	const most = math.MaxUint8
	zone := floorMinutes(m.Date.Offset)
	switch {
	case succCount(m) > most:
		return fmt.Errorf("marker with %d successors", succCount(m))
	case len(m.Meta) > most:
		return fmt.Errorf("marker with %d metadata entries", len(m.Meta))
	case m.HasParents && parentCount(m) >= noParents:
		return fmt.Errorf("marker with %d parents", parentCount(m))
	case (m.Long != nil) != (m.Flags&UsingSHA256 != 0):
		return fmt.Errorf("marker's nodes don't fit its flags %#x", m.Flags)
	case zone != int(int16(zone)):
		return fmt.Errorf("marker's time zone %d s does not fit", m.Date.Offset)
	}
	for _, e := range m.Meta {
		if len(e.Key) > most {
			return hg.Abortf("obsstore metadata key cannot be longer than 255 bytes (key %q is %d bytes)", e.Key, len(e.Key))
		}
		if len(e.Value) > most {
			return hg.Abortf("obsstore metadata value cannot be longer than 255 bytes (value %q for key %q is %d bytes)", e.Value, e.Key, len(e.Value))
		}
	}
	return nil
}

// floorMinutes turns seconds into whole minutes, rounding down as hg does.
func floorMinutes(seconds int) int {
	m := seconds / 60
	if seconds%60 < 0 {
		m--
	}
	return m
}
