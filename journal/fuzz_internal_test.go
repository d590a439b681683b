package journal

import (
	"bytes"
	"testing"
	"time"
)

// FuzzSections gives the decoder sections with right checksums, which arbitrary
// bytes hardly ever have.
func FuzzSections(f *testing.F) {
	name := "0123456789abcdef0123456789abcdef.seg"
	r := &Record{
		Seq: 1, Kind: Commit, Node: "n", Time: time.Unix(9, 9),
		Pushes: []Push{{
			User: "u", Heads: []BranchHeads{{Branch: "b"}}, Bookmarks: []BookmarkMove{{Name: "m"}},
			Phases: []PhaseMove{{Phase: 1}}, Changesets: 2,
		}},
		Writes: []Write{{
			Path: "store/a", Op: Append, Length: 3,
			Parts: []Part{{Data: []byte("ab")}, {Segment: name, Offset: 300, Length: 1}},
		}},
	}
	push := r.Pushes[0].append(nil)
	f.Add(r.appendHeader(nil, r.Segments()), push, r.Writes[0].append(nil, map[string]int{name: 0}))
	split := Write{Path: "store/a.i", DataPath: "store/a.d", Op: Split, Length: 9}
	r.Writes = []Write{split}
	f.Add(r.appendHeader(nil, nil), push, split.append(nil, nil))
	f.Fuzz(func(t *testing.T, header, push, write []byte) {
		b := appendSection([]byte(magic), sectionHeader, header)
		b = appendSection(b, sectionPush, push)
		b = appendSection(b, sectionWrite, write)
		r, err := Decode(b)
		if err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%+v re-encodes differently", r)
		}
	})
}

func FuzzSplitInline(f *testing.F) {
	entry := make([]byte, entrySize)
	entry[1], entry[3], entry[11] = 1, 1, 2
	f.Add(append(entry, "ab"...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := splitInline(b)
		if err == nil && (len(h.index)+len(h.data) != len(b) || len(h.index)%entrySize != 0) {
			t.Errorf("%d bytes became %d and %d", len(b), len(h.index), len(h.data))
		}
	})
}

func FuzzParseApplied(f *testing.F) {
	f.Add(formatApplied(ID{7, DigestOf(nil)}))
	f.Add("vcsd-applied-1 1 x\n")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := parseApplied(s)
		if err == nil && formatApplied(id) != s {
			t.Errorf("%q is %v, which is written %q", s, id, formatApplied(id))
		}
	})
}
