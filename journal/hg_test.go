package journal_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/journal"
)

// hgIn returns a function that runs the real hg in dir.
func hgIn(t *testing.T, dir string) func(args ...string) string {
	t.Helper()
	exe, err := exec.LookPath("hg")
	if err != nil {
		t.Fatal(err)
	}
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command(exe, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGUSER=test")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("hg %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// TestHgReadsASplitLog splits filelogs that hg made, one of which a clone
// shares, and lets hg verify and extend both repositories.
func TestHgReadsASplitLog(t *testing.T) {
	dir := t.TempDir()
	hg := hgIn(t, dir)
	hg("init", "a")
	text := ""
	for i := range 5 {
		text += fmt.Sprintf("line %d\n", i*i)
		mustDo(t, os.WriteFile(filepath.Join(dir, "a", "f"), []byte(text), 0o666))
		hg("-R", "a", "commit", "-A", "-m", fmt.Sprint(i), "-d", "0 0")
	}
	hg("clone", "-U", "a", "b")
	fsys := vfs.NewOS(filepath.Join(dir, "a", ".hg"))
	in := must(fsys.Stat("store/data/f.i"))
	if in.Nlink < 2 {
		t.Fatalf("the clone shares nothing: %d links", in.Nlink)
	}
	fncache := must(fsys.Stat("store/fncache")).Size
	j := open(t, vfs.NewMem(), journal.Options{})
	r := record(1,
		split("store/data/f.i", "store/data/f.d", in.Size),
		write(journal.Append, "store/fncache", fncache, "data/f.d\n"),
	)
	for range 2 {
		if _, err := j.Apply(r, fsys, journal.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := must(fsys.Stat("store/data/f.i")).Size; got != 5*64 {
		t.Errorf("index of %d bytes, want %d", got, 5*64)
	}
	for _, repo := range []string{"a", "b"} {
		hg("-R", repo, "verify")
		if got := hg("-R", repo, "cat", "-r", "4", filepath.Join(dir, repo, "f")); got != text {
			t.Errorf("%s: f = %q, want %q", repo, got, text)
		}
	}
	mustDo(t, os.WriteFile(filepath.Join(dir, "a", "f"), []byte(text+"more\n"), 0o666))
	hg("-R", "a", "commit", "-m", "more")
	hg("-R", "b", "pull", "-u", "a")
	hg("-R", "b", "verify")
}
