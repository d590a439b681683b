package store

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vcsd/internal/vfs"
)

// A saved cache is byte for byte what hg would have written, and the next open
// reads no changeset for it.
func TestSaveBranches(t *testing.T) {
	dir := t.TempDir()
	hgRun := func(args ...string) {
		t.Helper()
		cmd := exec.Command("hg", append([]string{"-R", dir, "--config", "ui.username=u"}, args...)...)
		cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("hg %v: %v\n%s", args, err, out)
		}
	}
	hgRun("init", dir)
	for _, branch := range []string{"default", "stable", "default", "other"} {
		hgRun("branch", "-f", branch)
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(branch+t.Name()+string(rune(len(branch)))), 0o666); err != nil {
			t.Fatal(err)
		}
		hgRun("commit", "-A", "-m", branch, "-d", "0 0", "--config", "ui.allowemptycommit=1")
	}
	hgRun("commit", "--close-branch", "-m", "close", "-d", "0 0")
	hgRun("debugupdatecaches")
	hgDir := filepath.Join(dir, ".hg")
	want := map[string][]byte{}
	for _, name := range []string{rbcNamesName, rbcRevsName} {
		b, err := os.ReadFile(filepath.Join(hgDir, name))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = b
		if err := os.Remove(filepath.Join(hgDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(vfs.NewOS(hgDir), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SaveBranches(false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(hgDir, rbcRevsName)); err == nil {
		t.Error("5 changesets were saved before it was worth it")
	}
	if err := r.SaveBranches(true); err != nil {
		t.Fatal(err)
	}
	for name, b := range want {
		got, err := os.ReadFile(filepath.Join(hgDir, name))
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s = %q, %v, want %q", name, got, err, b)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(vfs.NewOS(hgDir), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.branches.saved != 5 {
		t.Errorf("%d changesets came from the cache, want 5", again.branches.saved)
	}
}
