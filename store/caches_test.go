package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// commits makes a repository with hg, in which each of branches has a commit,
// and returns it with its changelog.
func commits(t *testing.T, branches []string) (string, *revlog.Snapshot) {
	t.Helper()
	dir := t.TempDir()
	runHg(t, dir, "init")
	for i, b := range branches {
		runHg(t, dir, "branch", "-qf", b)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(fmt.Sprint(i)), 0o666); err != nil {
			t.Fatal(err)
		}
		runHg(t, dir, "commit", "-qA", "-m", fmt.Sprint(i))
	}
	log, err := revlog.Open(vfs.NewOS(filepath.Join(dir, ".hg")), "store/00changelog", revlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s := log.Snapshot()
	t.Cleanup(func() { s.Close() })
	return dir, s
}

func readCache(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, ".hg", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeCache(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, ".hg", name), b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestHgReadsOurRevBranches plants a branch in a cache that we wrote: hg shows
// it, so hg took the cache.
func TestHgReadsOurRevBranches(t *testing.T) {
	dir, cl := commits(t, []string{"default", "b", "default", "ü"})
	names, revs := readCache(t, dir, "cache/rbc-names-v1"), readCache(t, dir, "cache/rbc-revs-v1")
	ours := ParseRevBranches(nil, nil)
	for r, b := range []string{"default", "b", "default", "ü"} {
		ours.Set(hg.Rev(r), cl.Node(hg.Rev(r)), b, false)
	}
	n, v := ours.Tails()
	if !bytes.Equal(n.Data, names) || !bytes.Equal(v.Data, revs) {
		t.Errorf("files are %q and %x, hg wrote %q and %x", n.Data, v.Data, names, revs)
	}
	ours.Set(3, cl.Node(3), "planted", true)
	n2, v2 := ours.Tails()
	writeCache(t, dir, "cache/rbc-names-v1", append(names[:n2.Off:n2.Off], n2.Data...))
	writeCache(t, dir, "cache/rbc-revs-v1", append(revs[:v2.Off:v2.Off], v2.Data...))
	removeBranch2(t, dir)
	if out := runHg(t, dir, "branches", "--closed"); !strings.Contains(out, "planted") || !strings.Contains(out, "(closed)") {
		t.Errorf("hg does not use the cache: %s", out)
	}
}

func removeBranch2(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, ".hg/cache/branch2*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRevBranchesTails applies the tails to files as they come, and reads them
// back now and then.
func TestRevBranchesTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type rec struct {
			name   string
			closes bool
		}
		var names, revs []byte
		c, want := ParseRevBranches(nil, nil), make(map[hg.Rev]rec)
		node := func(r hg.Rev) hg.Node { return hg.Node(bytes.Repeat([]byte{byte(r + 1)}, hg.NodeLen)) }
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "do") {
			case 0:
				n := rapid.IntRange(0, 12).Draw(t, "truncate")
				c.Truncate(n)
				for r := range want {
					if int(r) >= n {
						delete(want, r)
					}
				}
			case 1:
				n, v := c.Tails()
				names = append(names[:n.Off], n.Data...)
				revs = append(revs[:v.Off], v.Data...)
				if rapid.Bool().Draw(t, "reopen") {
					c = ParseRevBranches(names, revs)
				}
			default:
				r := hg.Rev(rapid.IntRange(0, 12).Draw(t, "rev"))
				w := rec{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), rapid.Bool().Draw(t, "closes")}
				c.Set(r, node(r), w.name, w.closes)
				want[r] = w
			}
		}
		n, v := c.Tails()
		c = ParseRevBranches(append(names[:n.Off], n.Data...), append(revs[:v.Off], v.Data...))
		for r := range hg.Rev(14) {
			name, closes, ok := c.Branch(r, node(r))
			if w, has := want[r]; ok != has || w != (rec{name, closes}) {
				t.Fatalf("rev %d: %q %v %v, want %+v %v", r, name, closes, ok, w, has)
			}
			if _, _, ok := c.Branch(r, node(r+1)); ok {
				t.Fatalf("rev %d is known by another node", r)
			}
		}
	})
}

func TestFNCache(t *testing.T) {
	tests := []struct {
		name, file string
		names      string // or "bad"
		open       bool
	}{
		{"empty", "", "", false},
		{"names", "data/a.i\ndata/b.d\n", "data/a.i data/b.d", false},
		{"directory that ends like a file", "data/a.i.hg/x.i\n", "data/a.i/x.i", false},
		{"twice", "data/a.i\ndata/a.i\n", "data/a.i", false},
		{"no newline", "data/a.i\ndata/b.i", "data/a.i data/b.i", true},
		{"cut off", "data/a.i\ndata/b", "data/a.i", true},
		{"empty line", "data/a.i\n\ndata/b.i\n", "bad", false},
		{"empty line at the end", "data/a.i\n\n", "bad", false},
	}
	for _, tt := range tests {
		c, err := ParseFNCache([]byte(tt.file))
		if (err != nil) != (tt.names == "bad") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if got := strings.Join(c.Names(), " "); got != tt.names || c.Unterminated() != tt.open || c.Len() != len(c.Names()) {
			t.Errorf("%s: names %q, unterminated %v, want %q, %v", tt.name, got, c.Unterminated(), tt.names, tt.open)
		}
	}
}

// TestFNCacheAsHg adds the name of a further filelog to hg's own list, and
// lets hg read it.
func TestFNCacheAsHg(t *testing.T) {
	dir := t.TempDir()
	runHg(t, dir, "init")
	for _, name := range []string{"x.i/y", "Caps", "x"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("1"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	runHg(t, dir, "commit", "-qA", "-m", "x")
	c, err := ParseFNCache(readCache(t, dir, "store/fncache"))
	if want := []string{"data/Caps.i", "data/x.i", "data/x.i/y.i"}; err != nil || !slices.Equal(c.Names(), want) {
		t.Fatalf("names %q, %v, want %q", c.Names(), err, want)
	}
	more := []string{"data/new.d/z.i"}
	data, off := c.AppendForm(more)
	old := readCache(t, dir, "store/fncache")
	if off != int64(len(old)) {
		t.Errorf("offset %d, want %d", off, len(old))
	}
	writeCache(t, dir, "store/fncache", append(old, data...))
	var listed []string
	askHg(t, `
from mercurial import ui, hg
r = hg.repository(ui.ui.load(), dec(ask))
json.dump(sorted(enc(f) for f in r.store.fncache), sys.stdout)
`, dir, &listed)
	added := c.Added(more)
	if !slices.Equal(listed, added.Names()) {
		t.Errorf("hg reads %q, want %q", listed, added.Names())
	}
	if _, off := added.AppendForm(nil); off != int64(len(old)+len(data)) {
		t.Errorf("next offset %d, want %d", off, len(old)+len(data))
	}
	if whole, err := ParseFNCache(EncodeFNCache(added.Names())); err != nil || !slices.Equal(whole.Names(), added.Names()) {
		t.Errorf("written whole it reads %q, %v", whole.Names(), err)
	}
}

// TestNodemapAsHg reads the node table that hg keeps of a changelog, which it
// does only for one that is not inline any more.
func TestNodemapAsHg(t *testing.T) {
	dir := t.TempDir()
	var count int
	askHg(t, `
import random
from mercurial import ui as uimod, hg, context
u = uimod.ui.load(); u.quiet = True
u.setconfig(b'format', b'use-persistent-nodemap', b'yes')
u.setconfig(b'storage', b'revlog.persistent-nodemap.slow-path', b'allow')
repo = hg.repository(u, dec(ask), create=True)
rng = random.Random(1)
with repo.lock(), repo.transaction(b'x') as tr:
    p = repo.nullid
    for i in range(100):
        text = b'%d' % i + bytes(rng.randrange(33, 127) for _ in range(3000))
        p = context.memctx(repo, [p, repo.nullid], text, [], lambda *a: None, user=b'u', date=(0, 0)).commit()
json.dump(len(repo), sys.stdout)
`, dir, &count)
	log, err := revlog.Open(vfs.NewOS(filepath.Join(dir, ".hg")), "store/00changelog", revlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cl := log.Snapshot()
	defer cl.Close()
	docketName, tableName := NodemapFiles("store/00changelog")
	b := readCache(t, dir, docketName)
	d, err := ParseNodemapDocket(b)
	if err != nil || !bytes.Equal(d.Append(nil), b) {
		t.Fatalf("docket %+v, %v, is written as %x, want %x", d, err, d.Append(nil), b)
	}
	if !d.Valid(cl) || int(d.TipRev) != count-1 {
		t.Errorf("docket %+v is not that of %d changesets", d, count)
	}
	table := readCache(t, dir, tableName(d))[:d.DataLen]
	for r := range hg.Rev(cl.Len()) {
		if got, ok := NodemapFind(table, cl.Node(r)); !ok || got != r {
			t.Errorf("node %s is found at %d, %v, want %d", cl.Node(r), got, ok, r)
		}
	}
	d.Tip[0]++
	if d.Valid(cl) {
		t.Error("a docket with another tip is valid")
	}
}

func TestWorkingParents(t *testing.T) {
	for _, config := range []string{"format.use-dirstate-v2=no", "format.use-dirstate-v2=yes"} {
		dir := t.TempDir()
		slow := []string{"--config", "storage.dirstate-v2.slow-path=allow"}
		hgIn := func(args ...string) { runHg(t, dir, append(args, slow...)...) }
		hgIn("init", "--config", config)
		fsys := vfs.NewOS(filepath.Join(dir, ".hg"))
		if p, err := WorkingParents(fsys); err != nil || len(p) != 0 {
			t.Errorf("%s: parents of nothing are %v, %v", config, p, err)
		}
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			hgIn("update", "-q", "null")
			hgIn("commit", "-qA", "-m", name)
		}
		hgIn("merge", "-q", "0")
		p, err := WorkingParents(fsys)
		if want := runHg(t, dir, append([]string{"parents", "-T", "{node} "}, slow...)...); err != nil || fmt.Sprintf("%s %s ", p[0], p[1]) != want {
			t.Errorf("%s: parents %v, %v, want %s", config, p, err, want)
		}
	}
}

func TestLabelsAsHg(t *testing.T) {
	names := []string{
		"a", "tip", ".", "null", "a:b", ":", "a\x00", "a\nb", "a\rb", "1", "12", "-3", "+4", "1_0", "1.5", " 7 ", "0x1", "１", "٣", "--5", "",
		" ", "\t", " a", "a ", "a\v", "a\x1c", "@", "a@b", "b@", "x y", "caf\xc3\xa9", "\xff", "%20", strings.Repeat("x", 400), "tip2", "..", "a\u00a0",
	}
	sent := make([]string, len(names))
	for i, n := range names {
		sent[i] = latin(n)
	}
	var want []struct{ Label, Mark, Divergent bool }
	askHg(t, `
from mercurial import bookmarks, scmutil, error
def ok(f, n):
    try: return f(None, n) == n or f is not bookmarks.checkformat
    except error.Abort: return False
json.dump([{'Label': ok(lambda r, n: scmutil.checknewlabel(r, n, b'x'), dec(n)), 'Mark': ok(bookmarks.checkformat, dec(n)), 'Divergent': bookmarks.isdivergent(dec(n))} for n in ask], sys.stdout)
`, sent, &want)
	for i, n := range names {
		if got := CheckLabel(n) == nil; got != want[i].Label {
			t.Errorf("CheckLabel(%q): %v, want ok %v", n, CheckLabel(n), want[i].Label)
		}
		// hg refuses other names only when it writes them, or when it is sent one.
		mark := want[i].Mark && utf8.ValidString(n)
		if got := CheckBookmarkName(n) == nil; got != mark {
			t.Errorf("CheckBookmarkName(%q): %v, want ok %v", n, CheckBookmarkName(n), mark)
		}
		if got := IsDivergent(n); got != want[i].Divergent {
			t.Errorf("IsDivergent(%q) = %v, want %v", n, got, want[i].Divergent)
		}
	}
}

func TestParseBookmarks(t *testing.T) {
	const a, b = "0123456789abcdef0123456789abcdef01234567", "89abcdef0123456789abcdef0123456789abcdef"
	marks := ParseBookmarks([]byte(a + " one\n\n  " + b + " two words  \nxyz three\nshort\n" + a + " one@x\n" + b + " last"))
	want := "one " + a + ",one@x " + a + ",last " + b + ",two words " + b
	var got []string
	for name, n := range marks {
		got = append(got, name+" "+n.String())
	}
	slices.Sort(got)
	wanted := strings.Split(want, ",")
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("bookmarks %q, want %q", got, wanted)
	}
}

func TestParsePhaseRootsRefuses(t *testing.T) {
	const n = "0123456789abcdef0123456789abcdef01234567"
	for _, file := range []string{"1\n", "x " + n + "\n", "3 " + n + "\n", "-1 " + n + "\n", "1 " + n[1:] + "\n", "1 " + n + " x\n", "\n"} {
		if r, err := ParsePhaseRoots([]byte(file)); err == nil {
			t.Errorf("%q is read as %v", file, r)
		}
	}
}

func FuzzSmallFiles(f *testing.F) {
	const n = "0123456789abcdef0123456789abcdef01234567"
	for _, s := range []string{
		"1 " + n + "\n", n + " mark\n", "data/a.i\n", n + " 3 " + n + "\n" + n + " o default\n", "a\x00b", strings.Repeat("\x00", 24),
		"dirstate-v2\n" + strings.Repeat("x", 64), "\x01\x08" + strings.Repeat("\x00", 60),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if roots, err := ParsePhaseRoots(b); err == nil {
			enc := EncodePhaseRoots(roots)
			again, err := ParsePhaseRoots(enc)
			if err != nil || !bytes.Equal(EncodePhaseRoots(again), enc) {
				t.Errorf("phase roots %q come back as %q, %v", b, enc, err)
			}
		}
		marks := EncodeBookmarks(ParseBookmarks(b))
		if again := EncodeBookmarks(ParseBookmarks(marks)); !bytes.Equal(again, marks) {
			t.Errorf("bookmarks %q come back as %q", marks, again)
		}
		if c, err := ParseFNCache(b); err == nil {
			ParseFNCache(EncodeFNCache(c.Names()))
		}
		if d, err := ParseNodemapDocket(b); err == nil && !bytes.Equal(d.Append(nil), b) {
			t.Errorf("docket %x comes back as %x", b, d.Append(nil))
		}
		NodemapFind(b, hg.Node{1})
		parseDirstateParents(b)
		ParseTagsFileNodes(b).Get(0, hg.Node{})
		ParseRevBranches(b, b).Branch(0, hg.Node{})
		if s, err := ParseObsStore(b); err == nil {
			s.Relevant(func(hg.Node) bool { return true })
			s.Fresh(s.Markers())
		}
	})
}
