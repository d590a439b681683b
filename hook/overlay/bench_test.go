package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vcsd/internal/vfs"
)

// fakeStore makes a directory that looks like a store of so many files in
// directories of perDir, with a changelog and a manifest of so many bytes.
func fakeStore(b *testing.B, files, perDir, bytes int) string {
	b.Helper()
	root := filepath.Join(b.TempDir(), "repo")
	write := func(name string, data []byte) {
		name = filepath.Join(root, ".hg", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write("requires", []byte("store\nfncache\ndotencode\nrevlogv1\n"))
	for i := range files {
		write(fmt.Sprintf("store/data/d%d/some_file_name_%d.c.i", i/perDir, i), make([]byte, 100))
	}
	for _, name := range []string{"00changelog", "00manifest"} {
		write("store/"+name+".i", make([]byte, bytes/4))
		write("store/"+name+".d", make([]byte, bytes))
	}
	write("store/fncache", make([]byte, 40*files))
	write("store/phaseroots", nil)
	// An hour ago, so that times tell that nothing changed since.
	old := time.Now().Add(-time.Hour)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(name, old, old))
	})
	if err != nil {
		b.Fatal(err)
	}
	return root
}

// pushOf is what a push of one changeset of one file writes.
func pushOf(b *testing.B, root string) []File {
	var files []File
	for _, name := range []string{"data/d0/some_file_name_0.c.i", "00changelog.i", "00changelog.d", "00manifest.i", "00manifest.d", "fncache"} {
		in, err := os.Stat(filepath.Join(root, ".hg/store", name))
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, File{Path: "store/" + name, Keep: in.Size()})
	}
	return append(files, File{Path: "store/phaseroots"})
}

// BenchmarkView is one View of a push of one file from Acquire to Release.
func BenchmarkView(b *testing.B) {
	for _, bm := range []struct {
		files, perDir, mib int
		kept               string
	}{
		{100, 20, 1, "nothing"}, {100, 20, 1, "links"}, {100, 20, 1, "view"},
		{10000, 20, 1, "nothing"}, {10000, 20, 1, "links"}, {10000, 20, 1, "view"},
		{10000, 10000, 1, "view"}, {10000, 20, 64, "view"}, {100, 20, 64, "links"}, {100, 20, 64, "view"},
	} {
		name := fmt.Sprintf("files=%d/perdir=%d/log=%dMiB/kept=%s", bm.files, bm.perDir, bm.mib, bm.kept)
		b.Run(name, func(b *testing.B) { benchmarkView(b, fakeStore(b, bm.files, bm.perDir, bm.mib<<20), bm.kept) })
	}
}

func benchmarkView(b *testing.B, root, kept string) {
	files := pushOf(b, root)
	o := Options{Root: root, Dir: filepath.Join(root, ".hg/vcsd/views")}
	if kept != "view" {
		o.Idle = -1
	}
	p := New(o)
	use := func() {
		v, err := p.Acquire(files)
		if err != nil {
			b.Fatal(err)
		}
		if err := vfs.WriteAtomic(v.FS(), "store/phaseroots", nil, false); err != nil {
			b.Fatal(err)
		}
		if err := v.Release(); err != nil {
			b.Fatal(err)
		}
	}
	if kept != "nothing" {
		use()
	}
	b.ReportAllocs()
	for b.Loop() {
		if kept == "nothing" {
			if err := os.RemoveAll(p.linksDir()); err != nil {
				b.Fatal(err)
			}
		}
		use()
	}
	if err := p.Close(); err != nil {
		b.Fatal(err)
	}
}
