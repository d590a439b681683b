package bundle2

import (
	"encoding/binary"
	"fmt"
	"math"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

// An entry of bookmarks and check:bookmarks is 20 bytes of node, all ones for
// a bookmark that doesn't exist, 2 bytes with the length of the name,
// big-endian, and the name.
const bookmarkHeadLen = hg.NodeLen + 2

// A Bookmark is a name and the node it stands at or is to be moved to.
type Bookmark struct {
	Name string
	// Node is hg.WorkingNode for a bookmark that doesn't exist or is to go. One
	// at hg.NullNode exists.
	Node hg.Node
}

// AppendBookmarks adds the payload of a bookmarks or check:bookmarks part.
func AppendBookmarks(b []byte, bookmarks []Bookmark) ([]byte, error) {
	for _, m := range bookmarks {
		if len(m.Name) > math.MaxUint16 {
			return b, fmt.Errorf("bookmark name of %d bytes: %w", len(m.Name), hg.ErrTooLarge)
		}
		b = append(b, m.Node[:]...)
		b = binary.BigEndian.AppendUint16(b, uint16(len(m.Name)))
		b = append(b, m.Name...)
	}
	return b, nil
}

// DecodeBookmarks reads the payload of a bookmarks or check:bookmarks part.
// Names are taken as they are.
func DecodeBookmarks(b []byte) ([]Bookmark, error) {
	var bookmarks []Bookmark
	for off := 0; off < len(b); {
		e := b[off:]
		if len(e) < bookmarkHeadLen {
			return nil, badBookmarks(off)
		}
		name := e[bookmarkHeadLen:]
		n := int(binary.BigEndian.Uint16(e[hg.NodeLen:]))
		if len(name) < n {
			return nil, badBookmarks(off)
		}
		m := Bookmark{Name: string(name[:n]), Node: hg.Node(e[:hg.NodeLen])}
		bookmarks = append(bookmarks, m)
		off += bookmarkHeadLen + n
	}
	return bookmarks, nil
}

func badBookmarks(off int) error {
	return frame.Malformed("bookmarks", int64(off), "bad bookmark stream")
}
