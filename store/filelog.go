package store

import (
	"bytes"

	"vcsd/hg"
)

// metaMark stands before and after the metadata at the beginning of a file
// revision's text. A text without metadata whose data begins with it has it
// twice, with nothing between.
const metaMark = "\x01\n"

// SplitFileText parts the text of a file revision into its metadata, lines of
// KEY ": " VALUE, and the data of the file. Both are of the text. A text whose
// metadata has no end is all data.
func SplitFileText(text []byte) (meta, data []byte) {
	rest, ok := bytes.CutPrefix(text, []byte(metaMark))
	if !ok {
		return nil, text
	}
	meta, data, ok = bytes.Cut(rest, []byte(metaMark))
	if !ok {
		return nil, text
	}
	return meta, data
}

// A Copy tells of which file revision another one is a copy.
type Copy struct {
	Path []byte // of the metadata
	Node hg.Node
}

// ParseCopy finds in a file revision's metadata where it was copied from. Both
// lines that tell have to be there, as for hg.
func ParseCopy(meta []byte) (c Copy, ok bool) {
	path, okPath := metaValue(meta, "copy")
	rev, okRev := metaValue(meta, "copyrev")
	if !okPath || !okRev {
		return Copy{}, false
	}
	n, err := hg.ParseNode(rev)
	if err != nil {
		return Copy{}, false
	}
	return Copy{path, n}, true
}

// metaValue returns the value of a key; of several lines the last one counts.
func metaValue(meta []byte, key string) (value []byte, ok bool) {
	for line := range bytes.SplitSeq(meta, []byte("\n")) {
		k, v, found := bytes.Cut(line, []byte(": "))
		if found && string(k) == key {
			value, ok = v, true
		}
	}
	return value, ok
}
