package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/refs"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node is a machine's repository, a coordination service, and a pipeline
// between them, which may be closed and opened again.
type node struct {
	t          testing.TB
	fs         vfs.FS
	cluster    *refs.Memory
	publishing bool
	singleHead SingleHead
	boot       string
	limits     Limits
	losing     *losingStore // between the pipeline and the client; nil: nothing

	client *refs.Client
	repo   *store.Repo
	p      *Pipeline
}

// newNode returns an open pipeline of an empty repository in memory.
func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{t: t, fs: emptyRepo(t), cluster: refs.NewMemory(), publishing: true, boot: "boot-1"}
	n.mustOpen()
	t.Cleanup(n.close)
	return n
}

func emptyRepo(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := store.Init(m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (n *node) open() error {
	n.client = n.cluster.Client(refs.Options{Node: "test"})
	o := Options{
		Refs: n.store(), RepoID: "repo", Node: "test", Log: slog.New(slog.DiscardHandler), Limits: n.limits,
		BootID: n.boot, Policy: n.policy,
	}
	if err := Recover(context.Background(), n.fs, o); err != nil {
		return errors.Join(err, n.client.Close())
	}
	repo, err := store.Open(n.fs, store.Options{})
	if err != nil {
		return errors.Join(err, n.client.Close())
	}
	n.p, err = Open(context.Background(), repo, o)
	if err != nil {
		return errors.Join(err, n.client.Close(), repo.Close())
	}
	n.repo = repo
	return nil
}

func (n *node) policy() Policy {
	return Policy{Publishing: n.publishing, Markers: true, ReportInstabilities: true, SingleHead: n.singleHead}
}

// store returns what the pipeline knows as the coordination service.
func (n *node) store() refs.Store {
	if n.losing == nil {
		return n.client
	}
	n.losing.Store = n.client
	return n.losing
}

// newLosingNode returns an open pipeline whose publications are asked for by s first.
func newLosingNode(t testing.TB, s *losingStore) *node {
	t.Helper()
	return newLosingNodeWith(t, s, Limits{})
}

func newLosingNodeWith(t testing.TB, s *losingStore, l Limits) *node {
	t.Helper()
	n := &node{t: t, fs: emptyRepo(t), cluster: refs.NewMemory(), publishing: true, boot: "boot-1", losing: s, limits: l}
	n.mustOpen()
	t.Cleanup(n.close)
	return n
}

func (n *node) mustOpen() {
	n.t.Helper()
	if err := n.open(); err != nil {
		n.t.Fatal(err)
	}
}

// stop closes the pipeline and tells what went wrong with it.
func (n *node) stop() error {
	if n.repo == nil {
		return nil
	}
	err := errors.Join(n.p.Close(), n.client.Close(), n.repo.Close())
	n.repo = nil
	return err
}

func (n *node) close() {
	if err := n.stop(); err != nil {
		n.t.Errorf("close: %v", err)
	}
}

// another returns a second process at the same repository.
func (n *node) another() *node {
	n.t.Helper()
	o := &node{t: n.t, fs: n.fs, cluster: n.cluster, publishing: n.publishing, boot: n.boot, limits: n.limits}
	o.mustOpen()
	n.t.Cleanup(o.close)
	return o
}

// try pushes a bundle.
func (n *node) try(bundle []byte) (*Reply, error) {
	return n.p.Push(context.Background(), Request{Body: bytes.NewReader(bundle)})
}

// push pushes a bundle that must be accepted.
func (n *node) push(bundle []byte) *Reply {
	n.t.Helper()
	reply, err := n.try(bundle)
	if err != nil {
		n.t.Fatalf("push: %v", err)
	}
	return reply
}

func (n *node) view() *store.View {
	n.t.Helper()
	v, err := n.repo.View(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(v.Close)
	return v
}

// has tells whether changesets can be read.
func (n *node) has(nodes ...hg.Node) bool {
	n.t.Helper()
	v := n.view()
	defer v.Close()
	for _, node := range nodes {
		if _, ok := v.Rev(node); !ok {
			return false
		}
	}
	return true
}

func (n *node) bookmark(name string) hg.Node {
	n.t.Helper()
	v := n.view()
	defer v.Close()
	if at, ok := v.Bookmark(name); ok {
		return at
	}
	return hg.NullNode
}

// pushOf returns a bundle of changesets as a client sends it.
func pushOf(changesets ...*hgtest.Changeset) []byte {
	return hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(changesets...))...)
}

// bookmarkPush returns a bundle that moves a bookmark.
func bookmarkPush(name string, node hg.Node) []byte {
	return hgtest.Bundle2(
		hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry(name, node)})
}

func bookmarkEntry(name string, node hg.Node) []byte {
	if node.IsNull() {
		node = hg.WorkingNode
	}
	return append(append(append([]byte{}, node[:]...), byte(len(name)>>8), byte(len(name))), name...)
}

func phaseEntry(phase hg.Phase, node hg.Node) []byte {
	return append([]byte{0, 0, 0, byte(phase)}, node[:]...)
}

// phasePush returns a bundle that makes a changeset public.
func phasePush(node hg.Node) []byte {
	return hgtest.Bundle2(
		hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		hgtest.Part{Type: "PHASE-HEADS", Payload: phaseEntry(hg.Public, node)})
}

// markerPush returns a bundle with a marker that prunes a changeset.
func markerPush(node hg.Node) []byte {
	b, err := obsmarker.Encode([]obsmarker.Marker{{Prec: node, Date: obsmarker.Date{Seconds: 1_700_000_000}}})
	if err != nil {
		panic(err)
	}
	return hgtest.Bundle2(
		hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		hgtest.Part{Type: "OBSMARKERS", Payload: b})
}

// toDisk writes a repository out for hg.
func toDisk(t testing.TB, fsys vfs.FS) *hgtest.HG {
	t.Helper()
	h := hgtest.New(t)
	copyOut(t, fsys, "", filepath.Join(h.Dir, ".hg"))
	return h
}

func copyOut(t testing.TB, fsys vfs.FS, dir, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name, dst := path.Join(dir, e.Name()), filepath.Join(to, e.Name())
		switch {
		case name == vcsdDir: // hg has no use for it, and it may be in motion
		case e.IsDir():
			copyOut(t, fsys, name, dst)
		case e.Type()&fs.ModeSymlink == 0:
			if err := os.WriteFile(dst, readAll(t, fsys, name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func readAll(t testing.TB, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// storeContent returns the files that hg reads, by name.
func storeContent(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	files, err := storeFiles(fsys, "store", nil)
	if err != nil {
		t.Fatal(err)
	}
	content := make(map[string]string)
	for _, f := range append(files, "bookmarks") {
		if b, err := vfs.ReadFile(fsys, f, 1<<30); err == nil {
			content[f] = string(b)
		}
	}
	return content
}

// quarantined returns what lies in quarantine, but for the locks.
func quarantined(t testing.TB, fsys vfs.FS) []string {
	t.Helper()
	files, err := storeFiles(fsys, quarantineDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range files {
		if !strings.HasSuffix(f, "/lock") {
			left = append(left, f)
		}
	}
	return left
}

// text returns n lines that don't compress well.
func text(seed string, n int) string {
	var b strings.Builder
	for i := range n {
		h := hg.HashText(hg.NullNode, hg.NullNode, []byte(seed+string(rune('a'+i%26))+strings.Repeat("x", i)))
		b.WriteString(h.String() + "\n")
	}
	return b.String()
}

func writeFile(t testing.TB, fsys vfs.FS, name, data string) {
	t.Helper()
	if err := vfs.WriteAtomic(fsys, name, []byte(data), true); err != nil {
		t.Fatal(err)
	}
}

var refsOptions = refs.Options{Node: "test"}

func newMemory() *refs.Memory { return refs.NewMemory() }
