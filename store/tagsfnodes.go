package store

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"

	"vcsd/hg"
)

// TagsFileNodes is hg's cache of the revision of .hgtags in each changeset,
// cache/hgtagsfnodes1: for each rev
//
//	4 bytes: the first ones of its node
//	20 bytes: filelog node of .hgtags; zeroes if the changeset has none
//
// A record of 0xff is missing, one whose node does not match says nothing. A
// TagsFileNodes belongs to one goroutine.
type TagsFileNodes struct{ raw []byte }

const (
	tagsRecordLen = tagsPrefixLen + hg.NodeLen
	tagsPrefixLen = 4
)

var tagsMissing = bytes.Repeat([]byte{0xff}, tagsRecordLen)

// ParseTagsFileNodes takes the content of the file, nil if there is none.
func ParseTagsFileNodes(b []byte) *TagsFileNodes {
	return &TagsFileNodes{slices.Clone(b[:len(b)-len(b)%tagsRecordLen])}
}

// Get returns the revision of .hgtags in a changeset, NullNode if it has none;
// ok is false if the cache does not know.
func (c *TagsFileNodes) Get(r hg.Rev, n hg.Node) (file hg.Node, ok bool) {
	at := int(r) * tagsRecordLen
	if r < 0 || at >= len(c.raw) {
		return file, false
	}
	return parseTagsRecord(c.raw[at:at+tagsRecordLen], n)
}

// parseTagsRecord reads the record of a changeset.
func parseTagsRecord(rec []byte, n hg.Node) (file hg.Node, ok bool) {
	if bytes.Equal(rec, tagsMissing) || !bytes.Equal(rec[:tagsPrefixLen], n[:tagsPrefixLen]) {
		return file, false
	}
	return hg.Node(rec[tagsPrefixLen:]), true
}

// Set records the revision of .hgtags in a changeset.
func (c *TagsFileNodes) Set(r hg.Rev, n, file hg.Node) {
	at := int(r) * tagsRecordLen
	for len(c.raw) < at+tagsRecordLen {
		c.raw = append(c.raw, tagsMissing...)
	}
	copy(c.raw[at:], n[:tagsPrefixLen])
	copy(c.raw[at+tagsPrefixLen:], file[:])
}

// Encode returns the file for a changelog of length n, as hg writes it.
func (c *TagsFileNodes) Encode(n int) []byte {
	b := slices.Clone(c.raw[:min(len(c.raw), n*tagsRecordLen)])
	for len(b) < n*tagsRecordLen {
		b = append(b, tagsMissing...)
	}
	return b
}

// tagsFileNodesName is the file of a TagsFileNodes, relative to .hg.
const tagsFileNodesName = "cache/hgtagsfnodes1"

// CachedTagsFileNodes returns the revisions of .hgtags in changesets, as far as
// hg's cache knows them; NullNode for one that has no such file. The null
// revision is always known.
func (v *View) CachedTagsFileNodes(revs []hg.Rev) (_ map[hg.Rev]hg.Node, err error) {
	known := make(map[hg.Rev]hg.Node)
	f, err := v.repo.fs.Open(tagsFileNodesName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f != nil {
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	for _, r := range revs {
		if r == hg.NullRev {
			known[r] = hg.NullNode
			continue
		}
		if f == nil {
			continue
		}
		var rec [tagsRecordLen]byte
		if n, err := f.ReadAt(rec[:], int64(r)*tagsRecordLen); n < len(rec) {
			if err != nil && err != io.EOF {
				return nil, err
			}
			continue
		}
		if node, ok := parseTagsRecord(rec[:], v.Changelog().Node(r)); ok {
			known[r] = node
		}
	}
	return known, nil
}
