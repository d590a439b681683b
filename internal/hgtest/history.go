package hgtest

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A History describes a random history. The same values give the same nodes.
type History struct {
	Seed  uint64
	Steps int // attempts to make a changeset or another change; some do nothing
	// Evolution lets steps amend drafts, which leaves markers and hidden
	// changesets.
	Evolution bool
}

// historian makes one history.
type historian struct {
	*HG
	s    *Session
	rng  *rand.Rand
	step int
}

// Make fills h.Dir, a new repository, with a random history made by hg itself:
// edits, new, removed, copied and renamed files, modes and links, branches,
// merges, closed heads, tags, bookmarks and phases.
func (d History) Make(t testing.TB, h *HG) {
	t.Helper()
	h.Run("init")
	if d.Evolution {
		writeFile(t, filepath.Join(h.Dir, ".hg", "hgrc"), "[experimental]\nevolution = all\n")
	}
	m := &historian{HG: h, s: h.Session(), rng: rand.New(rand.NewPCG(d.Seed, 1))}
	for m.step = range d.Steps {
		m.change(d.Evolution)
	}
	m.s.Try("update", "-q", "-C", "null")
}

func (m *historian) change(evolution bool) {
	switch n := m.rng.IntN(100); {
	case n < 55:
		m.edit()
		m.commit()
	case n < 70:
		m.s.Try("update", "-q", "-C", m.randomRev())
		m.edit()
		m.commit()
	case n < 76:
		m.s.Try("branch", "-q", fmt.Sprintf("branch %d", m.rng.IntN(6)))
		m.edit()
		m.commit()
	case n < 86:
		m.merge()
	case n < 88:
		m.commit("--close-branch")
	case n < 91:
		m.s.Try("tag", "-q", "-f", "-d", m.date(), fmt.Sprintf("tag%d", m.rng.IntN(8)))
	case n < 95:
		m.s.Try("bookmark", "-q", "-f", "-r", m.randomRev(), fmt.Sprintf("mark%d", m.rng.IntN(5)))
	case n < 97:
		m.s.Try("phase", "-q", "-p", m.randomRev())
	case evolution:
		m.edit()
		m.commit("--amend")
	default:
		m.edit()
		m.commit()
	}
}

func (m *historian) date() string { return fmt.Sprintf("%d 0", 1_600_000_000+m.step*37) }

func (m *historian) commit(flags ...string) {
	m.s.Try("addremove", "-q", "-s", "0")
	msg := fmt.Sprintf("step %d\n\nnumber %x", m.step, m.rng.Uint64())
	m.s.Try(append([]string{"commit", "-q", "-d", m.date(), "-m", msg}, flags...)...)
}

// randomRev names a visible revision; the null one while there is none.
func (m *historian) randomRev() string {
	revs := strings.Fields(m.s.Run("log", "-r", "all()", "-T", "{rev}\n"))
	if len(revs) == 0 {
		return "null"
	}
	return revs[m.rng.IntN(len(revs))]
}

func (m *historian) merge() {
	heads := strings.Fields(m.s.Run("log", "-r", "head() and not closed() and not ::.", "-T", "{rev}\n"))
	if len(heads) == 0 {
		return
	}
	tool := []string{":local", ":other", ":union"}[m.rng.IntN(3)]
	m.s.Try("merge", "-q", "--tool", tool, heads[m.rng.IntN(len(heads))])
	if m.rng.IntN(3) == 0 {
		m.edit()
	}
	m.commit()
	m.s.Try("update", "-q", "-C", ".") // where the merge could not be committed
}

// edit changes a few files of the working directory.
func (m *historian) edit() {
	for range 1 + m.rng.IntN(3) {
		files := m.files()
		if len(files) == 0 || m.rng.IntN(4) == 0 {
			m.newFile()
			continue
		}
		m.editFile(files[m.rng.IntN(len(files))])
	}
}

// files lists the working directory, sorted.
func (m *historian) files() []string {
	var names []string
	err := filepath.WalkDir(m.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".hg":
			return fs.SkipDir
		case !d.IsDir() && d.Name() != ".hgtags":
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return names
}

var historyDirs = []string{"", "src", "src/Deep/er", "ünï", "a b"}

func (m *historian) newFile() {
	dir := filepath.Join(m.Dir, historyDirs[m.rng.IntN(len(historyDirs))])
	name := filepath.Join(dir, fmt.Sprintf("File_%d.txt", m.rng.IntN(40)))
	m.must(os.MkdirAll(dir, 0o755))
	m.must(os.RemoveAll(name))
	if m.rng.IntN(12) == 0 {
		m.must(os.Symlink(fmt.Sprintf("target%d", m.rng.IntN(9)), name))
		return
	}
	m.must(os.WriteFile(name, m.text(), 0o644))
}

func (m *historian) editFile(name string) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 {
		m.must(os.Remove(name))
		return
	}
	switch m.rng.IntN(8) {
	case 0:
		m.must(os.Remove(name))
	case 1:
		m.s.Try("copy", "-q", name, fmt.Sprintf("%s.%d", name, m.rng.IntN(10)))
	case 2:
		m.s.Try("rename", "-q", name, fmt.Sprintf("%s.%d", name, m.rng.IntN(10)))
	case 3:
		m.must(os.Chmod(name, info.Mode()^0o111))
	default:
		m.rewrite(name)
	}
}

// rewrite replaces a random run of lines.
func (m *historian) rewrite(name string) {
	old, err := os.ReadFile(name)
	m.must(err)
	lines := strings.SplitAfter(string(old), "\n")
	from := m.rng.IntN(len(lines))
	to := min(len(lines), from+m.rng.IntN(5))
	text := strings.Join(lines[:from], "") + fmt.Sprintf("step %d %x\n", m.step, m.rng.Uint32()) + strings.Join(lines[to:], "")
	m.must(os.WriteFile(name, []byte(text), 0o644))
}

// text is a new file's: lines mostly, at times nothing or noise.
func (m *historian) text() []byte {
	switch m.rng.IntN(10) {
	case 0:
		return nil
	case 1:
		b := make([]byte, m.rng.IntN(3000))
		for i := range b {
			b[i] = byte(m.rng.Uint32())
		}
		return b
	}
	var b strings.Builder
	for i := range 1 + m.rng.IntN(60) {
		fmt.Fprintf(&b, "line %d of step %d: %x\n", i, m.step, m.rng.Uint32N(1000))
	}
	return []byte(b.String())
}

func (m *historian) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}
