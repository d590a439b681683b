package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

// lastRecord returns the record of the published tip.
func (n *node) lastRecord() *journal.Record {
	n.t.Helper()
	tip, _, err := n.client.Tip(n.t.Context(), "repo")
	if err != nil {
		n.t.Fatal(err)
	}
	rec, err := n.p.journal.Get(tip.Seq, tip.Digest)
	if err != nil {
		n.t.Fatal(err)
	}
	return rec
}

// A push of markers alone waits for nobody's branch, and tells in its record
// what became of the heads.
func TestMarkersTakeNoLease(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	c := chain(nil, "", "c", 3)
	n.push(pushOf(c...))
	lease, err := n.client.Acquire(t.Context(), "repo", []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	n.push(markerPush(c[2].Node()))
	if n.has(c[2].Node()) {
		t.Error("a changeset that was pruned is seen")
	}
	p := n.lastRecord().Pushes[0]
	if p.ObsMarkers != 1 || len(p.Heads) != 1 || p.Heads[0].Branch != "default" || p.Heads[0].New[0] != c[1].Node() {
		t.Errorf("the record has %d markers and heads %v, want 1 and default at %s", p.ObsMarkers, p.Heads, c[1].Node())
	}
	seq := n.tipSeq()
	n.push(markerPush(c[2].Node()))
	if n.tipSeq() != seq {
		t.Error("a marker that is there made a record")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	toDisk(t, n.fs).Verify()
}

// All changesets of a branch may go; its key goes with them.
func TestBranchIsHidden(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	c := chain(nil, "side", "c", 1)
	n.push(pushOf(c...))
	n.push(markerPush(c[0].Node()))
	if heads := n.view().Heads(); len(heads) != 1 || !heads[0].IsNull() {
		t.Errorf("heads %v, want none", heads)
	}
	if p := n.lastRecord().Pushes[0]; len(p.Heads) != 1 || len(p.Heads[0].New) > 0 {
		t.Errorf("heads in the record: %v, want none after it", p.Heads)
	}
	n.push(pushOf(chain(nil, "side", "d", 1)...))
}

// What a local hg adds to the file of markers, or takes away, is adopted before
// the next push: later writes go on behind it, and earlier ones are not made
// again over it.
func TestLocalMarkers(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	mem := n.fs.(*vfs.Mem)
	c := chain(nil, "", "c", 6)
	n.push(pushOf(c...))
	n.push(markerPush(c[5].Node()))
	mine := readAll(t, n.fs, store.ObsStorePath)
	local, err := obsmarker.AppendV1(nil, &obsmarker.Marker{Prec: c[4].Node()})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct {
		name, file string
		obsolete   []hg.Rev
	}{
		{"added", string(mine) + string(local), []hg.Rev{3, 4, 5}},
		{"taken away", string(mine[:1]) + string(local), []hg.Rev{3, 4}},
	} {
		f, err := n.fs.Create("store/obsstore.new")
		if err != nil {
			t.Fatal(err)
		}
		// As hg does: without a sync.
		if _, err := f.Write([]byte(change.file)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := n.fs.Rename("store/obsstore.new", store.ObsStorePath); err != nil {
			t.Fatal(err)
		}
		seq := n.tipSeq()
		n.push(markerPush(c[3].Node()))
		if got := n.tipSeq() - seq; got != 2 {
			t.Errorf("%s: %d records, want one for the change and one for the push", change.name, got)
		}
		crashed := &node{t: t, fs: mem.Crash(nil), cluster: n.cluster, boot: "boot-2"}
		crashed.mustOpen()
		if got := readAll(t, crashed.fs, store.ObsStorePath); !strings.HasPrefix(string(got), change.file) || len(got) == len(change.file) {
			t.Errorf("%s: after a power cut the file is %q, want %q and one more", change.name, got, change.file)
		}
		v := crashed.view()
		var obsolete []hg.Rev
		for r := range hg.Rev(v.Len()) {
			if v.Obsolete(r) {
				obsolete = append(obsolete, r)
			}
		}
		v.Close()
		if !slices.Equal(obsolete, change.obsolete) {
			t.Errorf("%s: after a power cut %v are obsolete, want %v", change.name, obsolete, change.obsolete)
		}
		crashed.close()
	}
}

// TestStateContinues pushes random things: the state that goes on from the one
// before it is what a repository opened anew shows.
func TestStateContinues(t *testing.T) {
	for seed := range uint64(4) {
		n := newNode(t)
		n.publishing = false
		rng := rand.New(rand.NewPCG(seed, 9))
		var made []*hgtest.Changeset
		one := func() *hgtest.Changeset { return made[rng.IntN(len(made))] }
		for i := range 60 {
			what := rng.IntN(10)
			switch {
			case i < 3 || what < 6:
				var parent *hgtest.Changeset
				if len(made) > 0 && rng.IntN(8) > 0 {
					parent = one()
				}
				c := hgtest.NewChangeset(parent, []string{"", "x", "y"}[rng.IntN(3)], fmt.Sprint(seed, i), map[string]string{"f": fmt.Sprint(i)})
				n.push(pushOf(c))
				made = append(made, c)
			case what < 8:
				n.push(markerPush(one().Node()))
			case what < 9:
				n.push(phasePush(one().Node()))
			default:
				_, _ = n.try(bookmarkPush("m", one().Node())) // refused if that is hidden
			}
			fresh, err := store.Open(n.fs, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			anew, err := fresh.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v := n.view()
			if got, want := describeState(v), describeState(anew); got != want {
				t.Fatalf("seed %d, push %d: got %s\nwant %s", seed, i, got, want)
			}
			v.Close()
			anew.Close()
			if err := fresh.Close(); err != nil {
				t.Fatal(err)
			}
		}
		n.close()
	}
}

func describeState(v *store.View) string {
	branches := make(map[string][]hg.Rev)
	for b, heads := range v.EachBranch() {
		branches[b] = heads
	}
	return fmt.Sprintf("filtered %v, obsolete %v, heads %v, all %v, branches %v, tip %d", v.Filtered().Revs(), v.ObsoleteRevs().Revs(),
		v.HeadRevs(), v.AllHeadRevs(), branches, v.Tip())
}

// What another process of this server linked is nobody's local change.
func TestMarkersOfTwoProcesses(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	c := chain(nil, "", "c", 7)
	n.push(pushOf(c...))
	m := n.another()
	first := n.tipSeq()
	for i, at := range []*node{n, m, n, n, m, m} {
		at.push(markerPush(c[6-i].Node()))
		v := []*node{n, m}[i%2].view() // the other one looks, at times
		v.Close()
	}
	if got := n.tipSeq() - first; got != 6 {
		t.Errorf("6 pushes made %d records", got)
	}
	if v := m.view(); v.ObsStore().Len() != 6 {
		t.Errorf("%d markers, want 6", v.ObsStore().Len())
	}
}
