package verify_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
	"vcsd/verify"
)

// A damage is done to a copy of a repository that hg made.
type damage struct {
	name string
	repo string // of testdata/repos
	do   func(t *testing.T, hgDir string)
	// file is what a finding must name, relative to .hg; empty: whatever hg
	// finds is enough.
	file   string
	remedy string // of a finding; empty: any
}

// edit changes a file's bytes.
func edit(file string, f func(b []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, hgDir string) {
		t.Helper()
		name := filepath.Join(hgDir, file)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(file string) func(*testing.T, string) {
	return func(t *testing.T, hgDir string) {
		t.Helper()
		if err := os.Remove(filepath.Join(hgDir, file)); err != nil {
			t.Fatal(err)
		}
	}
}

// The files of the repository zstd: its changelog, manifest and data/f are
// inline, data/blob is split.
var zstdFiles = []string{"store/00changelog.i", "store/00manifest.i", "store/data/f.i", "store/data/blob.i", "store/data/blob.d"}

// damages makes the table.
func damages() []damage {
	var all []damage
	for _, f := range zstdFiles {
		all = append(all, flips(f)...)
		all = append(all, cuts(f)...)
		all = append(all, damage{name: "remove", repo: "zstd", do: remove(f), file: strings.Replace(f, "blob.i", "blob", 1)})
		all = append(all, damage{name: "append", repo: "zstd", do: edit(f, func(b []byte) []byte { return append(b, "more"...) }), file: f})
	}
	nowhere := strings.Repeat("12345678", 5)
	return append(all,
		damage{"fncache line", "zstd", edit("store/fncache", dropLine("data/f.i")), "store/fncache", "hg debugrebuildfncache"},
		damage{"fncache line of a data file", "zstd", edit("store/fncache", dropLine("data/blob.d")), "store/fncache", "hg debugrebuildfncache"},
		damage{"fncache with a name too many", "zstd", edit("store/fncache", func(b []byte) []byte { return append(b, "data/none.i\n"...) }), "store/fncache", "hg debugrebuildfncache"},
		damage{"fncache without its last newline", "zstd", edit("store/fncache", func(b []byte) []byte { return b[:len(b)-1] }), "store/fncache", "hg debugrebuildfncache"},
		damage{"fncache with an empty line", "zstd", edit("store/fncache", func(b []byte) []byte { return append([]byte("\n"), b...) }), "store/fncache", "hg debugrebuildfncache"},
		damage{"no fncache", "zstd", remove("store/fncache"), "store/fncache", "hg debugrebuildfncache"},
		damage{"orphan", "zstd", orphan, "store/data/orphan.i", ""},
		damage{"hashed filelog gone", "names", removeMatching("store/dh/*/*.i"), "store/dh/", ""},
		damage{"filelog gone without fncache", "nofncache", removeMatching("store/data/*.i"), "store/data/", ""},
		damage{"linkrev of a file", "zstd", setInt32("store/data/g.i", 0, 20, 3), "store/data/g.i", ""},
		damage{"linkrev of a file ahead", "zstd", setInt32("store/data/blob.i", 5, 20, 1000), "store/data/blob.i", ""},
		damage{"linkrev of a file below 0", "zstd", setInt32("store/data/blob.i", 5, 20, -2), "store/data/blob.i", ""},
		damage{"linkrev of the manifest", "zstd", setInt32("store/00manifest.i", 0, 20, 4), "store/00manifest.i", ""},
		damage{"linkrev of the changelog", "zstd", setInt32("store/00changelog.i", 0, 20, 4), "store/00changelog.i", ""},
		damage{"parent ahead", "zstd", setInt32("store/data/blob.i", 5, 24, 9), "store/data/blob.i", ""},
		damage{"base ahead", "zstd", setInt32("store/data/blob.i", 5, 16, 9), "store/data/blob.i", ""},
		damage{"node twice", "zstd", edit("store/data/blob.i", func(b []byte) []byte { copy(b[64*7+32:64*7+52], b[64*6+32:]); return b }), "store/data/blob.i", ""},
		damage{"chunk moved", "zstd", setInt32("store/data/blob.i", 5, 2, 7<<16), "store/data/blob.i", ""},
		damage{"bookmark to nowhere", "zstd", edit("bookmarks", func(b []byte) []byte { return append(b, nowhere+" lost\n"...) }), "bookmarks", ""},
		damage{"bookmark that is none", "zstd", edit("bookmarks", func(b []byte) []byte { return append(b, "nonsense\n"...) }), "bookmarks", ""},
		damage{"phase root to nowhere", "zstd", edit("store/phaseroots", func(b []byte) []byte { return append(b, "1 "+nowhere+"\n"...) }), "store/phaseroots", ""},
		damage{"phase that is none", "zstd", edit("store/phaseroots", func(b []byte) []byte { return append([]byte("x"), b...) }), "store/phaseroots", ""},
		damage{"marker cut", "obsolete", edit("store/obsstore", func(b []byte) []byte { return b[:len(b)-3] }), "store/obsstore", ""},
		damage{"markers of another version", "obsolete", edit("store/obsstore", func(b []byte) []byte { b[0] = 9; return b }), "store/obsstore", ""},
		damage{"copy source gone", "renames", remove("store/data/a2.i"), "store/data/a2.i", ""},
		damage{"branch cache", "branches", lieInCache, "cache/rbc-revs-v1", "remove the file: it is made anew"},
		damage{"transaction", "zstd", func(t *testing.T, hgDir string) {
			if err := os.WriteFile(filepath.Join(hgDir, "store/journal"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "store/journal", "hg recover"},
	)
}

// lieInCache makes hg write its cache of branches, and changes one in it.
func lieInCache(t *testing.T, hgDir string) {
	hgtest.New(t).In(filepath.Dir(hgDir)).Run("debugupdatecaches")
	edit("cache/rbc-revs-v1", func(b []byte) []byte { b[7] ^= 1; return b })(t, hgDir)
}

// flips changes one byte at places all over a file.
func flips(file string) (all []damage) {
	const places = 6
	for i := range places {
		all = append(all, damage{name: fmt.Sprintf("flip %d", i), repo: "zstd", do: edit(file, func(b []byte) []byte {
			b[(len(b)-1)*i/(places-1)] ^= 0x15
			return b
		})})
	}
	return all
}

// cuts shortens a file.
func cuts(file string) (all []damage) {
	for _, keep := range []struct {
		name string
		n    func(n int) int
	}{
		{"to nothing", func(int) int { return 0 }}, {"to 3 bytes", func(int) int { return 3 }}, {"to half", func(n int) int { return n / 2 }},
		{"by 1 byte", func(n int) int { return n - 1 }}, {"by 64 bytes", func(n int) int { return n - 64 }},
	} {
		all = append(all, damage{name: "cut " + keep.name, repo: "zstd", do: edit(file, func(b []byte) []byte { return b[:keep.n(len(b))] })})
	}
	return all
}

func dropLine(line string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.Replace(b, []byte(line+"\n"), nil, 1) }
}

// setInt32 writes a number into an entry of an index that is not inline, or into
// the first one.
func setInt32(file string, rev, off int, v int32) func(*testing.T, string) {
	return edit(file, func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[rev*64+off:], uint32(v))
		return b
	})
}

func removeMatching(pattern string) func(*testing.T, string) {
	return func(t *testing.T, hgDir string) {
		names, err := filepath.Glob(filepath.Join(hgDir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		if err := os.Remove(names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// orphan adds a filelog that nothing leads to.
func orphan(t *testing.T, hgDir string) {
	b, err := os.ReadFile(filepath.Join(hgDir, "store/data/g.i"))
	if err == nil {
		err = os.WriteFile(filepath.Join(hgDir, "store/data/orphan.i"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	edit("store/fncache", func(b []byte) []byte { return append(b, "data/orphan.i\n"...) })(t, hgDir)
}

// Whatever hg verify finds is found, and what it overlooks as far as the table
// says so.
func TestDamage(t *testing.T) {
	for i, d := range damages() {
		t.Run(fmt.Sprintf("%d %s", i, d.name), func(t *testing.T) {
			t.Parallel()
			dir := hgtest.Repo(t, d.repo)
			d.do(t, filepath.Join(dir, ".hg"))
			_, found := run(t, dir, verify.Options{})
			h := hgtest.New(t).With("experimental.evolution=all").In(dir)
			res := h.Try("verify")
			theirs := res.Code != 0 || strings.Contains(res.Stderr, "warning") || strings.Contains(res.Stderr, "abandoned")
			for _, f := range found {
				t.Log(f)
			}
			if theirs && len(found) == 0 {
				t.Errorf("hg verify finds more:\n%s%s", res.Stdout, res.Stderr)
			}
			ok := slices.ContainsFunc(found, func(f verify.Finding) bool {
				return strings.HasPrefix(f.File, d.file) && (d.remedy == "" || f.Remedy == d.remedy)
			})
			if d.file != "" && !ok {
				t.Errorf("nothing found in %s with the remedy %q\nhg says: %s%s", d.file, d.remedy, res.Stdout, res.Stderr)
			}
			if !theirs && len(found) == 0 {
				t.Log("neither finds it")
			}
		})
	}
}
