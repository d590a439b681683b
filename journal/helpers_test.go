package journal_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// write returns a Write of literal parts.
func write(op journal.Op, path string, off int64, parts ...string) journal.Write {
	w := journal.Write{Path: path, Op: op, Offset: off}
	for _, p := range parts {
		w.Parts = append(w.Parts, journal.Part{Data: []byte(p)})
		w.Length += int64(len(p))
	}
	w.Sum = journal.Sum([]byte(strings.Join(parts, "")))
	return w
}

// fromSegment returns an Append of a whole segment.
func fromSegment(path string, off int64, name string, content []byte) journal.Write {
	return journal.Write{
		Path: path, Op: journal.Append, Offset: off, Length: int64(len(content)), Sum: journal.Sum(content),
		Parts: []journal.Part{{Segment: name, Length: int64(len(content))}},
	}
}

func split(path, dataPath string, length int64) journal.Write {
	return journal.Write{Path: path, DataPath: dataPath, Op: journal.Split, Length: length}
}

// record returns a record with nothing but writes.
func record(seq uint64, writes ...journal.Write) *journal.Record {
	r := &journal.Record{Seq: seq, Kind: journal.Commit, Time: time.Unix(1e9, 5).UTC(), Node: "n", Writes: writes}
	if seq > 1 {
		r.Prev = journal.DigestOf([]byte{byte(seq - 1)})
	}
	return r
}

// revision is what the tests know of a revision: its number and its chunk.
type revision struct {
	rev   int
	chunk string
}

// entry returns a version 1 index entry, for the first revision with a header.
func (r revision) entry(offset int, inline bool) string {
	var b [64]byte
	binary.BigEndian.PutUint64(b[:], uint64(offset)<<16)
	if r.rev == 0 {
		header := uint32(1 | 1<<17)
		if inline {
			header |= 1 << 16
		}
		binary.BigEndian.PutUint32(b[:], header)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(r.chunk)))
	binary.BigEndian.PutUint32(b[16:], uint32(r.rev))
	digest := journal.DigestOf([]byte(fmt.Sprint(r)))
	copy(b[32:52], digest[:])
	return string(b[:])
}

// logOf returns the files of a revlog.
func logOf(revs []revision, inline bool) (index, data string) {
	for _, r := range revs {
		index += r.entry(len(data), inline)
		data += r.chunk
		if inline {
			index += r.chunk
		}
	}
	return index, data
}

// revisions returns n revisions with chunks of about size bytes.
func revisions(n, size int) []revision {
	revs := make([]revision, n)
	for i := range revs {
		revs[i] = revision{i, "x" + strings.Repeat(string(rune('a'+i%26)), size+i)}
	}
	return revs
}

// files returns the files below dir and their content.
func files(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, e := range must(fsys.ReadDir(dir)) {
		name := path.Join(dir, e.Name())
		if !e.IsDir() {
			all[name] = string(must(vfs.ReadFile(fsys, name, 1<<30)))
			continue
		}
		for n, content := range files(t, fsys, name) {
			all[n] = content
		}
	}
	return all
}

// differ describes how two sets of files differ; it is empty if they don't.
func differ(got, want map[string]string) string {
	var b bytes.Buffer
	for name, content := range want {
		if have, ok := got[name]; !ok {
			fmt.Fprintf(&b, "%s is missing; ", name)
		} else if have != content {
			fmt.Fprintf(&b, "%s has %d bytes that differ, want %d; ", name, len(have), len(content))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "%s is too much; ", name)
		}
	}
	return b.String()
}

// fullRecord uses every field.
func fullRecord() *journal.Record {
	node := func(b byte) hg.Node { return hg.Node(bytes.Repeat([]byte{b}, hg.NodeLen)) }
	seg1, seg2 := strings.Repeat("a1", 16)+".seg", strings.Repeat("b2", 16)+".seg"
	return &journal.Record{
		Seq: 7, Prev: journal.DigestOf([]byte("six")), Time: time.Date(2024, 2, 29, 1, 2, 3, 456, time.UTC),
		Node: "node-1", Kind: journal.Adopt, ChangelogLen: 70000, Tip: node(9),
		Pushes: []journal.Push{
			{
				ID: journal.DigestOf([]byte("payload")), User: "jörg", Remote: "192.0.2.1:99", Source: "push",
				Time: time.Date(1969, 12, 31, 0, 0, 0, 999999999, time.UTC),
				Heads: []journal.BranchHeads{
					{Branch: "default", Old: []hg.Node{node(1)}, New: []hg.Node{node(2), node(3)}},
					{Branch: "", New: []hg.Node{node(4)}},
				},
				Bookmarks:  []journal.BookmarkMove{{Name: "@", Old: node(1), New: hg.NullNode}},
				Phases:     []journal.PhaseMove{{Phase: hg.Secret, Nodes: []hg.Node{node(5)}}, {Phase: hg.Public}},
				ObsMarkers: 3, FirstRev: 69000, Changesets: 1000,
			},
			{FirstRev: hg.NullRev, Time: time.Time{}},
		},
		Writes: []journal.Write{
			{
				Path: "store/data/a.d", Op: journal.Append, Offset: 1 << 40, Length: 10, Sum: 0xfeedbeef,
				Parts: []journal.Part{
					{Segment: seg1, Offset: 300, Length: 3},
					{Data: []byte("lit")},
					{Segment: seg2, Offset: 0, Length: 2},
					{Segment: seg1, Offset: 1 << 33, Length: 2},
				},
			},
			{Path: "store/data/b.i", DataPath: "store/dh/b.d", Op: journal.Split, Length: 131072},
			write(journal.AppendInline, "store/data/c.i", 0, "abc"),
			write(journal.Replace, "bookmarks", 0),
		},
	}
}
