package store

import (
	"encoding/binary"
	"fmt"

	"vcsd/hg"
)

// A NodemapDocket tells which file holds hg's node table of a log, and for
// which state of the log (requirement persistent-nodemap). It is the content of
// store/00changelog.n and store/00manifest.n, big-endian:
//
//	1 byte: version, 1
//	1 byte: length of the id
//	8 bytes: rev of the last revision in the table
//	8 bytes: length of the table in its file
//	8 bytes: bytes of that which are used no more
//	8 bytes: length of the node
//	the id; the node of that last revision
//
// The table is in 00changelog-ID.nd. hg adds what a table lacks at its end,
// and uses none whose last revision is not the log's at that rev. So appending
// to a log leaves its table right.
type NodemapDocket struct {
	ID      string
	TipRev  hg.Rev
	Tip     hg.Node
	DataLen int64 // bytes
	Unused  int64 // bytes
}

const (
	nodemapVersion   = 1
	nodemapHeaderLen = 1 + 1 + 4*8
)

// ParseNodemapDocket reads a docket.
func ParseNodemapDocket(b []byte) (d NodemapDocket, err error) {
	if len(b) < nodemapHeaderLen || b[0] != nodemapVersion {
		return d, fmt.Errorf("nodemap docket of %d bytes: %w", len(b), hg.ErrMalformed)
	}
	idLen := int(b[1])
	num := func(i int) uint64 { return binary.BigEndian.Uint64(b[2+8*i:]) }
	if num(3) != hg.NodeLen || len(b) != nodemapHeaderLen+idLen+hg.NodeLen || num(0) > 1<<31-1 || num(1) > 1<<40 || num(2) > num(1) {
		return d, fmt.Errorf("nodemap docket with odd lengths: %w", hg.ErrMalformed)
	}
	d.TipRev, d.DataLen, d.Unused = hg.Rev(num(0)), int64(num(1)), int64(num(2))
	d.ID = string(b[nodemapHeaderLen : nodemapHeaderLen+idLen])
	d.Tip = hg.Node(b[nodemapHeaderLen+idLen:])
	return d, nil
}

// Append appends the docket's bytes to b.
func (d *NodemapDocket) Append(b []byte) []byte {
	b = append(b, nodemapVersion, byte(len(d.ID)))
	for _, n := range []uint64{uint64(d.TipRev), uint64(d.DataLen), uint64(d.Unused), hg.NodeLen} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(append(b, d.ID...), d.Tip[:]...)
}

// Valid reports whether the table belongs to g, or to g as it was with fewer
// revisions.
func (d *NodemapDocket) Valid(g RevGraph) bool {
	return int(d.TipRev) < g.Len() && g.Node(d.TipRev) == d.Tip
}

// NodemapFiles returns the names of the files of a log's nodemap, from that of
// the log without its ending: the docket, and for a docket the table.
func NodemapFiles(radix string) (docket string, table func(NodemapDocket) string) {
	return radix + ".n", func(d NodemapDocket) string { return radix + "-" + d.ID + ".nd" }
}

// A table is a trie over hexadecimal digits: blocks of 16 numbers of four
// bytes, big-endian. The last block is the root. A number from 0 up is a
// block; -1 nothing; others stand for a rev.
const (
	nodemapBlockLen = 16 * 4
	nodemapRevBase  = -2 // stands for rev 0; below it the following
)

// NodemapFind looks a node up in a table, the first DataLen bytes of its file.
// The caller compares the node of the rev found: a table knows only as many
// digits as tell its revisions apart.
func NodemapFind(table []byte, n hg.Node) (r hg.Rev, ok bool) {
	blocks := len(table) / nodemapBlockLen
	at := blocks - 1
	for i := range hg.NodeHexLen {
		if at < 0 || at >= blocks {
			return 0, false
		}
		digit := n[i/2] >> 4
		if i%2 == 1 {
			digit = n[i/2] & 15
		}
		v := int32(binary.BigEndian.Uint32(table[at*nodemapBlockLen+4*int(digit):]))
		switch {
		case v == -1:
			return 0, false
		case v < 0:
			return hg.Rev(nodemapRevBase - v), true
		}
		at = int(v)
	}
	return 0, false
}
