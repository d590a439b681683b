package store

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"vcsd/hg"
)

// RevBranches is hg's cache of each changeset's branch, in two files:
//
//	cache/rbc-names-v1: names of branches, NUL between them
//	cache/rbc-revs-v1: for each rev, big-endian
//	    4 bytes: the first ones of its node
//	    4 bytes: index of its branch in the names; the highest bit is set if it
//	             closes the branch
//
// A record whose node does not match says nothing; one of zeroes is a gap. The
// names only grow. A RevBranches belongs to one goroutine.
type RevBranches struct {
	names []string
	ids   map[string]uint32
	revs  []byte // whole records

	namesOnDisk int // of names; 0 if the file is to be written anew
	namesLen    int // bytes of the names file that hold them
	revsOnDisk  int // bytes of revs that are as on disk
}

const (
	rbcRecordLen  = 8
	rbcNodeLen    = 4
	rbcClosesFlag = 1 << 31
)

// ParseRevBranches takes the content of both files; nil for one that is
// missing. What doesn't make sense is not used.
func ParseRevBranches(names, revs []byte) *RevBranches {
	c := &RevBranches{ids: make(map[string]uint32)}
	revs = revs[:len(revs)-len(revs)%rbcRecordLen]
	if len(names) == 0 || len(revs) == 0 {
		return c
	}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		c.addName(string(name))
	}
	c.namesOnDisk, c.namesLen = len(c.names), len(names)
	c.revs, c.revsOnDisk = slices.Clone(revs), len(revs)
	return c
}

// addName gives the next index to a name. Of two equal ones in a file the
// first one is used for new records, as hg does with either.
func (c *RevBranches) addName(name string) uint32 {
	id := uint32(len(c.names))
	c.names = append(c.names, name)
	if _, ok := c.ids[name]; !ok {
		c.ids[name] = id
	}
	return id
}

// Len returns how many revs have a record, gaps counted.
func (c *RevBranches) Len() int { return len(c.revs) / rbcRecordLen }

// Branch returns what is known of a changeset.
func (c *RevBranches) Branch(r hg.Rev, n hg.Node) (name string, closes, ok bool) {
	if r < 0 || int(r) >= c.Len() {
		return "", false, false
	}
	rec := c.revs[int(r)*rbcRecordLen:]
	v := binary.BigEndian.Uint32(rec[rbcNodeLen:])
	id := v &^ rbcClosesFlag
	if [rbcNodeLen]byte(rec) != [rbcNodeLen]byte(n[:]) || [rbcNodeLen]byte(rec) == [rbcNodeLen]byte{} || int(id) >= len(c.names) {
		return "", false, false
	}
	return c.names[id], v&rbcClosesFlag != 0, true
}

// Set records a changeset's branch.
func (c *RevBranches) Set(r hg.Rev, n hg.Node, name string, closes bool) {
	id, ok := c.ids[name]
	if !ok {
		id = c.addName(name)
	}
	if closes {
		id |= rbcClosesFlag
	}
	at := int(r) * rbcRecordLen
	if need := at + rbcRecordLen - len(c.revs); need > 0 {
		c.revs = append(c.revs, make([]byte, need)...)
	}
	copy(c.revs[at:], n[:rbcNodeLen])
	binary.BigEndian.PutUint32(c.revs[at+rbcNodeLen:], id)
	c.revsOnDisk = min(c.revsOnDisk, at)
}

// Truncate drops the records of revs from n on, such as those of changesets
// that are gone.
func (c *RevBranches) Truncate(n int) {
	c.revs = c.revs[:min(len(c.revs), n*rbcRecordLen)]
	c.revsOnDisk = min(c.revsOnDisk, len(c.revs))
}

// Files returns both files as a whole. The slices are the caller's.
func (c *RevBranches) Files() (names, revs []byte) {
	return []byte(strings.Join(c.names, "\x00")), slices.Clone(c.revs)
}

// A Tail is what a file has to be from an offset on. From offset 0 it is the
// whole file; the rest of an old one is to be cut off.
type Tail struct {
	Off  int64
	Data []byte
}

// Tails returns what differs from the files that were parsed or returned
// before. Names have to be written first, since records point to them.
func (c *RevBranches) Tails() (names, revs Tail) {
	names.Off = int64(c.namesLen)
	for i, name := range c.names[c.namesOnDisk:] {
		if i > 0 || c.namesOnDisk > 0 {
			names.Data = append(names.Data, 0)
		}
		names.Data = append(names.Data, name...)
	}
	revs = Tail{int64(c.revsOnDisk), slices.Clone(c.revs[c.revsOnDisk:])}
	c.namesOnDisk, c.namesLen, c.revsOnDisk = len(c.names), c.namesLen+len(names.Data), len(c.revs)
	return names, revs
}
