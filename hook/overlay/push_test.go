package overlay_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hook/overlay"
	"vcsd/internal/vfs"
	"vcsd/journal"
)

// tree returns the files below a .hg that a push may write, by their names
// relative to it.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	base := filepath.Join(root, ".hg")
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(base, name)
		if err != nil || !isState(filepath.ToSlash(rel)) {
			return err
		}
		b, err := os.ReadFile(name)
		if filepath.Base(name) == "R" || errors.Is(err, fs.ErrNotExist) {
			return nil // of a view
		}
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func isState(name string) bool {
	if name == "bookmarks" {
		return true
	}
	sub, ok := strings.CutPrefix(name, "store/")
	return ok && !strings.HasPrefix(sub, "undo") && !strings.HasPrefix(sub, "journal") && sub != "lock" && sub != "requires"
}

// A push is what leads from one state of a repository to another.
type push struct {
	writes []journal.Write
	files  []overlay.File
}

// pushBetween finds the writes that make after of before.
func pushBetween(t testing.TB, before, after map[string]string) push {
	t.Helper()
	var p push
	for name, now := range after {
		was, had := before[name]
		switch {
		case had && was == now:
		case strings.HasSuffix(name, ".i") && inline(was) && !inline(now):
			p.split(name, was, now, after[strings.TrimSuffix(name, ".i")+".d"])
		case had && strings.HasPrefix(now, was) && (strings.HasSuffix(name, ".i") || strings.HasSuffix(name, ".d") || name == "store/fncache"):
			p.write(journal.Append, name, int64(len(was)), now[len(was):])
			p.files = append(p.files, overlay.File{Path: name, Keep: int64(len(was)), Inline: inline(was)})
		case strings.HasSuffix(name, ".d") && inline(before[strings.TrimSuffix(name, ".d")+".i"]):
			// Part of the split.
		default:
			p.write(journal.Replace, name, 0, now)
			p.files = append(p.files, overlay.File{Path: name})
		}
	}
	if !p.names("store/00changelog.i") {
		log := before["store/00changelog.i"]
		p.files = append(p.files, overlay.File{Path: "store/00changelog.i", Keep: int64(len(log)), Inline: inline(log)})
	}
	return p
}

func (p *push) names(path string) bool {
	for _, f := range p.files {
		if f.Path == path {
			return true
		}
	}
	return false
}

func (p *push) write(op journal.Op, name string, off int64, data string) {
	b := []byte(data)
	p.writes = append(p.writes, journal.Write{
		Path: name, Op: op, Offset: off, Length: int64(len(b)), Sum: journal.Sum(b), Parts: []journal.Part{{Data: b}},
	})
}

// split divides an inline revlog and appends to its halves.
func (p *push) split(name, was, now, data string) {
	dataName := strings.TrimSuffix(name, ".i") + ".d"
	entries := 0
	for b := []byte(was); len(b) > 0; entries++ {
		b = b[64+binary.BigEndian.Uint32(b[8:]):]
	}
	p.writes = append(p.writes, journal.Write{Path: name, DataPath: dataName, Op: journal.Split, Length: int64(len(was))})
	p.write(journal.Append, dataName, int64(len(was)-64*entries), data[len(was)-64*entries:])
	p.write(journal.Append, name, int64(64*entries), now[64*entries:])
	p.files = append(p.files, overlay.File{Path: name, Keep: int64(len(was)), Inline: true}, overlay.File{Path: dataName})
}

func inline(b string) bool { return len(b) >= 4 && binary.BigEndian.Uint32([]byte(b))&(1<<16) != 0 }

// apply makes the writes of a push as the commit of its record would.
func (p *push) apply(t testing.TB, target vfs.FS) {
	t.Helper()
	if err := p.tryApply(t, target); err != nil {
		t.Fatal(err)
	}
}

func (p *push) tryApply(t testing.TB, target vfs.FS) error {
	t.Helper()
	j, err := journal.Open(vfs.NewOS(t.TempDir()), "journal", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Apply(&journal.Record{Seq: 1, Kind: journal.Commit, Writes: p.writes}, target, journal.ApplyOptions{})
	return err
}

// real is the .hg of a repository, for apply.
func real(root string) vfs.FS { return vfs.NewOS(filepath.Join(root, ".hg")) }

func equalTrees(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %q came into being", what, name)
		}
	}
	for name, b := range want {
		if g, ok := got[name]; !ok || !bytes.Equal([]byte(g), []byte(b)) {
			t.Errorf("%s: %q has %d bytes that differ from the %d wanted", what, name, len(g), len(b))
		}
	}
}
