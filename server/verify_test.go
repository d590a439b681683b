package server

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

func TestVerifyCommand(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"sound", "bad"} {
		if err := hgtest.CopyTree(hgtest.Repo(t, "zstd"), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	bad := filepath.Join(root, "bad")
	if err := os.Remove(filepath.Join(bad, ".hg", "store", "data", "f.i")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		code int
		out  string // in stdout
		errs string // in stderr
	}{
		{"sound", []string{"-R", filepath.Join(root, "sound")}, 0, "checked 30 changesets with 81 changes to 5 files\n", ""},
		{"sample", []string{"-R", filepath.Join(root, "sound"), "--sample", "2"}, 0, "checked a sample: 2 changesets", ""},
		{"damaged", []string{"-R", bad}, 1, `store/data/f.i of "f": empty or missing`, ""},
		{"all", []string{"--root", root}, 1, "sound: checked 30", ""},
		{"json", []string{"-R", bad, "--json"}, 1, `"file":"store/data/f.i"`, "findings"},
		{"no repository", []string{"-R", t.TempDir()}, 255, "", "not found"},
		{"none below", []string{"--root", t.TempDir()}, 255, "", "no repository below"},
		{"both", []string{"--root", root, "-R", bad}, 2, "", "can't be used together"},
		{"less than none", []string{"-R", bad, "--sample=-1"}, 255, "", "not a number of revisions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HGRCPATH", "")
			state := filepath.Join(t.TempDir(), "state")
			var out, errs bytes.Buffer
			code := Run(t.Context(), append([]string{"verify", "--state", state}, tt.args...), &out, &errs)
			if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("vcsd verify %q: code %d, want %d\n%s%s", tt.args, code, tt.code, out.String(), errs.String())
			}
			if _, err := os.Stat(state); err == nil {
				t.Error("it made the state directory")
			}
			if tt.name == "json" {
				for line := range strings.Lines(out.String()) {
					if !json.Valid([]byte(line)) {
						t.Errorf("line %q is no JSON", line)
					}
				}
			}
		})
	}
}
