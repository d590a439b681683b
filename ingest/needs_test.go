package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/revlog"
	"vcsd/store"
)

func numbered(i int) (n hg.Node) {
	binary.BigEndian.PutUint32(n[:], uint32(i)*2654435761)
	return n
}

func TestNeedsAgainstSet(t *testing.T) {
	type named struct {
		path string
		node hg.Node
	}
	rng := rand.New(rand.NewPCG(1, 2))
	n := needs{maxBytes: 1 << 30}
	want := make(map[named]int) // by whom first
	for range 100_000 {
		e := named{fmt.Sprintf("dir/%d", rng.IntN(40)), numbered(rng.IntN(600))}
		by := 1 + rng.IntN(1000)
		if first, ok := want[e]; !ok || by < first {
			want[e] = by
		}
		if !n.add([]byte(e.path), e.node, by) {
			t.Fatal("no room")
		}
		if len(n.recent) > minRecentNeeds+len(n.sorted) {
			t.Fatalf("%d needs wait beside %d", len(n.recent), len(n.sorted))
		}
	}
	n.fold()
	if len(n.sorted) != len(want) || len(n.paths) != 40 {
		t.Errorf("%d needs of %d files, want %d of 40", len(n.sorted), len(n.paths), len(want))
	}
	for i, e := range n.sorted {
		path := n.paths[e.path]
		if by, ok := n.first(path, e.node); !ok || by != want[named{path, e.node}] {
			t.Errorf("%s:%s is named first by %d, %v; want %d", path, e.node, by, ok, want[named{path, e.node}])
		}
		if i > 0 && n.sorted[i-1].compare(e) >= 0 {
			t.Errorf("need %v is out of order", e)
		}
	}
}

func TestNeedsFirstOfNone(t *testing.T) {
	var n needs
	n.add([]byte("a"), numbered(1), 7)
	for _, tt := range []struct {
		path string
		node hg.Node
	}{{"b", numbered(1)}, {"a", numbered(2)}} {
		if by, ok := n.first(tt.path, tt.node); ok {
			t.Errorf("%s:%s is named by %d, want none", tt.path, tt.node, by)
		}
	}
}

// needsView returns a view of a store with the file "stored", and its revision.
func needsView(t *testing.T) (*store.View, hg.Node) {
	c := hgtest.NewChangeset(nil, "", "first", map[string]string{"stored": "content\n"})
	n := newNode(t)
	n.push(pushOf(c))
	return n.view(), c.Files[0].Rev.Node
}

func TestNeedsCheck(t *testing.T) {
	view, stored := needsView(t)
	files := []stagedFile{{"staged", []revlog.Staged{{Node: numbered(1)}, {Node: numbered(2)}}}}
	tests := []struct {
		name string
		path string
		node hg.Node
		want string
	}{
		{"in the store", "stored", stored, ""},
		{"staged", "staged", numbered(2), ""},
		{"not staged", "staged", numbered(3), "missing file data for staged:" + numbered(3).String()},
		{"not in the store", "stored", numbered(1), "missing file data for stored:" + numbered(1).String()},
		{"in no log", "nowhere", stored, "missing file data for nowhere:" + stored.String()},
	}
	for _, tt := range tests {
		n := needs{maxBytes: 1 << 20}
		n.add([]byte("staged"), numbered(1), 0)
		n.add([]byte("stored"), stored, 0)
		n.add([]byte(tt.path), tt.node, 0)
		got := ""
		if err := n.check(context.Background(), view, files); err != nil {
			got = err.Error()
		}
		if got != tt.want && !strings.HasPrefix(got, tt.want+" -") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestNeedsBound names more than there is room for: what can be found makes
// room, what can't ends the push.
func TestNeedsBound(t *testing.T) {
	view, stored := needsView(t)
	const revs = 30_000
	files := []stagedFile{{path: "staged"}}
	for i := range revs {
		files[0].revs = append(files[0].revs, revlog.Staged{Node: numbered(i)})
	}
	tests := []struct {
		name string
		need func(i int) (string, hg.Node)
		want bool // an error
	}{
		{"staged", func(i int) (string, hg.Node) { return "staged", numbered(i) }, false},
		{"one in the store", func(int) (string, hg.Node) { return "stored", stored }, false},
		{"one missing", func(int) (string, hg.Node) { return "stored", numbered(1) }, false},
		{"many missing", func(i int) (string, hg.Node) { return "stored", numbered(i) }, true},
		{"many files", func(i int) (string, hg.Node) { return fmt.Sprint("f", i), stored }, true},
		{"long names", func(i int) (string, hg.Node) { return fmt.Sprint(strings.Repeat("x", 10_000), i), stored }, true},
	}
	for _, tt := range tests {
		n := needs{maxBytes: 200_000}
		var err error
		for i := 0; i < revs && err == nil; i++ {
			path, node := tt.need(i)
			if !n.add([]byte(path), node, 0) {
				err = n.shed(context.Background(), view, files)
			}
			if n.bytes() > n.maxBytes && err == nil {
				t.Fatalf("%s: %d bytes after shed, want at most %d", tt.name, n.bytes(), n.maxBytes)
			}
		}
		if (err != nil) != tt.want || err != nil && !errors.Is(err, hg.ErrTooLarge) {
			t.Errorf("%s: error %v, want one: %v", tt.name, err, tt.want)
		}
	}
}

// TestNeedsRenumber keeps the order and the names of what is left.
func TestNeedsRenumber(t *testing.T) {
	view, stored := needsView(t)
	n := needs{maxBytes: 1 << 20}
	for _, path := range []string{"a", "stored", "b"} {
		n.add([]byte(path), stored, 0)
		n.add([]byte(path), numbered(1), 0)
	}
	if err := n.shed(context.Background(), view, nil); err != nil {
		t.Fatal(err)
	}
	n.add([]byte("stored"), numbered(1), 0)
	n.add([]byte("c"), numbered(1), 0)
	n.fold()
	var got []string
	for _, e := range n.sorted {
		got = append(got, n.paths[e.path]+" "+e.node.Short())
	}
	s, one := stored.Short(), numbered(1).Short()
	want := []string{"a " + min(s, one), "a " + max(s, one), "stored " + one, "b " + min(s, one), "b " + max(s, one), "c " + one}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("needs %q, want %q", got, want)
	}
}
