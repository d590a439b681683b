package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// writeTree makes the files of a repository for a test.
func writeTree(t *testing.T, files map[string]string) vfs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return vfs.NewOS(dir)
}

const stockRequires = "dotencode\nfncache\ngeneraldelta\nrevlogv1\nsparserevlog\nstore\n"

func TestReadRequirements(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // names, or part of the error
		abort bool   // want an *hg.Abort
	}{
		{"plain", map[string]string{"requires": stockRequires}, "dotencode fncache generaldelta revlogv1 sparserevlog store", false},
		{"no newline at the end", map[string]string{"requires": "revlogv1\nstore"}, "revlogv1 store", false},
		{"safe", map[string]string{"requires": "share-safe\n", "store/requires": stockRequires},
			"dotencode fncache generaldelta revlogv1 share-safe sparserevlog store", false},
		{"of the working copy", map[string]string{"requires": "dirstate-v2\nexp-sparse\nshare-safe\n", "store/requires": "revlogv1\nstore\n"},
			"dirstate-v2 exp-sparse revlogv1 share-safe store", false},
		{"share", map[string]string{"requires": "relshared\n" + stockRequires, "sharedpath": "other/.hg", "other/.hg/requires": stockRequires},
			"dotencode fncache generaldelta relshared revlogv1 sparserevlog store", false},
		{"safe share", map[string]string{"requires": "relshared\nshare-safe\n", "sharedpath": "other/.hg\n",
			"other/.hg/requires": "share-safe\n", "other/.hg/store/requires": stockRequires},
			"dotencode fncache generaldelta relshared revlogv1 share-safe sparserevlog store", false},
		{"source became safe", map[string]string{"requires": "relshared\n" + stockRequires, "sharedpath": "other/.hg", "other/.hg/requires": "share-safe\n"},
			"source uses share-safe", true},
		{"source is not safe", map[string]string{"requires": "relshared\nshare-safe\n", "sharedpath": "other/.hg", "other/.hg/requires": stockRequires},
			"does not support share-safe", true},
		{"share of nothing", map[string]string{"requires": "relshared\nrevlogv1\nstore\n", "sharedpath": "other/.hg"}, "nonexistent", false},
		{"absolute path that is none", map[string]string{"requires": "shared\nrevlogv1\nstore\n", "sharedpath": "other/.hg"}, "absolute", true},
		{"treemanifest", map[string]string{"requires": stockRequires + "treemanifest\n"}, "unknown to this Mercurial: treemanifest", true},
		{"several", map[string]string{"requires": stockRequires + "narrowhg-experimental\nexp-revlogv2.2\n"}, ": exp-revlogv2.2 narrowhg-experimental", true},
		{"in the store", map[string]string{"requires": "share-safe\n", "store/requires": stockRequires + "exp-changelog-v2\n"}, ": exp-changelog-v2", true},
		{"remotefilelog", map[string]string{"requires": stockRequires + "exp-remotefilelog-repo-req-1\n"}, "exp-remotefilelog-repo-req-1", true},
		{"largefiles' blobs", map[string]string{"requires": stockRequires + "lfs\n"}, ": lfs", true},
		{"empty line", map[string]string{"requires": "revlogv1\n\nstore\n"}, "corrupt", true},
		{"no letter", map[string]string{"requires": "revlogv1\nstore\n-x\n"}, "corrupt", true},
		{"nothing at all", map[string]string{"hgrc": ""}, "lacks the requirement revlogv1", true},
		{"without a store", map[string]string{"requires": "revlogv1\n"}, "lacks the requirement store", true},
		{"safe without the store's", map[string]string{"requires": "share-safe\n"}, "store/requires", false},
	}
	for _, tt := range tests {
		r, err := ReadRequirements(writeTree(t, tt.files))
		got := strings.Join(r.Names(), " ")
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		var abort *hg.Abort
		if errors.As(err, &abort) != tt.abort {
			t.Errorf("%s: error %v, want an abort: %v", tt.name, err, tt.abort)
		}
	}
}

func TestRequirementsImply(t *testing.T) {
	r, err := NewRequirements("store", "revlogv1", "fncache", "generaldelta", "revlog-compression-zstd", "bookmarksinstore", "persistent-nodemap", "share-safe")
	if err != nil {
		t.Fatal(err)
	}
	if !r.FNCache || r.DotEncode || !r.GeneralDelta || r.SparseRevlog || !r.Zstd || !r.BookmarksInStore || !r.PersistentNodemap || !r.ShareSafe || r.Shared {
		t.Errorf("requirements %+v", r)
	}
	if r.Encoder() != EncodeHybrid {
		t.Errorf("encoder %v, want EncodeHybrid", r.Encoder())
	}
	want := []string{"bookmarksinstore", "generaldelta", "revlog-compression-zstd", "revlogv1"}
	if got := r.Streamed(); !slices.Equal(got, want) {
		t.Errorf("Streamed() = %q, want %q", got, want)
	}
}

// TestStreamedAsHg compares what a stream clone takes over, and that all else
// hg knows is either honoured or refused by name.
func TestRequirementsAsHg(t *testing.T) {
	var known struct{ Fixed, Supported []string }
	askHg(t, `
from mercurial import requirements, localrepo
json.dump({'Fixed': sorted(enc(r) for r in requirements.STREAM_FIXED_REQUIREMENTS), 'Supported': sorted(enc(r) for r in localrepo.localrepository._basesupported)}, sys.stdout)
`, nil, &known)
	refused := []string{"exp-changelog-v2", "exp-copies-sidedata-changeset", "exp-revlogv2.2", "treemanifest"}
	for _, name := range known.Supported {
		_, err := NewRequirements(name, "store", "revlogv1")
		if want := slices.Contains(refused, name); (err != nil) != want {
			t.Errorf("requirement %q: %v, want it refused: %v", name, err, want)
		}
	}
	for _, name := range known.Fixed {
		if r, err := NewRequirements(name, "store", "revlogv1"); err == nil && !slices.Contains(r.Streamed(), name) {
			t.Errorf("Streamed leaves out %q", name)
		}
	}
}

func TestInitAsHg(t *testing.T) {
	theirs, ours := t.TempDir(), t.TempDir()
	runHg(t, theirs, "init")
	fsys := vfs.NewOS(filepath.Join(ours, ".hg"))
	if err := fsys.MkdirAll(""); err != nil {
		t.Fatal(err)
	}
	if err := Init(fsys); err != nil {
		t.Fatal(err)
	}
	want, got := tree(t, theirs), tree(t, ours)
	for name, data := range want {
		if got[name] != data {
			t.Errorf("%s is %q, want %q", name, got[name], data)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("hg init makes no %s", name)
		}
	}
	if out := runHg(t, ours, "verify"); !strings.Contains(out, "checked 0 changesets") {
		t.Errorf("hg verify: %s", out)
	}
	if _, err := ReadRequirements(fsys); err != nil {
		t.Error(err)
	}
	if err := Init(fsys); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second Init: %v, want fs.ErrExist", err)
	}
}

// tree returns the files below a directory, and the directories with "/" as
// their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		if d.IsDir() {
			files[name] = "/"
			return nil
		}
		b, err := os.ReadFile(p)
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
