package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"r/.hg/store", "r/sub/nested/.hg", "group/inner/.hg"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("r", filepath.Join(root, "alias")); err != nil {
		t.Fatal(err)
	}
	all := newMounts([]mount{{dir: root, depth: nested}, {prefix: "one/r", dir: filepath.Join(root, "r"), depth: single}, {prefix: "top", dir: root, depth: outer}})
	for _, tt := range []struct {
		path  string
		dir   string // below root; empty if nothing is found
		place place
	}{
		{"r", "r", place{prefix: "r"}},
		{"/r/", "r", place{prefix: "r"}},
		{"r/x/y", "r", place{prefix: "r", rest: "x/y"}},
		{"r/sub/nested", "r/sub/nested", place{prefix: "r/sub/nested"}},
		{"r/sub/nested/z", "r/sub/nested", place{prefix: "r/sub/nested", rest: "z"}},
		{"alias", "r", place{prefix: "alias"}},
		{"group/inner", "group/inner", place{prefix: "group/inner"}},
		{"top/r/sub/nested", "r", place{prefix: "top/r", rest: "sub/nested"}},
		{"one/r", "r", place{prefix: "one/r"}},
		{"one/r/sub/nested", "r", place{prefix: "one/r", rest: "sub/nested"}},
		{"one/rr", "", place{}},
		{"group", "", place{}},
		{"", "", place{}},
		{"r/.hg", "", place{}},
		{"r/.HG/store", "", place{}},
		{"group/../r", "", place{}},
		{"./r", "", place{}},
		{"r\x00", "", place{}},
		{"group\\inner", "", place{}},
		{"group//inner", "", place{}},
	} {
		got, ok := all.find(tt.path)
		want := tt.place
		if tt.dir != "" {
			want.dir = filepath.Join(root, tt.dir)
		}
		if ok != (tt.dir != "") || got != want {
			t.Errorf("find(%q) = %+v, %v, want %+v", tt.path, got, ok, want)
		}
	}
}
