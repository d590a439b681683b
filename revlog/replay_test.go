package revlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog/chunk"
)

// A bundleRev is one revision of a changegroup.
type bundleRev struct {
	Incoming
	delta []byte
}

// A bundle is a changegroup of version 02, taken apart.
type bundle struct {
	changelog, manifest []bundleRev
	names               []string // of files, in order
	files               map[string][]bundleRev
}

// cut takes n bytes off b.
func cut(b *[]byte, n int) []byte {
	out := (*b)[:n]
	*b = (*b)[n:]
	return out
}

func cutInt(b *[]byte) int { return int(int32(binary.BigEndian.Uint32(cut(b, 4)))) }

// readBundle reads an uncompressed bundle2 file that hg made.
func readBundle(t testing.TB, name string) *bundle {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if magic := cut(&b, 4); string(magic) != "HG20" {
		t.Fatalf("bundle begins with %q", magic)
	}
	cut(&b, cutInt(&b))
	for n := cutInt(&b); n > 0; n = cutInt(&b) {
		header := cut(&b, n)
		kind := string(header[1 : 1+header[0]])
		var payload []byte
		for n := cutInt(&b); n > 0; n = cutInt(&b) {
			payload = append(payload, cut(&b, n)...)
		}
		if strings.EqualFold(kind, "changegroup") {
			return readChangegroup(payload)
		}
	}
	t.Fatal("bundle without a changegroup")
	return nil
}

func readChangegroup(b []byte) *bundle {
	out := &bundle{changelog: readGroup(&b), manifest: readGroup(&b), files: make(map[string][]bundleRev)}
	for n := cutInt(&b); n > 0; n = cutInt(&b) {
		name := string(cut(&b, n-4))
		out.names = append(out.names, name)
		out.files[name] = readGroup(&b)
	}
	return out
}

func readGroup(b *[]byte) []bundleRev {
	var revs []bundleRev
	for n := cutInt(b); n > 0; n = cutInt(b) {
		c := cut(b, n-4)
		node := func() hg.Node { return hg.Node(cut(&c, hg.NodeLen)) }
		r := bundleRev{Incoming: Incoming{Node: node(), P1: node(), P2: node(), Base: node(), Link: node()}}
		r.delta = c
		revs = append(revs, r)
	}
	return revs
}

// memSegment is a segment in memory.
type memSegment struct{ b []byte }

func (m *memSegment) Append(b []byte) (int64, error) {
	off := int64(len(m.b))
	m.b = append(m.b, b...)
	return off, nil
}

func (m *memSegment) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(p, off)
}

// A format is how a repository stores its logs, and what hg calls that.
type format struct {
	config               []string
	engine               chunk.Engine
	generalDelta, sparse bool
}

var formats = map[string]format{
	"zstd":             {[]string{"format.revlog-compression=zstd"}, chunk.Zstd, true, true},
	"zlib":             {[]string{"format.revlog-compression=zlib"}, chunk.Zlib, true, true},
	"not sparse":       {[]string{"format.sparse-revlog=no"}, chunk.Zstd, true, false},
	"no general delta": {[]string{"format.usegeneraldelta=no", "format.sparse-revlog=no"}, chunk.Zstd, false, false},
}

// flags are those of hg init and hg clone.
func (f format) flags() []string {
	var args []string
	for _, c := range f.config {
		args = append(args, "--config", c)
	}
	return args
}

// A replayer writes a store as a push server would.
type replayer struct {
	t      testing.TB
	dir    string // of the store
	fs     vfs.FS
	format format

	staging time.Duration // spent on it
}

// log stages, plans and writes revs. The linkrev of a revision is link of its
// node, or its own rev if link is nil.
func (p *replayer) log(radix string, kind Kind, revs []bundleRev, link func(hg.Node) hg.Rev) {
	p.t.Helper()
	l, err := Open(p.fs, radix, Options{Inline: true, GeneralDelta: kind != Changelog && p.format.generalDelta})
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	s := l.Snapshot()
	defer s.Close()
	seg := &memSegment{}
	st := NewStager(s, seg, StageOptions{Kind: kind, Sparse: p.format.sparse, Engine: p.format.engine})
	start := time.Now()
	for _, r := range revs {
		if _, _, err := st.Add(r.Incoming, r.delta); err != nil {
			p.t.Fatal(err)
		}
	}
	p.staging += time.Since(start)
	plan := planAll(p.t, s, seg, st.Staged(), link)
	writePlan(p.t, p.dir, plan, seg)
	if err := l.Extend(plan.Size); err != nil {
		p.t.Fatal(err)
	}
	checkAll(p.t, l)
}

// checkAll reads every text.
func checkAll(t testing.TB, l *Log) {
	t.Helper()
	s := l.Snapshot()
	defer s.Close()
	r := s.Reader(0)
	for rev := range s.Len() {
		if _, err := r.Text(hg.Rev(rev)); err != nil {
			t.Fatal(err)
		}
	}
}

// planAll plans revisions that lie in one segment.
func planAll(t testing.TB, s *Snapshot, seg *memSegment, staged []Staged, link func(hg.Node) hg.Rev) Plan {
	t.Helper()
	p := NewPlanner(s, PlanOptions{Chunk: seg.chunk})
	for _, g := range staged {
		lr := hg.Rev(p.Len())
		if link != nil {
			lr = link(g.Link)
		}
		if _, added, err := p.Add(0, g, lr); err != nil || !added {
			t.Fatalf("plan %v: added = %v, err = %v", g.Node, added, err)
		}
	}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (m *memSegment) chunk(_ SegmentID, off int64, n int) ([]byte, error) {
	return m.b[off : off+int64(n)], nil
}

// writePlan does the writes of a plan in a directory.
func writePlan(t testing.TB, dir string, plan Plan, segs ...*memSegment) {
	t.Helper()
	for _, w := range plan.Writes {
		name := filepath.Join(dir, w.Path)
		if w.Kind == Split {
			splitFile(t, name, w.Offset)
			continue
		}
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Size() != w.Offset {
			t.Fatalf("write to %q at %d, where the file has %d bytes (%v)", w.Path, w.Offset, info.Size(), err)
		}
		var b []byte
		for _, part := range w.Parts {
			if part.Data != nil {
				b = append(b, part.Data...)
			} else {
				b = append(b, segs[part.Segment].b[part.Offset:part.Offset+part.Length]...)
			}
		}
		if int64(len(b)) != w.Len() {
			t.Errorf("write to %q has %d bytes, Len() = %d", w.Path, len(b), w.Len())
		}
		if _, err := f.WriteAt(b, w.Offset); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func splitFile(t testing.TB, name string, size int64) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	index, data, err := SplitInline(b[:size])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strings.TrimSuffix(name, ".i")+".d", data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, index, 0o666); err != nil {
		t.Fatal(err)
	}
}

// push writes a bundle into the store.
func (p *replayer) push(b *bundle) {
	p.t.Helper()
	p.log("00changelog", Changelog, b.changelog, nil)
	l, err := Open(p.fs, "00changelog", Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	s := l.Snapshot()
	defer s.Close()
	link := func(n hg.Node) hg.Rev {
		rev, ok := s.Rev(n)
		if !ok {
			p.t.Fatalf("no changeset %v", n)
		}
		return rev
	}
	p.log("00manifest", Manifest, b.manifest, link)
	for _, name := range b.names {
		radix := "data/" + storeName(name)
		if err := os.MkdirAll(filepath.Join(p.dir, filepath.Dir(radix)), 0o777); err != nil {
			p.t.Fatal(err)
		}
		p.log(radix, Filelog, b.files[name], link)
	}
}

// storeName encodes a file name that needs little of the store's encoding.
func storeName(name string) string {
	var b strings.Builder
	for _, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			b.WriteByte('_')
			b.WriteRune(c + 'a' - 'A')
		case c == '_':
			b.WriteString("__")
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func runHg(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("hg", args...)
	cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGUSER=test")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("hg %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// storeBytes returns the lengths of the logs of a store: changelog, manifest,
// files.
func storeBytes(t testing.TB, dir string) (n [3]int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch rel, _ := filepath.Rel(dir, path); {
		case rel == "00changelog.i", rel == "00changelog.d":
			n[0] += info.Size()
		case rel == "00manifest.i", rel == "00manifest.d":
			n[1] += info.Size()
		case strings.HasPrefix(rel, "data"+string(filepath.Separator)):
			n[2] += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sliceBundles makes bundles of a repository, one for each push: up to the
// revs given.
func sliceBundles(t testing.TB, repo string, ends []int) []string {
	t.Helper()
	var names []string
	for i, end := range ends {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.hg", i))
		args := []string{"-R", repo, "bundle", "-q", "-t", "none-v2", "-r", fmt.Sprintf("0:%d", end)}
		if i == 0 {
			args = append(args, "--base", "null")
		} else {
			args = append(args, "--base", fmt.Sprintf("0:%d", ends[i-1]))
		}
		runHg(t, append(args, name)...)
		names = append(names, name)
	}
	return names
}

// replay gives the same pushes to hg and to us and compares the stores.
func replay(t *testing.T, bundles []string, f format) {
	t.Helper()
	theirs, ours := filepath.Join(t.TempDir(), "theirs"), filepath.Join(t.TempDir(), "ours")
	runHg(t, append([]string{"init", theirs}, f.flags()...)...)
	for _, b := range bundles {
		runHg(t, "-R", theirs, "unbundle", "-q", b)
	}
	// What is no log, our store has from hg.
	runHg(t, append([]string{"clone", "-q", "-U", "--pull", theirs, ours}, f.flags()...)...)
	store := filepath.Join(ours, ".hg", "store")
	for _, name := range []string{"00changelog.i", "00changelog.d", "00manifest.i", "00manifest.d", "data"} {
		if err := os.RemoveAll(filepath.Join(store, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := &replayer{t: t, dir: store, fs: vfs.NewOS(store), format: f}
	for _, b := range bundles {
		p.push(readBundle(t, b))
	}
	t.Logf("staged in %v", p.staging)
	runHg(t, "-R", ours, "verify", "-q")
	if a, b := runHg(t, "-R", ours, "log", "-T", "{rev} {node}\n"), runHg(t, "-R", theirs, "log", "-T", "{rev} {node}\n"); a != b {
		t.Errorf("the changelogs differ:\n%s\n%s", a, b)
	}
	for name := range logNames(t, store) {
		compareEntries(t, name, store, filepath.Join(theirs, ".hg", "store"))
	}
	compareSizes(t, storeBytes(t, store), storeBytes(t, filepath.Join(theirs, ".hg", "store")))
}

// logNames returns the logs of a store.
func logNames(t testing.TB, dir string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); strings.HasSuffix(rel, ".i") && !d.IsDir() {
			names[strings.TrimSuffix(filepath.ToSlash(rel), ".i")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// compareEntries compares all that does not depend on how texts are stored.
func compareEntries(t *testing.T, name, ours, theirs string) {
	t.Helper()
	var logs [2]*Snapshot
	for i, dir := range []string{ours, theirs} {
		l, err := Open(vfs.NewOS(dir), name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		logs[i] = l.Snapshot()
		defer logs[i].Close()
	}
	a, b := logs[0], logs[1]
	if a.Len() != b.Len() || a.GeneralDelta() != b.GeneralDelta() {
		t.Fatalf("%q: %d revisions, general delta %v; hg's has %d, %v", name, a.Len(), a.GeneralDelta(), b.Len(), b.GeneralDelta())
	}
	describe := func(s *Snapshot, rev hg.Rev) string {
		p1, p2 := s.Parents(rev)
		return fmt.Sprint(s.Node(rev), p1, p2, s.LinkRev(rev), s.Flags(rev), s.TextLen(rev))
	}
	for rev := range hg.Rev(a.Len()) {
		if got, want := describe(a, rev), describe(b, rev); got != want {
			t.Errorf("%q: rev %d is %s, hg's %s", name, rev, got, want)
		}
	}
}

func compareSizes(t *testing.T, ours, theirs [3]int64) {
	t.Helper()
	var sum, want int64
	for i, what := range []string{"changelog", "manifest", "files"} {
		t.Logf("%s: %d bytes, hg %d: %.4f", what, ours[i], theirs[i], float64(ours[i])/float64(theirs[i]))
		sum, want = sum+ours[i], want+theirs[i]
	}
	if ratio := float64(sum) / float64(want); ratio > 1.05 {
		t.Errorf("store has %d bytes, hg's %d: %.4f, want at most 1.05", sum, want, ratio)
	}
}

// TestReplay compares with hg on histories that hg makes. VCSD_REPLAY may name a
// directory of further bundles, to be pushed in the order of their names.
func TestReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("makes some repositories")
	}
	if _, err := exec.LookPath("hg"); err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(t.TempDir(), "repo")
	runHg(t, "init", repo)
	dag := "+60 :a +40 *a +30 :b <a +20 /b +40 <a +15 *b +10 /b +120"
	runHg(t, "-R", repo, "debugbuilddag", "-q", "-m", "-o", "-n", dag)
	last := len(strings.Fields(runHg(t, "-R", repo, "log", "-T", "{rev}\n"))) - 1
	one, three := sliceBundles(t, repo, []int{last}), sliceBundles(t, repo, []int{last / 3, last / 2, last})
	for name, f := range formats {
		t.Run(name, func(t *testing.T) { replay(t, one, f) })
	}
	t.Run("three pushes", func(t *testing.T) { replay(t, three, formats["zstd"]) })
}

func TestReplayCorpus(t *testing.T) {
	dir := os.Getenv("VCSD_REPLAY")
	if dir == "" {
		t.Skip("VCSD_REPLAY is not set")
	}
	bundles, err := filepath.Glob(filepath.Join(dir, "*.hg"))
	if err != nil || len(bundles) == 0 {
		t.Fatalf("no bundles in %q: %v", dir, err)
	}
	slices.Sort(bundles)
	for name, f := range formats {
		t.Run(name, func(t *testing.T) { replay(t, bundles, f) })
	}
}
