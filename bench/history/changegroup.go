package history

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A group collects the revisions of a changegroup of version 02 (hg help
// internals.changegroups): revisions of all changesets by the log they are for.
type group struct {
	changelog, manifest []byte
	files               []fileGroup // in the order of first use
}

type fileGroup struct {
	path string
	revs []byte // encoded
}

// appendRev adds a revision as a delta chunk.
func appendRev(b []byte, node, p1, p2, base, link hg.Node, delta []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(4+5*hg.NodeLen+len(delta)))
	for _, n := range []hg.Node{node, p1, p2, base, link} {
		b = append(b, n[:]...)
	}
	return append(b, delta...)
}

// writeTo writes the changegroup.
func (g *group) writeTo(w io.Writer) error {
	var end [4]byte
	pieces := [][]byte{g.changelog, end[:], g.manifest, end[:]}
	for i := range g.files {
		f := &g.files[i]
		name := binary.BigEndian.AppendUint32(nil, uint32(4+len(f.path)))
		pieces = append(pieces, append(name, f.path...), f.revs, end[:])
	}
	for _, p := range append(pieces, end[:]) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// changelogText is the text of a changelog revision.
func changelogText(manifest hg.Node, branch string, step int, files []string, message string) []byte {
	extra := ""
	if branch != "default" {
		extra = " branch:" + branch
	}
	return fmt.Appendf(nil, "%s\nBob <bob@example.com>\n%d 0%s\n%s\n\n%s", manifest, 1_600_000_000+int64(step)*60, extra, strings.Join(files, "\n"), message)
}

// manifestLine is the line of a plain file.
func manifestLine(path string, node hg.Node) []byte {
	return fmt.Appendf(nil, "%s\x00%s\n", path, node)
}

// A fragment replaces the bytes from start to end of a delta's base.
type fragment struct {
	start, end int
	data       []byte
}

func appendFragment(b []byte, f fragment) []byte {
	return append(b, hgtest.Fragment(uint32(f.start), uint32(f.end), f.data)...)
}
