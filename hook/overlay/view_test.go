package overlay_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"vcsd/hook/overlay"
	"vcsd/internal/hgtest"
)

// noise returns text that doesn't compress well, different for each seed.
func noise(seed, lines int) string {
	var b strings.Builder
	x := uint32(seed)*2654435761 + 1
	for range lines {
		for range 6 {
			x = x*1664525 + 1013904223
			fmt.Fprintf(&b, "%08x", x)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// scene is a repository and a copy of it in which the next push is made.
type scene struct {
	t           *testing.T
	hg          *hgtest.HG
	base, after *hgtest.HG
	pool        *overlay.Pool
}

func newScene(t *testing.T, settings ...string) *scene {
	h := hgtest.New(t).With(append([]string{"phases.new-commit=draft", "experimental.evolution=all"}, settings...)...)
	s := &scene{t: t, hg: h, base: h.In("base"), after: h.In("after")}
	h.Run("init", "base")
	s.base.Commit("first", map[string]string{"f": "1\n", "dir/g": noise(1, 20), "Dir/With Capitals": "x\n"})
	s.base.Run("update", "-q", "null")
	if err := hgtest.CopyTree(s.base.Dir, s.after.Dir); err != nil {
		t.Fatal(err)
	}
	s.after.Run("update", "-q", "tip")
	s.pool = overlay.New(overlay.Options{Root: s.base.Dir, Dir: filepath.Join(s.base.Dir, ".hg/vcsd/views")})
	t.Cleanup(func() {
		if err := s.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pushed returns what after has and base lacks.
func (s *scene) pushed() push {
	s.t.Helper()
	return pushBetween(s.t, tree(s.t, s.base.Dir), tree(s.t, s.after.Dir))
}

// view returns a View that shows p.
func (s *scene) view(p push) *overlay.View {
	s.t.Helper()
	v, err := s.pool.Acquire(p.files)
	if err != nil {
		s.t.Fatal(err)
	}
	p.apply(s.t, v.FS())
	return v
}

func (s *scene) release(v *overlay.View) {
	s.t.Helper()
	if err := v.Release(); err != nil {
		s.t.Fatal(err)
	}
}

// all is everything that hg shows of a repository.
func all(h *hgtest.HG) string {
	return h.Run("log", "-p", "-r", "all()", "-T", "{rev} {node} {phase} {branch} {bookmarks} {tags} {files} {desc}\n")
}

func TestViewShowsWhatIsPending(t *testing.T) {
	s := newScene(t)
	long := strings.Repeat("a long name/", 25) + "file"
	steps := []struct {
		name string
		make func(h *hgtest.HG)
	}{
		{"a change of a file", func(h *hgtest.HG) { h.Commit("edit", map[string]string{"f": "2\n"}) }},
		{"new files and directories", func(h *hgtest.HG) {
			h.Commit("new", map[string]string{"new/dir/file": "n\n", long: "l\n", "dir/aux": "reserved\n"})
		}},
		{"a bookmark alone", func(h *hgtest.HG) { h.Run("bookmark", "-r", "0", "bk") }},
		{"a split of filelog and manifest", func(h *hgtest.HG) {
			h.Commit("large", map[string]string{"dir/g": noise(2, 6000), "huge": noise(3, 7000)})
		}},
		{"more of the split", func(h *hgtest.HG) { h.Commit("more", map[string]string{"dir/g": noise(2, 6000) + "x\n"}) }},
		{"phases alone", func(h *hgtest.HG) { h.Run("phase", "--public", "2") }},
		{"a branch and a merge", func(h *hgtest.HG) {
			h.Run("update", "-q", "0")
			h.Run("branch", "-q", "other")
			h.Commit("side", map[string]string{"side": "s\n"})
			h.Run("merge", "-q", "-r", "default")
			h.Run("commit", "-m", "merge")
		}},
		{"a bookmark's end", func(h *hgtest.HG) { h.Run("bookmark", "-d", "bk") }},
		{"a marker", func(h *hgtest.HG) {
			h.Commit("amended", map[string]string{"f": "3\n"})
			h.Run("commit", "--amend", "-m", "amend")
		}},
	}
	for _, step := range steps {
		before := tree(t, s.base.Dir)
		step.make(s.after)
		p := s.pushed()
		v := s.view(p)
		in := s.hg.In(v.Root())
		if got, want := all(in), all(s.after); got != want {
			t.Errorf("%s: the view shows\n%s\nwant\n%s", step.name, got, want)
		}
		unlock(t, v)
		in.Verify()
		equalTrees(t, step.name, tree(t, s.base.Dir), before)
		equalTrees(t, step.name+" in the view", tree(t, v.Root()), tree(t, s.after.Dir))
		s.release(v)
		p.apply(t, real(s.base.Dir))
		equalTrees(t, step.name+" done", tree(t, s.base.Dir), tree(t, s.after.Dir))
	}
}

// unlock removes a View's lock, which hg verify would wait for, as it would in
// the hooks of stock.
func unlock(t *testing.T, v *overlay.View) {
	t.Helper()
	if err := v.FS().Remove("store/lock"); err != nil {
		t.Fatal(err)
	}
}

// A push that was refused leaves nothing for the next one that gets the same
// directory.
func TestRefusedPushIsGone(t *testing.T) {
	s := newScene(t)
	s.after.Commit("large", map[string]string{"dir/g": noise(2, 9000)})
	p := s.pushed()
	p.apply(t, real(s.base.Dir))
	for i := range 3 {
		v := s.view(push{files: s.pushed().files})
		if got, want := all(s.hg.In(v.Root())), all(s.base); got != want {
			t.Errorf("round %d: the view shows\n%s\nwant\n%s", i, got, want)
		}
		s.release(v)

		refused := &scene{t: t, hg: s.hg, base: s.base, after: s.hg.In(fmt.Sprint("refused", i)), pool: s.pool}
		if err := hgtest.CopyTree(s.base.Dir, refused.after.Dir); err != nil {
			t.Fatal(err)
		}
		refused.after.Run("update", "-q", "tip")
		refused.after.Commit("refused", map[string]string{"dir/g": noise(10+i, 9000), fmt.Sprintf("gone %d/x", i): "x\n"})
		v = refused.view(refused.pushed())
		if got, want := all(s.hg.In(v.Root())), all(refused.after); got != want {
			t.Errorf("round %d: the view of the refused push shows\n%s\nwant\n%s", i, got, want)
		}
		s.release(v)
	}
}

// What hooks do in the directory that they are run in.
func TestCommandsInView(t *testing.T) {
	s := newScene(t)
	write(t, filepath.Join(s.base.Dir, ".hg/hgrc"), "%include ../shared.rc\n[test]\nown = 1\n")
	write(t, filepath.Join(s.base.Dir, "shared.rc"), "[test]\nincluded = 2\n")
	write(t, filepath.Join(s.base.Dir, "hooks/check.sh"), "echo checked $1\n")
	write(t, filepath.Join(s.base.Dir, ".hg/localtags"), s.base.Node("0").String()+" local\n")
	n := s.after.Commit("pending", map[string]string{"f": "2\n"})
	s.after.Run("bookmark", "bk")
	v := s.view(s.pushed())
	defer s.release(v)
	in := s.hg.In(v.Root()).Setenv("HG_NODE="+n.String(), "HG_PENDING="+v.Root(), "PWD="+v.Root())
	tests := []struct{ command, want string }{
		{`hg log -r $HG_NODE: -T '{desc} {phase} {bookmarks}\n'`, "pending draft bk\n"},
		{`hg -R "$PWD" log -r tip -T '{desc}\n'`, "pending\n"},
		{`hg -R "$HG_PENDING" log -r tip -T '{desc}\n'`, "pending\n"},
		{`hg diff -c $HG_NODE --nodates | tail -2`, "-1\n+2\n"},
		{`hg cat -r $HG_NODE f`, "2\n"},
		{`hg heads -T '{desc}\n'`, "pending\n"},
		{`hg bookmarks -T '{bookmark} {node|short}\n'`, "bk " + n.Short() + "\n"},
		{`hg phase -r $HG_NODE`, "1: draft\n"},
		{`hg root`, v.Root() + "\n"},
		{`basename "$(hg root)"`, "base\n"},
		{`hg tags -T '{tag}\n'`, "tip\nlocal\n"},
		{`hg config test`, "test.included=2\ntest.own=1\n"},
		{`sh hooks/check.sh it`, "checked it\n"},
		{`hg -R "` + s.base.Dir + `" log -r tip -T '{desc}\n'`, "first\n"},
		{`hg clone -q -U . ../clone && hg -R ../clone log -r tip -T '{desc}\n'`, "pending\n"},
		{`hg bundle -q --base null -r $HG_NODE ../b && hg log -R ../b -r tip -T '{desc}\n'`, "pending\n"},
	}
	for _, tt := range tests {
		cmd := in.Command(t.Context())
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", tt.command}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.command, out, err, tt.want)
		}
	}
}

// Commands that write wait for a lock, as they do in a transaction's hooks.
func TestViewIsLocked(t *testing.T) {
	s := newScene(t)
	s.after.Commit("pending", map[string]string{"f": "2\n"})
	before := tree(t, s.base.Dir)
	v := s.view(s.pushed())
	defer s.release(v)
	in := s.hg.In(v.Root()).With("ui.timeout=0")
	for _, args := range [][]string{
		{"commit", "-m", "x"}, {"bookmark", "x"}, {"phase", "--public", "tip"}, {"pull", s.after.Dir}, {"update", "0"}, {"debugupdatecache"},
	} {
		if out := in.Fail(args...); !strings.Contains(out, "lock") {
			t.Errorf("hg %v in a view: %s", args, out)
		}
	}
	equalTrees(t, "after all", tree(t, s.base.Dir), before)
}

// The repository goes on while a hook looks at the view.
func TestViewStaysWhileRepositoryGrows(t *testing.T) {
	s := newScene(t)
	other := s.hg.In("other")
	if err := hgtest.CopyTree(s.base.Dir, other.Dir); err != nil {
		t.Fatal(err)
	}
	other.Run("update", "-q", "tip")
	s.after.Commit("pending", map[string]string{"f": "2\n", "both": "b\n"})
	v := s.view(s.pushed())
	defer s.release(v)
	in := s.hg.In(v.Root())
	look := func() string {
		return all(in) + in.Run("log", "-T", "{desc}\n", "dir/g") + in.Run("annotate", "-n", "-r", "tip", "f", "dir/g") +
			in.Run("cat", "-r", "tip", "dir/g") + in.Run("heads") + in.Run("log", "-fT", "{rev}", "-r", "tip", "f")
	}
	before := look()
	grow := func(what string, files map[string]string) {
		other.Commit(what, files)
		p := pushBetween(t, tree(t, s.base.Dir), tree(t, other.Dir))
		p.apply(t, real(s.base.Dir))
		if after := look(); after != before {
			t.Errorf("after %s the view shows\n%s\nand before\n%s", what, after, before)
		}
	}
	grow("the same file", map[string]string{"f": "other\n"})
	grow("a file that the view links", map[string]string{"dir/g": noise(1, 20) + "more\n"})
	grow("new files", map[string]string{"dir/new": "n\n", "both": "o\n"})
	grow("a split of what the view links", map[string]string{"dir/g": noise(1, 20) + noise(5, 6000)})
	// Revisions that belong to changesets beyond the view's are all that is
	// odd: those of files that the view links.
	unlock(t, v)
	out := in.Fail("verify")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "@") && !strings.HasPrefix(strings.TrimSpace(line), "dir/g@") {
			t.Errorf("verify: %s", line)
		}
	}
	t.Logf("verify in the view:\n%s", out)
	s.base.Verify()
}

func TestMoved(t *testing.T) {
	s := newScene(t)
	s.after.Commit("pending", map[string]string{"dir/g": noise(1, 21)})
	p := s.pushed()
	tests := []struct {
		name   string
		change func(f *overlay.File)
		want   error
	}{
		{"as it is", func(*overlay.File) {}, nil},
		{"shorter than thought", func(f *overlay.File) { f.Keep++ }, overlay.ErrMoved},
		{"split or not", func(f *overlay.File) { f.Inline = !f.Inline }, overlay.ErrMoved},
		{"missing", func(f *overlay.File) { f.Path = "store/data/none.i" }, fs.ErrNotExist},
	}
	for _, tt := range tests {
		files := append([]overlay.File(nil), p.files...)
		for i := range files {
			if files[i].Path == "store/data/dir/g.i" {
				tt.change(&files[i])
			}
		}
		v, err := s.pool.Acquire(files)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			s.release(v)
		}
	}
	for _, name := range []string{"store/lock", "../x", "/etc/passwd", "hgrc", "store/../hgrc", "store"} {
		if _, err := s.pool.Acquire([]overlay.File{{Path: name, Keep: 1}}); err == nil {
			t.Errorf("Acquire of %q: no error", name)
		}
	}
}

// Writing to a file that wasn't named would write to the repository.
func TestWritesThroughLinksAreRefused(t *testing.T) {
	s := newScene(t)
	s.after.Commit("pending", map[string]string{"f": "2\n", "new": "n\n"})
	p := s.pushed()
	before := tree(t, s.base.Dir)
	for i := range p.files {
		if p.files[i].Keep == 0 {
			continue // a new name has no link
		}
		files := append(append([]overlay.File(nil), p.files[:i]...), p.files[i+1:]...)
		v, err := s.pool.Acquire(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.tryApply(t, v.FS()); err == nil {
			t.Errorf("%q was written without being named", p.files[i].Path)
		}
		if err := v.Discard(); err != nil {
			t.Error(err)
		}
		equalTrees(t, p.files[i].Path, tree(t, s.base.Dir), before)
	}
}

func TestShare(t *testing.T) {
	for _, safe := range []string{"yes", "no"} {
		s := newScene(t, "format.use-share-safe="+safe)
		s.hg.With("extensions.share=").Run("share", "-q", "-U", "base", "shared")
		write(t, filepath.Join(s.base.Dir, ".hg/hgrc"), "[test]\nsource = 1\nboth = 1\n")
		write(t, filepath.Join(s.hg.Dir, "shared/.hg/hgrc"), "[test]\nown = 2\nboth = 2\n")
		s.after.Commit("pending", map[string]string{"f": "2\n"})
		pool := overlay.New(overlay.Options{
			Root: filepath.Join(s.hg.Dir, "shared"), Shared: filepath.Join(s.base.Dir, ".hg"), Dir: filepath.Join(s.hg.Dir, "views"),
		})
		p := s.pushed()
		v, err := pool.Acquire(p.files)
		if err != nil {
			t.Fatal(err)
		}
		p.apply(t, v.FS())
		in := s.hg.In(v.Root())
		if got, want := in.Run("config", "test"), s.hg.In("shared").Run("config", "test"); got != want {
			t.Errorf("share-safe %s: hg config: %q, want %q", safe, got, want)
		}
		unlock(t, v)
		in.Verify()
		if err := errors.Join(v.Release(), pool.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestPool(t *testing.T) {
	s := newScene(t)
	s.after.Commit("pending", map[string]string{"f": "2\n"})
	p := s.pushed()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				v, err := s.pool.Acquire(p.files)
				if err != nil {
					t.Error(err)
					return
				}
				if err := p.tryApply(t, v.FS()); err != nil {
					t.Error(err)
				}
				if b, err := os.ReadFile(filepath.Join(v.Root(), ".hg/store/00changelog.i")); err != nil || string(b) != tree(t, s.after.Dir)["store/00changelog.i"] {
					t.Errorf("changelog of %d bytes, %v", len(b), err)
				}
				if err := v.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := s.view(p)
	if err := errors.Join(s.pool.Reset(), v.Release(), s.pool.Close()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(s.base.Dir, ".hg/vcsd/views"))
	if err != nil || len(left) > 0 {
		t.Errorf("after Close %v are left, %v", left, err)
	}
	if _, err := s.pool.Acquire(nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Acquire after Close: %v", err)
	}
}

func write(t testing.TB, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}
