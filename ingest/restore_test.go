package ingest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/refs"
)

// restore runs RestoreRefs at n's coordination service.
func (n *node) restore(force bool) (Restored, error) {
	n.t.Helper()
	c := n.cluster.Client(refsOptions)
	defer c.Close()
	return RestoreRefs(context.Background(), n.fs, c, Options{
		RepoID: "repo", Node: "test", Log: slog.New(slog.DiscardHandler), BootID: n.boot, Policy: n.policy,
	}, force)
}

// state returns what the coordination service holds.
func (n *node) state() refs.State {
	n.t.Helper()
	c := n.cluster.Client(refsOptions)
	defer c.Close()
	st, err := c.State(n.t.Context(), "repo")
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

// dropGarbage removes the records that were not published.
func (n *node) dropGarbage() {
	n.t.Helper()
	tip := tipID(n.state().Tip)
	j, err := journal.Open(n.fs, journalDir, journal.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	ids, err := j.List()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, id := range ids {
		if id.Seq == tip.Seq && id != tip {
			if err := n.fs.Remove(journalDir + "/" + id.String() + ".rec"); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// After the coordination service was lost, refs are made anew from whatever a
// repository was left with, and nothing that was acknowledged is gone.
func TestRestoreRefs(t *testing.T) {
	c := chain(nil, "", "c", 4)
	side := chain(c[0], "side", "s", 1)
	tests := []struct {
		name string
		last func(n *node) // after two pushes; leaves n closed
		seq  uint64
		has  hg.Node
	}{
		{"closed in order", func(n *node) { n.close() }, 2, side[0].Node()},
		{"killed before a push was linked", func(n *node) { n.close(); publishOnly(t, n, pushOf(c[1])); n.dropGarbage() }, 3, c[1].Node()},
		{"power cut", func(n *node) {
			mem := n.fs.(*vfs.Mem)
			crashed := mem.Crash(nil)
			n.close()
			n.fs, n.boot = crashed, "boot-2"
		}, 2, side[0].Node()},
		{"a bookmark last", func(n *node) { n.push(bookmarkPush("mark", c[0].Node())); n.close() }, 3, c[0].Node()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.push(pushOf(c[0]))
			n.close() // with a checkpoint
			n.mustOpen()
			n.push(pushOf(side...))
			tt.last(n)
			want := n.state()
			n.cluster = newMemory()
			if err := n.open(); Cause(err) == nil || !strings.Contains(Cause(err).Error(), RestoreCommand) {
				t.Fatalf("open without refs: %v, want the command named", err)
			}
			r, err := n.restore(false)
			if err != nil {
				t.Fatal(err)
			}
			if got := n.state(); got.Tip != want.Tip || r.Tip != want.Tip || r.Tip.Seq != tt.seq {
				t.Errorf("tip %+v, reported %+v, want %+v", got.Tip, r.Tip, want.Tip)
			} else if len(got.Heads) != 2 || r.Branches != 2 {
				t.Errorf("heads of %v, want two branches", got.Heads)
			}
			again, err := n.restore(false)
			if err != nil || again.Was != r.Tip || again.Tip != r.Tip {
				t.Errorf("once more: %+v, %v", again, err)
			}
			n.mustOpen()
			if !n.has(tt.has) {
				t.Error("a push is gone")
			}
			n.push(pushOf(c[1:]...))
			toDisk(t, n.fs).Verify()
		})
	}
}

// The head keys are those that pushes would have left.
func TestRestoredHeads(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(append(c, chain(c[0], "side", "s", 1)...)...))
	n.close()
	want := n.state()
	n.cluster = newMemory()
	if _, err := n.restore(false); err != nil {
		t.Fatal(err)
	}
	if got := n.state(); !maps.EqualFunc(got.Heads, want.Heads, bytes.Equal) {
		t.Errorf("heads %q, want %q", got.Heads, want.Heads)
	}
}

func TestRestoreRefused(t *testing.T) {
	c := chain(nil, "", "c", 3)
	refused := func(n *node, want string) {
		t.Helper()
		before := n.state()
		_, err := n.restore(false)
		var abort *hg.Abort
		if !errors.As(err, &abort) || !strings.Contains(abort.Message, want) {
			t.Errorf("restore: %v, want an abort with %q", err, want)
		}
		if after := n.state(); after.Tip != before.Tip {
			t.Errorf("the tip moved from %+v to %+v", before.Tip, after.Tip)
		}
	}

	empty := &node{t: t, fs: emptyRepo(t), cluster: newMemory(), boot: "boot-1"}
	refused(empty, "no push was ever taken here")
	n := newNode(t)
	refused(n, "a server takes pushes")
	n.close()
	refused(n, "no records")
	n.mustOpen()
	n.push(pushOf(c[0]))
	real := n.cluster
	n.cluster = newMemory() // as if --state named another directory
	refused(n, "a server takes pushes")
	n.cluster = real
	n.close()

	// Another repository's refs, which are as long or longer.
	other := newNode(t)
	other.push(pushOf(chain(nil, "", "o", 1)...))
	other.push(pushOf(chain(nil, "", "p", 1)...))
	other.close()
	n.cluster = other.cluster
	refused(n, "not in the journal")
	if _, err := n.restore(true); err != nil {
		t.Fatal(err)
	}
	n.mustOpen()
	n.push(pushOf(c[1]))
	toDisk(t, n.fs).Verify()
}

// Refs that lag behind, as those from a backup, are moved on.
func TestRestoreOldRefs(t *testing.T) {
	c := chain(nil, "", "c", 3)
	n := newNode(t)
	n.push(pushOf(c[0]))
	n.close()
	backup := n.state()
	n.mustOpen()
	n.push(pushOf(c[1]))
	n.close()
	n.cluster = newMemory()
	client := n.cluster.Client(refsOptions)
	if err := client.Publish(t.Context(), refs.Publication{Repo: "repo", New: backup.Tip}); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := n.open(); Cause(err) == nil || !strings.Contains(Cause(err).Error(), RestoreCommand) {
		t.Fatalf("open with old refs: %v, want the command named", err)
	}
	if r, err := n.restore(false); err != nil || r.Was != backup.Tip || r.Tip.Seq != 2 {
		t.Fatalf("restore: %+v, %v", r, err)
	}
	n.mustOpen()
	n.push(pushOf(c[2]))
	toDisk(t, n.fs).Verify()
}

// Where nothing tells which of two records was published, the operator does.
func TestRestoreUndecided(t *testing.T) {
	c := chain(nil, "", "c", 3)
	n := newNode(t)
	n.push(pushOf(c[0]))
	n.close()
	publishOnly(t, n, pushOf(c[1])) // with attempts that were killed before
	want := n.state().Tip
	n.cluster = newMemory()
	var abort *hg.Abort
	if _, err := n.restore(false); !errors.As(err, &abort) || !strings.Contains(abort.Message, "several records") {
		t.Fatalf("restore: %v, want an abort that names several records", err)
	}
	if r, err := n.restore(true); err != nil || r.Tip != want {
		t.Fatalf("restore: %+v, %v, want tip %+v", r, err, want)
	}
	n.mustOpen()
	n.push(pushOf(c[2]))
	toDisk(t, n.fs).Verify()
}

// Of two records that may follow, one is garbage: it lost to the other one.
func TestRestoreBesideGarbage(t *testing.T) {
	c := chain(nil, "", "c", 3)
	n := newNode(t)
	n.push(pushOf(c[0]))
	n.close()
	tip := n.state().Tip
	j, err := journal.Open(n.fs, journalDir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loser := &journal.Record{Seq: 2, Prev: tip.Digest, Time: time.Now().UTC(), Node: "loser", Kind: journal.Adopt, ChangelogLen: 1, Tip: tip.Node}
	if _, err := j.Put(t.Context(), loser); err != nil {
		t.Fatal(err)
	}
	n.mustOpen()
	n.push(pushOf(c[1]))
	n.close()
	want := n.state().Tip
	n.cluster = newMemory()
	if r, err := n.restore(false); err != nil || r.Tip != want {
		t.Errorf("restore: %+v, %v, want tip %+v", r, err, want)
	}
}
