package journal_test

import (
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/journal"
)

// target returns a memory file system with these files.
func target(t testing.TB, content map[string]string) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	for name, b := range content {
		mustDo(t, vfs.MkdirAllSync(m, vfs.Dir(name)))
		mustDo(t, vfs.WriteAtomic(m, name, []byte(b), true))
	}
	return m
}

type content = map[string]string

func TestApply(t *testing.T) {
	revs := revisions(4, 10)
	inline2, _ := logOf(revs[:2], true)
	index2, data2 := logOf(revs[:2], false)
	index4, data4 := logOf(revs, false)
	inline3, _ := logOf(revs[:3], true)
	more := []journal.Write{
		split("store/a.i", "store/a.d", int64(len(inline2))),
		write(journal.Append, "store/a.d", int64(len(data2)), data4[len(data2):]),
		write(journal.Append, "store/a.i", 128, index4[128:]),
	}
	tests := []struct {
		name    string
		have    content
		writes  []journal.Write
		want    content
		touched []string
	}{
		{
			"a new file in new directories", nil,
			[]journal.Write{write(journal.Append, "store/data/x/y.i", 0, "ab", "cd")},
			content{"store/data/x/y.i": "abcd"},
			[]string{"store/data/x/y.i"},
		},
		{
			"append", content{"store/f": "abc"},
			[]journal.Write{write(journal.Append, "store/f", 3, "def"), write(journal.Append, "store/f", 6, "ghi")},
			content{"store/f": "abcdefghi"},
			[]string{"store/f"},
		},
		{
			"append that is there", content{"store/f": "abcdefghi"},
			[]journal.Write{write(journal.Append, "store/f", 3, "def")},
			content{"store/f": "abcdefghi"},
			[]string{"store/f"},
		},
		{
			"append that is there in part", content{"store/f": "abcd"},
			[]journal.Write{write(journal.Append, "store/f", 3, "d", "ef")},
			content{"store/f": "abcdef"},
			[]string{"store/f"},
		},
		{
			"append torn by a power cut", content{"store/f": "abc\x00\x00f\x00\x00iLATER"},
			[]journal.Write{write(journal.Append, "store/f", 3, "def", "ghi")},
			content{"store/f": "abcdefghiLATER"},
			[]string{"store/f"},
		},
		{
			"nothing to a new file", nil,
			[]journal.Write{write(journal.Append, "store/f", 0)},
			content{"store/f": ""},
			[]string{"store/f"},
		},
		{
			"replace", content{"bookmarks": "old and longer"},
			[]journal.Write{write(journal.Replace, "bookmarks", 0, "new")},
			content{"bookmarks": "new"},
			[]string{"bookmarks"},
		},
		{
			"replace by the same", content{"bookmarks": "same"},
			[]journal.Write{write(journal.Replace, "bookmarks", 0, "same")},
			content{"bookmarks": "same"},
			[]string{"bookmarks"},
		},
		{
			"replace twice, then append", content{"bookmarks": "b"},
			[]journal.Write{
				write(journal.Replace, "bookmarks", 0, "a"), write(journal.Replace, "bookmarks", 0, "b"),
				write(journal.Append, "bookmarks", 1, "c"),
			},
			content{"bookmarks": "bc"},
			[]string{"bookmarks"},
		},
		{
			"split", content{"store/a.i": inline2}, more,
			content{"store/a.i": index4, "store/a.d": data4},
			[]string{"store/a.d", "store/a.i"},
		},
		{
			"split over leftover data", content{"store/a.i": inline2, "store/a.d": "garbage that is longer than the data is"}, more,
			content{"store/a.i": index4, "store/a.d": data4},
			[]string{"store/a.d", "store/a.i"},
		},
		{
			"split that is done", content{"store/a.i": index2, "store/a.d": data2}, more,
			content{"store/a.i": index4, "store/a.d": data4},
			[]string{"store/a.d", "store/a.i"},
		},
		{
			"inline append, then split", content{"store/a.i": inline2},
			[]journal.Write{
				write(journal.AppendInline, "store/a.i", int64(len(inline2)), inline3[len(inline2):]),
				split("store/a.i", "store/dh/a.d", int64(len(inline3))),
			},
			content{"store/a.i": index4[:192], "store/dh/a.d": data4[:33+3]},
			[]string{"store/a.i", "store/dh/a.d"},
		},
		{
			"inline append where it is split", content{"store/a.i": index4, "store/a.d": data4},
			[]journal.Write{write(journal.AppendInline, "store/a.i", int64(len(inline2)), inline3[len(inline2):])},
			content{"store/a.i": index4, "store/a.d": data4},
			[]string{"store/a.i"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := target(t, tt.have)
			j := open(t, vfs.NewMem(), journal.Options{})
			r := record(1, tt.writes...)
			for _, round := range []string{"once", "again"} {
				touched, err := j.Apply(r, fsys, journal.ApplyOptions{})
				if err != nil {
					t.Fatalf("%s: %v", round, err)
				}
				if d := differ(files(t, fsys, ""), tt.want); d != "" {
					t.Errorf("%s: %s", round, d)
				}
				if got := touched.Files(); !slices.Equal(got, tt.touched) {
					t.Errorf("%s: touched %v, want %v", round, got, tt.touched)
				}
			}
			done, err := j.Check(r, fsys)
			if err != nil {
				t.Errorf("check: %v", err)
			}
			if strings.HasPrefix(tt.name, "replace twice") {
				return // its first half is undone by the second
			}
			if !done {
				t.Error("check: not done, want done")
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	revs := revisions(3, 10)
	inline, data := logOf(revs, true)
	index, _ := logOf(revs, false)
	n := int64(len(inline))
	badSum := write(journal.Append, "store/g", 0, "x")
	badSum.Sum++
	tests := []struct {
		name  string
		have  content
		write journal.Write
		want  error
	}{
		{"other bytes", content{"store/f": "abcdXf"}, write(journal.Append, "store/f", 3, "def"), &journal.ConflictError{Path: "store/f", Offset: 4, Err: journal.ErrDiffers}},
		{"other bytes where zeros belong", content{"store/f": "abc\x01"}, write(journal.Append, "store/f", 3, "\x00"), &journal.ConflictError{Path: "store/f", Offset: 3, Err: journal.ErrDiffers}},
		{"a gap", content{"store/f": "ab"}, write(journal.Append, "store/f", 3, "def"), &journal.ConflictError{Path: "store/f", Offset: 2, Err: journal.ErrGap}},
		{"a gap in a missing file", nil, write(journal.Append, "store/f", 3, "def"), &journal.ConflictError{Path: "store/f", Offset: 0, Err: journal.ErrGap}},
		{"append to a split log", content{"store/f": index}, write(journal.Append, "store/f", n, "def"), &journal.ConflictError{Path: "store/f", Offset: 192, Err: journal.ErrGap}},
		{"split of a longer log", content{"store/f": inline + "x"}, split("store/f", "store/d", n), &journal.ConflictError{Path: "store/f", Offset: n, Err: journal.ErrDiffers}},
		{"split of a shorter log", content{"store/f": inline[:n-1]}, split("store/f", "store/d", n), &journal.ConflictError{Path: "store/f", Offset: n - 1, Err: journal.ErrGap}},
		{"split of no log", nil, split("store/f", "store/d", n), &journal.ConflictError{Path: "store/f", Offset: 0, Err: journal.ErrGap}},
		{"split of a torn log", content{"store/f": inline[:n-1]}, split("store/f", "store/d", n-1), &journal.CorruptError{}},
		{"split of another file", content{"store/f": strings.Repeat("x", int(n))}, split("store/f", "store/d", n), &journal.CorruptError{}},
		{"split without its data", content{"store/f": index}, split("store/f", "store/d", n), &journal.CorruptError{}},
		{"bytes that don't match their checksum", nil, badSum, &journal.CorruptError{}},
		{"a missing segment", nil, fromSegment("store/f", 0, strings.Repeat("0", 32)+".seg", []byte("x")), fs.ErrNotExist},
		{"an invalid path", nil, write(journal.Append, "hgrc", 0, "x"), nil},
		{"a directory", content{"store/f/x": data}, write(journal.Append, "store/f", 0, "x"), &journal.CorruptError{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := target(t, tt.have)
			j := open(t, vfs.NewMem(), journal.Options{})
			r := record(1, write(journal.Append, "store/before", 0, "x"), tt.write)
			_, err := j.Apply(r, fsys, journal.ApplyOptions{})
			checkError(t, err, tt.want)
			if d := differ(files(t, fsys, ""), tt.have); d != "" {
				t.Errorf("something was written: %s", d)
			}
		})
	}
}

func checkError(t *testing.T, err, want error) {
	t.Helper()
	var conflict *journal.ConflictError
	var corrupt *journal.CorruptError
	switch want := want.(type) {
	case nil:
		if err == nil {
			t.Error("no error")
		}
	case *journal.ConflictError:
		if !errors.As(err, &conflict) || !reflect.DeepEqual(conflict, want) {
			t.Errorf("err = %v, want %v", err, want)
		}
	case *journal.CorruptError:
		if !errors.As(err, &corrupt) {
			t.Errorf("err = %v, want a CorruptError", err)
		}
	default:
		if !errors.Is(err, want) {
			t.Errorf("err = %v, want %v", err, want)
		}
	}
}

func TestApplyLeavesLinkedFilesAlone(t *testing.T) {
	for _, fsys := range []vfs.FS{target(t, nil), vfs.NewOS(t.TempDir())} {
		mustDo(t, fsys.MkdirAll("store"))
		long := strings.Repeat("0123456789", 60000)
		mustDo(t, vfs.WriteAtomic(fsys, "store/f", []byte(long), true))
		mustDo(t, fsys.Chmod("store/f", 0o640))
		mustDo(t, fsys.Link("store/f", "clone"))
		j := open(t, vfs.NewMem(), journal.Options{})
		r := record(1, write(journal.Append, "store/f", int64(len(long)), "new"))
		for _, want := range [][]string{{"store/f"}, nil} {
			touched, err := j.Apply(r, fsys, journal.ApplyOptions{})
			mustDo(t, err)
			if got := touched.Replaced(); !slices.Equal(got, want) {
				t.Errorf("replaced %v, want %v", got, want)
			}
		}
		if d := differ(files(t, fsys, ""), content{"store/f": long + "new", "clone": long}); d != "" {
			t.Error(d)
		}
		if got := must(fsys.Stat("store/f")).Mode.Perm(); got != 0o640 {
			t.Errorf("mode of the copy = %v, want 0640", got)
		}
	}
}

func TestApplySkipsWhatIsSuperseded(t *testing.T) {
	fsys := target(t, content{"bookmarks": "newest"})
	j := open(t, vfs.NewMem(), journal.Options{})
	r := record(1, write(journal.Replace, "bookmarks", 0, "older"), write(journal.Replace, "store/phaseroots", 0, "p"))
	o := journal.ApplyOptions{Redo: true, Superseded: func(path string) bool { return path == "bookmarks" }}
	if _, err := j.Apply(r, fsys, o); err != nil {
		t.Fatal(err)
	}
	if d := differ(files(t, fsys, ""), content{"bookmarks": "newest", "store/phaseroots": "p"}); d != "" {
		t.Error(d)
	}
}

func TestRedoRemovesLeftovers(t *testing.T) {
	tmp := vfs.TempName("store/data/f.i")
	fsys := target(t, content{tmp: "half", "store/data/.f.tmp": "another's"})
	j := open(t, vfs.NewMem(), journal.Options{})
	r := record(1, write(journal.Append, "store/data/f.i", 0, "x"))
	touched, err := j.Apply(r, fsys, journal.ApplyOptions{Redo: true})
	mustDo(t, err)
	if d := differ(files(t, fsys, ""), content{"store/data/f.i": "x", "store/data/.f.tmp": "another's"}); d != "" {
		t.Error(d)
	}
	if got, want := touched.Dirs(), []string{"", "store", "store/data"}; !slices.Equal(got, want) {
		t.Errorf("directories to sync: %v, want %v", got, want)
	}
}

func TestNewFilesGetTheStoresMode(t *testing.T) {
	for _, fsys := range []vfs.FS{vfs.NewMem(), vfs.NewOS(t.TempDir())} {
		mustDo(t, fsys.MkdirAll("store"))
		mustDo(t, fsys.Chmod("store", 0o770|fs.ModeSetgid))
		j := open(t, vfs.NewMem(), journal.Options{})
		r := record(1, write(journal.Append, "store/data/f.i", 0, "x"), write(journal.Replace, "bookmarks", 0, "x"))
		if _, err := j.Apply(r, fsys, journal.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{
			"store/data":     0o770 | fs.ModeSetgid | fs.ModeDir,
			"store/data/f.i": 0o660,
			"bookmarks":      0o660,
		} {
			if got := must(fsys.Stat(name)).Mode; got != want {
				t.Errorf("mode of %s = %v, want %v", name, got, want)
			}
		}
	}
}

func TestReserve(t *testing.T) {
	fsys := target(t, content{"store/f": "abc"})
	j := open(t, vfs.NewMem(), journal.Options{})
	r := record(1, write(journal.Append, "store/f", 3, strings.Repeat("x", 5000)), write(journal.Replace, "bookmarks", 0, "x"))
	fsys.SetCapacity(6000)
	if err := j.Reserve(r, fsys); err == nil {
		t.Error("no room: no error")
	}
	fsys.SetCapacity(20000)
	mustDo(t, j.Reserve(r, fsys))
	if got := must(fsys.Free("")); got != 20000-5003 {
		t.Errorf("free = %d, want %d", got, 20000-5003)
	}
	if d := differ(files(t, fsys, ""), content{"store/f": "abc"}); d != "" {
		t.Errorf("reserving changed files: %s", d)
	}
	if _, err := j.Apply(r, fsys, journal.ApplyOptions{}); err != nil {
		t.Error(err)
	}
}
