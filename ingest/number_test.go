package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
	"vcsd/revlog"
	"vcsd/store"
	"vcsd/wire"
)

// TestUnterminatedFNCache pushes to a store whose list of files was cut short:
// hg reads what is there afterwards.
func TestUnterminatedFNCache(t *testing.T) {
	base := hgtest.NewChangeset(nil, "", "base", map[string]string{"a": "a\n", "b": "b\n"})
	tests := []struct {
		name, fncache string
		want          []string
	}{
		{"a whole name", "data/a.i\ndata/b.i", []string{"data/a.i", "data/b.i", "data/c.i", "data/d.i"}},
		{"half a name", "data/a.i\ndata/b.i\ndata/x", []string{"data/a.i", "data/b.i", "data/c.i", "data/d.i"}},
		{"as much as the new name takes", "data/a.i\ndata/b.i\n123456789", []string{"data/a.i", "data/b.i", "data/c.i", "data/d.i"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.push(pushOf(base))
			writeFile(t, n.fs, "store/fncache", tt.fncache)
			c := hgtest.NewChangeset(base, "", "c", map[string]string{"c": "c\n"})
			n.push(pushOf(c))
			d := hgtest.NewChangeset(c, "", "d", map[string]string{"c": "c\n2\n", "d": "d\n"})
			n.push(pushOf(d))
			checkFNCache(t, n, tt.want)
			toDisk(t, n.fs).Verify()

			n.stop()
			n.boot = "boot-2" // all records since the checkpoint once more
			n.mustOpen()
			checkFNCache(t, n, tt.want)
		})
	}
}

func checkFNCache(t *testing.T, n *node, want []string) {
	t.Helper()
	b := readAll(t, n.fs, "store/fncache")
	c, err := store.ParseFNCache(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Names(); !slices.Equal(got, want) || c.Unterminated() || strings.Count(string(b), "\n") != len(want) {
		t.Errorf("fncache is %q, want the names %v", b, want)
	}
}

// Whether the sequencer finds that revisions are gone by their numbers or only
// when it needs one, the client is told the same, and the log the cause.
func TestRevisionsWereRemoved(t *testing.T) {
	missing := &revlog.MissingError{Log: "store/data/f", What: "unknown delta base"}
	want := raced("revisions were removed")
	got := numberError(&readyPush{}, fmt.Errorf("%q: %w", "f", missing))
	wantType, wantParams := wire.ErrorPart(want, nil)
	gotType, gotParams := wire.ErrorPart(got, nil)
	if gotType != wantType || !slices.Equal(gotParams, wantParams) || got.Error() != want.Error() {
		t.Errorf("told as %s %v (%v), want %s %v", gotType, gotParams, got, wantType, wantParams)
	}
	if cause := Cause(got); !errors.Is(cause, missing) {
		t.Errorf("cause = %v, want %v", cause, missing)
	}
}
