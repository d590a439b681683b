package e2e

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// inlineLimit is at how many bytes of chunks hg splits a log.
const inlineLimit = 131072

// incompressible returns n bytes that don't compress, in lines.
func incompressible(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
		if i%70 == 0 {
			b[i] = '\n'
		}
	}
	return string(b)
}

// TestInlineBoundary sends the same pushes to vcsd and to stock hg, with files
// around the size at which a log is split. Then vcsd goes on with the store
// that stock made.
func TestInlineBoundary(t *testing.T) {
	h := hgtest.New(t)
	for _, name := range []string{"ours/r", "stock/r"} {
		h.Run("init", name)
	}
	ours := hgtest.Serve(t, hgtest.ServerOptions{Root: filepath.Join(h.Dir, "ours")})
	stock := hgtest.Serve(t, hgtest.ServerOptions{Root: filepath.Join(h.Dir, "stock"), Stock: true})
	client := h.In("client")
	h.Run("init", "client")
	rng := rand.New(rand.NewPCG(57, 0))
	push := func(round string, urls ...string) {
		t.Helper()
		for _, url := range urls {
			client.Run("push", "-q", url)
		}
		for _, dir := range []string{"ours/r", "stock/r"} {
			checkSplitRule(t, round, filepath.Join(h.Dir, dir))
		}
		sameLayout(t, round, filepath.Join(h.Dir, "ours/r"), filepath.Join(h.Dir, "stock/r"))
	}
	commit := func(message string, sizes ...int) {
		files := make(map[string]string)
		for _, n := range sizes {
			for _, name := range []string{fmt.Sprint("f", n), fmt.Sprint(strings.Repeat("Long_", 30), n)} {
				old, err := os.ReadFile(filepath.Join(client.Dir, name))
				if err != nil { // a new file: n bytes
					files[name] = incompressible(rng, n)
				} else { // one more line, with the letter of its chunk
					files[name] = string(old) + "\n" + incompressible(rng, 100)
				}
			}
		}
		client.Commit(message, files)
	}
	// With their letter, chunks of texts are a byte longer. An entry has 64.
	sizes := []int{1000, 130700, 130900, inlineLimit - 66, inlineLimit - 65, inlineLimit - 64, inlineLimit - 2, inlineLimit - 1, inlineLimit, 140000}
	both := []string{ours.URL + "/r", stock.URL + "/r"}
	commit("new", sizes...)
	push("new", both...)
	commit("a line more", sizes...)
	push("a line more", both...)
	for range 3 {
		commit("several at once", sizes[:4]...)
	}
	push("several at once", both...)

	// The store that stock made, as it is just below the boundary.
	ours.Stop()
	stock.Stop()
	if err := os.RemoveAll(filepath.Join(h.Dir, "ours")); err != nil {
		t.Fatal(err)
	}
	if err := hgtest.CopyTree(filepath.Join(h.Dir, "stock"), filepath.Join(h.Dir, "ours")); err != nil {
		t.Fatal(err)
	}
	ours.Start()
	stock.Start()
	both = []string{ours.URL + "/r", stock.URL + "/r"}
	for i := range 4 {
		commit(fmt.Sprint("on stock's store ", i), sizes...)
		push(fmt.Sprint("on stock's store ", i), both...)
	}
	h.In("ours/r").Verify()
}

// logFiles returns the lengths of the files of a store's logs.
func logFiles(t *testing.T, repo string) map[string]int64 {
	t.Helper()
	files := make(map[string]int64)
	store := filepath.Join(repo, ".hg", "store")
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || ext != ".i" && ext != ".d" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[strings.TrimPrefix(path, store)] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameLayout compares the logs of files in two stores, to the byte.
func sameLayout(t *testing.T, round, a, b string) {
	t.Helper()
	got, want := logFiles(t, a), logFiles(t, b)
	for _, m := range []map[string]int64{got, want} {
		maps.DeleteFunc(m, func(name string, _ int64) bool { return strings.HasPrefix(name, "/00") })
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: the files of the logs are\n%v, stock's\n%v", round, got, want)
	}
}

// checkSplitRule checks that those logs are inline whose chunks together are
// below the limit.
func checkSplitRule(t *testing.T, round, repo string) {
	t.Helper()
	for name := range logFiles(t, repo) {
		if filepath.Ext(name) != ".i" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(repo, ".hg", "store", name))
		if err != nil {
			t.Fatal(err)
		}
		if inline, n := chunkBytes(b); inline != (n < inlineLimit) {
			t.Errorf("%s: %s has %d bytes of chunks, inline: %v", round, name, n, inline)
		}
	}
}

// chunkBytes walks an index (hg help internals.revlogs).
func chunkBytes(b []byte) (inline bool, n int) {
	inline = binary.BigEndian.Uint16(b)&1 != 0
	for len(b) >= 64 {
		length := int(binary.BigEndian.Uint32(b[8:]))
		n += length
		b = b[64:]
		if inline {
			b = b[length:]
		}
	}
	return inline, n
}
