package revlog

import (
	"encoding/binary"
	"fmt"

	"vcsd/hg"
)

// Version 1 index entry, big-endian. Source: hg help internals.revlogs,
// "Version 1 Format".
//
//	 0       6     8      12     16     20     24     28     32          52     64
//	+-------+-----+------+------+------+------+------+------+-----------+------+
//	|offset |flags|chunk |text  |base  |link  |p1    |p2    |node       |zeros |
//	|       |     |length|length|      |rev   |      |      |           |      |
//	+-------+-----+------+------+------+------+------+------+-----------+------+
const (
	entrySize   = 64
	offOffset   = 0  // 6 bytes: where the chunk begins in the data; in rev 0 the header lies over it
	offFlags    = 6  // 2 bytes: hg.RevFlags
	offChunkLen = 8  // 4 bytes: length of the chunk as stored
	offTextLen  = 12 // 4 bytes: length of the full text; negative in very old logs: unknown
	offBase     = 16 // 4 bytes: see Snapshot.DeltaBase
	offLinkRev  = 20 // 4 bytes: changelog rev that introduced this one
	offP1       = 24 // 4 bytes: rev of the first parent, -1 if none
	offP2       = 28 // 4 bytes: rev of the second parent, -1 if none
	offNode     = 32 // 20 bytes, then 12 zero
)

var _ [entrySize]byte = [offNode + hg.NodeLen + 12]byte{}

// The header is the first 4 bytes of the index, over the offset of rev 0,
// which is 0 and needs no storing: version in the low half, flags in the high.
const (
	headerSize         = 4
	headerVersionMask  = 0xffff
	headerVersion1     = 1
	headerInline       = 1 << 16 // chunks follow their entries
	headerGeneralDelta = 1 << 17 // base is the delta's base, not the chain's
	headerFlagsKnown   = headerInline | headerGeneralDelta
)

// maxChunkLen is what an entry's signed 32-bit lengths can say.
const maxChunkLen = 1<<31 - 1

// header is the first word of an index.
type header uint32

func (h header) inline() bool       { return h&headerInline != 0 }
func (h header) generalDelta() bool { return h&headerGeneralDelta != 0 }

// unsupported names what vcsd does not honour in h, or is empty.
func (h header) unsupported() string {
	if v := h & headerVersionMask; v != headerVersion1 {
		return fmt.Sprintf("version %d", v)
	}
	if f := h &^ (headerFlagsKnown | headerVersionMask); f != 0 {
		return fmt.Sprintf("header flags 0x%04x", uint32(f>>16))
	}
	return ""
}

// readHeader returns the header of an index of at least headerSize bytes.
func readHeader(index []byte) header { return header(binary.BigEndian.Uint32(index)) }

// makeHeader returns the header of a version 1 log.
func makeHeader(inline, generalDelta bool) header {
	h := header(headerVersion1)
	if inline {
		h |= headerInline
	}
	if generalDelta {
		h |= headerGeneralDelta
	}
	return h
}

// entry is one index entry as stored.
type entry [entrySize]byte

// offset of the chunk in the data. It is meaningless in rev 0 of a file.
func (e *entry) offset() int64 {
	return int64(binary.BigEndian.Uint64(e[offOffset:]) >> 16)
}

func (e *entry) flags() hg.RevFlags { return hg.RevFlags(binary.BigEndian.Uint16(e[offFlags:])) }
func (e *entry) chunkLen() int32    { return int32(binary.BigEndian.Uint32(e[offChunkLen:])) }
func (e *entry) textLen() int32     { return int32(binary.BigEndian.Uint32(e[offTextLen:])) }
func (e *entry) base() hg.Rev       { return hg.Rev(binary.BigEndian.Uint32(e[offBase:])) }
func (e *entry) link() hg.Rev       { return hg.Rev(binary.BigEndian.Uint32(e[offLinkRev:])) }
func (e *entry) p1() hg.Rev         { return hg.Rev(binary.BigEndian.Uint32(e[offP1:])) }
func (e *entry) p2() hg.Rev         { return hg.Rev(binary.BigEndian.Uint32(e[offP2:])) }
func (e *entry) node() *hg.Node     { return (*hg.Node)(e[offNode:]) }

// entryFields is an entry to be written.
type entryFields struct {
	Offset   int64 // of the chunk in the data, below 1<<48
	Flags    hg.RevFlags
	ChunkLen int32
	TextLen  int32
	Base     hg.Rev
	Link     hg.Rev
	P1, P2   hg.Rev
	Node     hg.Node
}

// append adds the stored form of f to b. Rev 0 of a file needs putHeader too.
func (f *entryFields) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offset)<<16|uint64(f.Flags))
	for _, v := range [...]int32{f.ChunkLen, f.TextLen, int32(f.Base), int32(f.Link), int32(f.P1), int32(f.P2)} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	b = append(b, f.Node[:]...)
	return append(b, make([]byte, entrySize-offNode-hg.NodeLen)...)
}

// putHeader lays h over the entry of rev 0 in first.
func putHeader(first []byte, h header) { binary.BigEndian.PutUint32(first, uint32(h)) }

// unsupportedFlags names the flags of a revision that vcsd does not honour, or
// is empty.
func unsupportedFlags(f hg.RevFlags) string {
	if f&hg.FlagEllipsis != 0 {
		return "revision flag ellipsis"
	}
	if unknown := f &^ hg.FlagsKnown; unknown != 0 {
		return fmt.Sprintf("revision flags 0x%04x", uint16(unknown))
	}
	return ""
}
