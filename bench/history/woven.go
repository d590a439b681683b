package history

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A Woven describes a history of several lines of development that merge at
// times. The number of files doesn't depend on its length, so that measurements
// over length are not measurements over the size of the manifest.
type Woven struct {
	Seed       uint64
	Changesets int
	Files      int // all added by the first changeset
	Lines      int // at most so many heads
}

// weaver makes one Woven.
type weaver struct {
	Woven
	group
	rng   *rand.Rand
	paths []string
	width int // bytes of a line of the manifest, the same for all
	step  int // changesets made
	lines []line
}

// A line is a line of development at its head.
type line struct {
	branch         string
	node, manifest hg.Node
	text           []byte // of the manifest
	files          []version
}

// A version is a file's revision.
type version struct {
	node hg.Node
	text []byte // not changed once made
}

// WriteBundle writes the history as an uncompressed bundle2 stream, as hg
// unbundle reads it.
func (d Woven) WriteBundle(w io.Writer) error {
	m := &weaver{Woven: d, rng: rand.New(rand.NewPCG(d.Seed, uint64(d.Files)))}
	m.root()
	for m.step < d.Changesets {
		m.grow(&m.lines[m.rng.IntN(len(m.lines))])
	}
	return writeBundle(w, &m.group)
}

// root adds all files.
func (m *weaver) root() {
	l := line{branch: "default"}
	for i := range m.Files {
		path := fmt.Sprintf("src/part%03d/file%05d.txt", i/20, i)
		text := m.newText()
		node := hg.HashText(hg.NullNode, hg.NullNode, text)
		m.paths = append(m.paths, path)
		l.files = append(l.files, version{node, text})
		l.text = append(l.text, manifestLine(path, node)...)
	}
	m.width = len(l.text) / m.Files
	l.manifest = hg.HashText(hg.NullNode, hg.NullNode, l.text)
	l.node = m.changeset(&l, line{}, line{}, m.paths, hgtest.FullDelta(l.text))
	for i, f := range l.files {
		revs := appendRev(nil, f.node, hg.NullNode, hg.NullNode, hg.NullNode, l.node, hgtest.FullDelta(f.text))
		m.group.files = append(m.group.files, fileGroup{m.paths[i], revs})
	}
	m.lines = []line{l}
	for i := 1; i < m.Lines; i++ {
		m.lines = append(m.lines, l.fork(fmt.Sprintf("feature%02d", i)))
	}
}

// fork returns a line that starts at l's head.
func (l *line) fork(branch string) line {
	return line{branch, l.node, l.manifest, slices.Clone(l.text), slices.Clone(l.files)}
}

// grow adds a changeset to a line: an edit of one to three files, which at
// times merges another line too. That line goes on from the merge.
func (m *weaver) grow(l *line) {
	var other line
	mergeWith := -1
	if k := m.rng.IntN(20 * len(m.lines)); k < len(m.lines) && m.lines[k].node != l.node {
		mergeWith, other = k, m.lines[k]
	}
	before := *l
	var touched []int
	for range 1 + m.rng.IntN(3) {
		if i := m.rng.IntN(m.Files); !slices.Contains(touched, i) {
			touched = append(touched, i)
		}
	}
	slices.Sort(touched)
	var names []string
	var delta []byte
	revs := make([][]byte, len(touched)) // deltas
	old := make([]hg.Node, len(touched))
	for k, i := range touched {
		old[k] = l.files[i].node
		revs[k] = m.edit(&l.files[i])
		f := fragment{i * m.width, (i + 1) * m.width, manifestLine(m.paths[i], l.files[i].node)}
		copy(l.text[f.start:], f.data)
		delta = appendFragment(delta, f)
		names = append(names, m.paths[i])
	}
	l.manifest = hg.HashText(before.manifest, other.manifest, l.text)
	l.node = m.changeset(l, before, other, names, delta)
	for k, i := range touched {
		g := &m.group.files[i]
		g.revs = appendRev(g.revs, l.files[i].node, old[k], hg.NullNode, old[k], l.node, revs[k])
	}
	if mergeWith >= 0 {
		m.lines[mergeWith] = l.fork(other.branch)
	}
}

// changeset adds the changelog's and the manifest's revision of l, whose
// manifest is made, and returns the changeset's node.
func (m *weaver) changeset(l *line, p1, p2 line, files []string, delta []byte) hg.Node {
	text := changelogText(l.manifest, l.branch, m.step, files, fmt.Sprintf("change %d of %d files: %x", m.step, len(files), m.rng.Uint64()))
	node := hg.HashText(p1.node, p2.node, text)
	m.changelog = appendRev(m.changelog, node, p1.node, p2.node, hg.NullNode, node, hgtest.FullDelta(text))
	m.group.manifest = appendRev(m.group.manifest, l.manifest, p1.manifest, p2.manifest, p1.manifest, node, delta)
	m.step++
	return node
}

// edit replaces one line of a file and returns the delta.
func (m *weaver) edit(v *version) []byte {
	start := m.rng.IntN(len(v.text))
	for start > 0 && v.text[start-1] != '\n' {
		start--
	}
	end := start + slices.Index(v.text[start:], '\n') + 1
	f := fragment{start, end, m.newLine()}
	text := slices.Concat(v.text[:start], f.data, v.text[end:])
	*v = version{hg.HashText(v.node, hg.NullNode, text), text}
	return appendFragment(nil, f)
}

func (m *weaver) newText() []byte {
	var b []byte
	for range 10 + m.rng.IntN(60) {
		b = append(b, m.newLine()...)
	}
	return b
}

var words = []string{"node", "parent", "manifest", "changelog", "the", "of", "delta", "= 0;", "if", "return", "chunk", "index", "(a, b)", "err", "snapshot"}

// newLine makes a line that compresses about as source text does.
func (m *weaver) newLine() []byte {
	b := fmt.Appendf(nil, "\t")
	for range 2 + m.rng.IntN(8) {
		b = append(append(b, words[m.rng.IntN(len(words))]...), ' ')
	}
	return fmt.Appendf(b, "%x\n", m.rng.Uint32())
}

// writeBundle writes a bundle2 stream whose only part is the changegroup. The
// part's payload goes out in chunks, as the format wants them.
func writeBundle(w io.Writer, g *group) error {
	empty := hgtest.Bundle2(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "02"}}})
	// The last eight bytes end the payload and the stream.
	head, end := empty[:len(empty)-8], empty[len(empty)-8:]
	if _, err := w.Write(head); err != nil {
		return err
	}
	c := &chunked{w: w}
	if err := g.writeTo(c); err != nil {
		return err
	}
	_, err := w.Write(end)
	return err
}
