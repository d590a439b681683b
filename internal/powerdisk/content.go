package powerdisk

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	// Size is the length of a disk in bytes.
	Size = 512 << 20

	pageBytes   = 4096
	sectorBytes = 512 // what a disk writes whole or not at all
)

// Content is what a disk holds. It is not changed any more, and several disks
// may start with it.
type Content struct{ pages pages }

// pages are those that aren't zeros, by number. A page is never written after it
// was put here.
type pages map[int64][]byte

// Format returns a disk with an empty file system.
func Format(t testing.TB) Content {
	t.Helper()
	need(t)
	name := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, Size)); err != nil {
		t.Fatal(err)
	}
	// What is set up lazily would be written while a test runs.
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", name).CombinedOutput()
	if err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := Content{make(pages)}
	zeros := make([]byte, pageBytes)
	for i := range int64(Size / pageBytes) {
		b := make([]byte, pageBytes)
		if _, err := io.ReadFull(f, b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, zeros) {
			c.pages[i] = b
		}
	}
	return c
}

// read fills b with what stands at off.
func (p pages) read(b []byte, off int64) {
	for len(b) > 0 {
		in := off % pageBytes
		n := min(len(b), pageBytes-int(in))
		if page := p[off/pageBytes]; page != nil {
			copy(b[:n], page[in:])
		} else {
			clear(b[:n])
		}
		b, off = b[n:], off+int64(n)
	}
}

func (p pages) write(b []byte, off int64) {
	for len(b) > 0 {
		in := off % pageBytes
		n := min(len(b), pageBytes-int(in))
		page := make([]byte, pageBytes)
		copy(page, p[off/pageBytes])
		copy(page[in:], b[:n])
		p[off/pageBytes] = page
		b, off = b[n:], off+int64(n)
	}
}

// A write is one that the disk has taken and not flushed.
type write struct {
	data []byte
	off  int64
}

// cut returns what is left of a disk when the power goes: what was flushed, and of
// the writes after that all, none, or any sectors.
func cut(flushed pages, pending []write, rng *rand.Rand) Content {
	left := maps.Clone(flushed)
	luck := rng.IntN(5) // of 4: how much is likely to be written
	for _, w := range pending {
		for off := 0; off < len(w.data); {
			n := min(len(w.data)-off, sectorBytes)
			if rng.IntN(3) > 0 { // most often not torn
				n = len(w.data) - off
			}
			if rng.IntN(4) < luck {
				left.write(w.data[off:off+n], w.off+int64(off))
			}
			off += n
		}
	}
	return Content{left}
}
