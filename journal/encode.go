package journal

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"vcsd/hg"
)

// A record's file (doc/format/record.md) is the magic, one header section, a
// section for each push, a section for each write, and nothing more.
//
//	section: type 1 byte | length of the payload uvarint | payload | crc32c 4 bytes
//
// The checksum is little-endian and covers type, length and payload. Numbers
// are varints of encoding/binary in their shortest form; strings and byte
// strings have their length before them.
const (
	magic = "VCSDREC1" // the last byte is the version

	sectionHeader = 'H'
	sectionPush   = 'P'
	sectionWrite  = 'W'

	partLiteral = 0
	partRange   = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the crc32c that a Write of these bytes has. Several byte strings
// are summed as one.
func Sum(parts ...[]byte) uint32 {
	var c uint32
	for _, p := range parts {
		c = crc32.Update(c, castagnoli, p)
	}
	return c
}

// Append appends the record's encoding to b. Equal records have equal
// encodings. The record must be valid.
func (r *Record) Append(b []byte) []byte {
	segments := r.Segments()
	index := make(map[string]int, len(segments))
	for i, s := range segments {
		index[s] = i
	}
	b = append(b, magic...)
	b = appendSection(b, sectionHeader, r.appendHeader(nil, segments))
	var payload []byte
	for i := range r.Pushes {
		payload = r.Pushes[i].append(payload[:0])
		b = appendSection(b, sectionPush, payload)
	}
	for i := range r.Writes {
		payload = r.Writes[i].append(payload[:0], index)
		b = appendSection(b, sectionWrite, payload)
	}
	return b
}

func appendSection(b []byte, kind byte, payload []byte) []byte {
	start := len(b)
	b = append(b, kind)
	b = appendBytes(b, payload)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func (r *Record) appendHeader(b []byte, segments []string) []byte {
	b = binary.AppendUvarint(b, r.Seq)
	b = append(b, r.Prev[:]...)
	b = appendTime(b, r.Time)
	b = appendString(b, r.Node)
	b = append(b, byte(r.Kind))
	b = appendInt(b, r.ChangelogLen)
	b = append(b, r.Tip[:]...)
	b = appendInt(b, len(segments))
	for _, s := range segments {
		b = appendString(b, s)
	}
	b = appendInt(b, len(r.Pushes))
	return appendInt(b, len(r.Writes))
}

func (p *Push) append(b []byte) []byte {
	b = append(b, p.ID[:]...)
	b = appendString(b, p.User)
	b = appendString(b, p.Remote)
	b = appendString(b, p.Source)
	b = appendTime(b, p.Time)
	b = appendInt(b, len(p.Heads))
	for i := range p.Heads {
		b = appendString(b, p.Heads[i].Branch)
		b = appendNodes(b, p.Heads[i].Old)
		b = appendNodes(b, p.Heads[i].New)
	}
	b = appendInt(b, len(p.Bookmarks))
	for i := range p.Bookmarks {
		m := &p.Bookmarks[i]
		b = appendString(b, m.Name)
		b = append(b, m.Old[:]...)
		b = append(b, m.New[:]...)
	}
	b = appendInt(b, len(p.Phases))
	for i := range p.Phases {
		b = append(b, byte(p.Phases[i].Phase))
		b = appendNodes(b, p.Phases[i].Nodes)
	}
	b = appendInt(b, p.ObsMarkers)
	b = binary.AppendVarint(b, int64(p.FirstRev))
	return appendInt(b, p.Changesets)
}

func (w *Write) append(b []byte, segments map[string]int) []byte {
	b = append(b, byte(w.Op))
	b = appendString(b, w.Path)
	b = appendString(b, w.DataPath)
	b = binary.AppendUvarint(b, uint64(w.Offset))
	b = binary.AppendUvarint(b, uint64(w.Length))
	b = binary.LittleEndian.AppendUint32(b, w.Sum)
	b = appendInt(b, len(w.Parts))
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Segment == "" {
			b = append(b, partLiteral)
			b = appendBytes(b, p.Data)
			continue
		}
		b = append(b, partRange)
		b = appendInt(b, segments[p.Segment])
		b = binary.AppendUvarint(b, uint64(p.Offset))
		b = binary.AppendUvarint(b, uint64(p.Length))
	}
	return b
}

func appendInt(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendBytes(b, s []byte) []byte { return append(appendInt(b, len(s)), s...) }

func appendString(b []byte, s string) []byte { return append(appendInt(b, len(s)), s...) }

func appendNodes(b []byte, nodes []hg.Node) []byte {
	b = appendInt(b, len(nodes))
	for i := range nodes {
		b = append(b, nodes[i][:]...)
	}
	return b
}

// appendTime keeps the moment, not the zone.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix())
	return appendInt(b, t.Nanosecond())
}
