package ingest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/refs"
)

// A crashCase is a push at whose operations something goes wrong in turn.
type crashCase struct {
	name   string
	before [][]byte // pushes that are there already
	push   []byte
	after  []byte // a push on top of it
	// done tells whether the push is there; first whether what was before is.
	done, first func(n *node) bool
}

// noise returns bytes that don't compress, so that two revisions of a file fill
// an inline log.
func noise(seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, 70_000)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// splits returns three changesets of a file: its log is split by the second.
func splits(path string) []*hgtest.Changeset {
	var all []*hgtest.Changeset
	var c *hgtest.Changeset
	for i, content := range []string{noise(1), noise(2), "short\n"} {
		c = hgtest.NewChangeset(c, "", fmt.Sprint("split ", i), map[string]string{path: content})
		all = append(all, c)
	}
	return all
}

func crashCases() []crashCase {
	has := func(nodes ...hg.Node) func(*node) bool { return func(n *node) bool { return n.has(nodes...) } }
	yes := func(*node) bool { return true }
	c := chain(nil, "", "c", 6)
	other := hgtest.NewChangeset(c[0], "", "other", map[string]string{"Dir/New": "new\n"})
	third := hgtest.NewChangeset(other, "", "third", map[string]string{"Dir/New": "more\n"})
	long := strings.Repeat("Long Name/", 20) + "file"
	e, l := splits("log"), splits(long)
	hasSplit := func(rev hg.Node, path string) func(*node) bool {
		return func(n *node) bool {
			split, err := vfs.Exists(n.fs, n.repo.FilelogData(path))
			return n.has(rev) && split && err == nil
		}
	}
	return []crashCase{
		{"first push", nil, pushOf(c[:3]...), pushOf(c[3]), has(c[2].Node()), yes},
		{"small push to an old file", [][]byte{pushOf(c[:3]...)}, pushOf(c[3]), pushOf(c[4]), has(c[3].Node()), has(c[2].Node())},
		{"new file", [][]byte{pushOf(c[:1]...)}, pushOf(other), pushOf(third), has(other.Node()), has(c[0].Node())},
		{"split", [][]byte{pushOf(e[0])}, pushOf(e[1]), pushOf(e[2]), hasSplit(e[1].Node(), "log"), has(e[0].Node())},
		{"split of a hashed name", [][]byte{pushOf(l[0])}, pushOf(l[1]), pushOf(l[2]), hasSplit(l[1].Node(), long), has(l[0].Node())},
		{
			"bookmark only", [][]byte{pushOf(c[:3]...), bookmarkPush("m", c[0].Node())}, bookmarkPush("m", c[1].Node()), bookmarkPush("n", c[2].Node()),
			func(n *node) bool { return n.bookmark("m") == c[1].Node() },
			func(n *node) bool { m := n.bookmark("m"); return m == c[0].Node() || m == c[1].Node() },
		},
		{
			"phases only", [][]byte{pushOf(c[:3]...)}, phasePush(c[1].Node()), phasePush(c[2].Node()),
			func(n *node) bool { v := n.view(); defer v.Close(); return v.Phase(1) == hg.Public },
			has(c[2].Node()),
		},
		{
			"markers only", [][]byte{pushOf(c[:4]...), markerPush(c[3].Node())}, markerPush(c[2].Node()), markerPush(c[1].Node()),
			func(n *node) bool { return !n.has(c[2].Node()) },
			func(n *node) bool { return !n.has(c[3].Node()) && n.has(c[1].Node()) },
		},
	}
}

// A fault is one way in which things go wrong at operation k.
type fault struct {
	name string
	at   func(fsys vfs.FS, k int) *errfs.FS
	// left is the disk as the next process finds it, and its boot id.
	left func(m *vfs.Mem, k int) (*vfs.Mem, string)
}

var errDisk = errors.New("disk on fire")

func faults() []fault {
	same := func(m *vfs.Mem, _ int) (*vfs.Mem, string) {
		m.Kill()
		return m, "boot-1"
	}
	cut := func(fsys vfs.FS, k int) *errfs.FS { return errfs.CutNth(fsys, k, errfs.Changes...) }
	return []fault{
		{"failure", func(fsys vfs.FS, k int) *errfs.FS { return errfs.FailNth(fsys, k, errDisk) }, same},
		{"kill", cut, same},
		{"kill in a sync that fails", errfs.KillInSync, same},
		{"power cut, all that was not synced is lost", cut, func(m *vfs.Mem, _ int) (*vfs.Mem, string) { return m.Crash(nil), "boot-2" }},
		{"power cut", cut, func(m *vfs.Mem, k int) (*vfs.Mem, string) {
			return m.Crash(rand.New(rand.NewPCG(uint64(k), 7))), "boot-2"
		}},
	}
}

// TestCrash pushes with every operation failing in turn, or the power cut at
// it. Then the repository is opened again: the push is there whole or not at
// all, it is there if it was acknowledged, the next push works, and hg finds
// nothing wrong (which is asked of a sample).
func TestCrash(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init")
	verifier := h.Session()
	for _, c := range crashCases() {
		for _, f := range faults() {
			t.Run(c.name+"/"+f.name, func(t *testing.T) {
				s := &sweep{t: t, crashCase: c, fault: f, base: emptyRepo(t), seen: map[bool]int{}, verifier: verifier}
				for k := 0; s.crashAt(k) && !t.Failed(); k += crashStride {
				}
				if s.seen[true] == 0 || s.seen[false] == 0 {
					t.Errorf("pushes done: %v, want some done and some not", s.seen)
				}
			})
		}
	}
}

// A sweep is one case with one kind of fault.
type sweep struct {
	t *testing.T
	crashCase
	fault
	base     *vfs.Mem
	seen     map[bool]int // faults by whether the push was done
	verifier *hgtest.Session
}

// crashAt returns whether the fault happened.
func (s *sweep) crashAt(k int) (fired bool) {
	mem := s.base.Crash(nil) // a copy: all of it is durable
	n := &node{t: s.t, fs: mem, publishing: s.crashCase.name != "phases only" && s.crashCase.name != "markers only", boot: "boot-1", cluster: refs.NewMemory()}
	n.mustOpen()
	for _, b := range s.before {
		n.push(b)
	}
	n.close()

	fsys := s.at(mem, k)
	n.fs = fsys
	acknowledged := false
	if err := n.open(); err == nil {
		_, err := n.try(s.push)
		acknowledged = err == nil
		_ = n.stop() // says what is wrong with the disk
	}
	n.fs, n.boot = s.left(mem, k)
	if err := s.check(n, acknowledged); err != nil {
		s.t.Errorf("%s (acknowledged: %v): %v", fsys.Where(), acknowledged, err)
	}
	return fsys.Fired()
}

// check looks at what is there after a fault, and goes on from there.
func (s *sweep) check(n *node, acknowledged bool) error {
	if err := n.open(); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	done := s.done(n)
	if acknowledged && !done {
		return errors.New("the push is gone")
	}
	if !s.first(n) {
		return errors.New("what was there before is gone")
	}
	if _, err := n.try(s.push); err != nil || !s.done(n) {
		return fmt.Errorf("push again: %v", err)
	}
	if _, err := n.try(s.after); err != nil {
		return fmt.Errorf("next push: %w", err)
	}
	if err := n.stop(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if err := s.cutPower(n); err != nil {
		return err
	}
	if s.seen[done]++; s.seen[done] == 3 {
		verify(s.t, s.verifier, n.fs)
	}
	return nil
}

// cutPower wants what was acknowledged and checkpointed to be on the disk, whatever
// happened to a sync of an earlier process.
func (s *sweep) cutPower(n *node) error {
	want := storeContent(s.t, n.fs)
	n.fs, n.boot = n.fs.(*vfs.Mem).Crash(nil), "boot-3"
	if err := errors.Join(n.open(), n.stop()); err != nil {
		return fmt.Errorf("open after a power cut: %w", err)
	}
	got := storeContent(s.t, n.fs)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			return fmt.Errorf("%q differs after a power cut: %d bytes, want %d", name, len(got[name]), len(want[name]))
		}
	}
	return nil
}

// verify has hg look at a repository in memory.
func verify(t *testing.T, s *hgtest.Session, fsys vfs.FS) {
	t.Helper()
	dir := t.TempDir()
	copyOut(t, fsys, "", filepath.Join(dir, ".hg"))
	if r := s.Try("verify", "-R", dir); r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "warning") {
		t.Errorf("hg verify: exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
