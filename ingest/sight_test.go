package ingest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

// look computes from nothing what clients see of a pending state.
func look(t *rapid.T, p *pending) string {
	obsolete := store.ObsoleteRevs(p, p, p.obs)
	pinned, err := p.base.Pinned(p, p.bookmarksAfter())
	if err != nil {
		t.Fatal(err)
	}
	filtered := store.HiddenRevs(p, p, obsolete, pinned)
	for _, r := range p.NonPublic() {
		if p.Phase(r) >= hg.Secret {
			filtered.Add(r)
		}
	}
	branches := make(map[string][]hg.Rev)
	for r := range hg.Rev(p.Len()) {
		if !filtered.Has(r) && !obsolete.Has(r) {
			branches[p.branch(r)] = append(branches[p.branch(r)], r)
		}
	}
	for b, revs := range branches {
		branches[b] = dag.HeadsOf(p, revs)
	}
	heads := dag.Heads(p, func(r hg.Rev) bool { return !filtered.Has(r) })
	return describeSight(p, filtered.Has, obsolete.Has, heads, branches)
}

// known renders what a pending state knows of that.
func known(p *pending) string {
	branches := p.servedBranchHeads()
	maps.DeleteFunc(branches, func(_ string, heads []hg.Rev) bool { return len(heads) == 0 })
	heads := slices.Sorted(maps.Keys(p.sight.heads.all()))
	return describeSight(p, func(r hg.Rev) bool { return !p.visible(r) }, p.obsolete, heads, branches)
}

func describeSight(p *pending, hidden, obsolete func(hg.Rev) bool, heads []hg.Rev, branches map[string][]hg.Rev) string {
	var h, o []hg.Rev
	for r := range hg.Rev(p.Len()) {
		if hidden(r) {
			h = append(h, r)
		}
		if obsolete(r) {
			o = append(o, r)
		}
	}
	return fmt.Sprintf("hidden %v, obsolete %v, heads %v, branches %v", h, o, heads, branches)
}

// TestSight does random things to a pending state, and takes some of them back:
// what it knows of what clients see is what it would find anew.
func TestSight(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	c := chain(nil, "", "c", 4)
	side := chain(c[1], "side", "s", 2)
	n.push(pushOf(append(c, side...)...))
	n.push(markerPush(side[1].Node()))
	n.push(markerPush(c[2].Node()))
	n.push(bookmarkPush("m", c[3].Node()))
	(&vcsdServer{n}).secret(t, c[3].Node())
	view := n.view()
	rapid.Check(t, func(t *rapid.T) { randomSight(t, newPending(view)) })
}

func randomSight(t *rapid.T, p *pending) {
	if want := look(t, p); known(p) != want {
		t.Fatalf("at first: got %s\nwant %s", known(p), want)
	}
	for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
		before, heads := known(p), p.servedBranchHeads()
		for range rapid.IntRange(1, 4).Draw(t, "ops") {
			randomOp(t, p, step)
			if rapid.Bool().Draw(t, "settle") {
				if err := p.settle(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "outcome") == 0 {
			p.rollback()
			if got := known(p); got != before {
				t.Fatalf("step %d, taken back: got %s\nwant %s", step, got, before)
			}
			continue
		}
		if err := p.settle(); err != nil {
			t.Fatal(err)
		}
		checkChanges(t, p, heads)
		p.keep()
		if got, want := known(p), look(t, p); got != want {
			t.Fatalf("step %d: got %s\nwant %s", step, got, want)
		}
	}
}

// checkChanges: a record names the branches whose heads are not what they were.
func checkChanges(t *rapid.T, p *pending, old map[string][]hg.Rev) {
	told := make(map[string][]hg.Node)
	for _, b := range p.changedHeads() {
		told[b.Branch] = b.Old
		if want := nodesOf(p, old[b.Branch]); !slices.Equal(b.Old, want) {
			t.Fatalf("heads of %s before are told as %v, want %v", b.Branch, b.Old, want)
		}
	}
	for b, heads := range p.servedBranchHeads() {
		if _, ok := told[b]; !ok && !slices.Equal(heads, old[b]) {
			t.Fatalf("heads of %s were %v and are %v, which is not told", b, old[b], heads)
		}
	}
}

func randomOp(t *rapid.T, p *pending, step int) {
	rev := func(what string) hg.Rev { return hg.Rev(rapid.IntRange(0, p.Len()-1).Draw(t, what)) }
	// A node that is not there may come later.
	node := func(what string) hg.Node {
		if r := hg.Rev(rapid.IntRange(0, p.Len()+3).Draw(t, what)); int(r) < p.Len() {
			return p.Node(r)
		} else {
			return nodeAt(r)
		}
	}
	switch rapid.IntRange(0, 6).Draw(t, "op") {
	case 0, 1, 2:
		c := changeset{node: nodeAt(hg.Rev(p.Len())), p1: p.Node(rev("p1")), branch: rapid.SampledFrom([]string{"default", "side", "new"}).Draw(t, "branch")}
		if rapid.IntRange(0, 3).Draw(t, "merge") == 0 {
			c.p2 = p.Node(rev("p2"))
		}
		r, err := p.add(c, hg.Draft)
		if err != nil {
			t.Fatal(err)
		}
		p.advance([]hg.Rev{r}, hg.Draft)
	case 3:
		p.advance([]hg.Rev{rev("rev")}, rapid.SampledFrom([]hg.Phase{hg.Public, hg.Draft}).Draw(t, "phase"))
	case 4:
		to := absent
		if rapid.Bool().Draw(t, "set") {
			to = p.Node(rev("mark"))
		}
		p.moveBookmark(rapid.SampledFrom([]string{"m", "n"}).Draw(t, "name"), to)
	default:
		m := obsmarker.Marker{Prec: node("prec"), Date: obsmarker.Date{Seconds: float64(step)}}
		if rapid.Bool().Draw(t, "replaced") {
			m.Succs = []hg.Node{node("succ")}
		}
		if _, err := p.addMarkers([]obsmarker.Marker{m}); err != nil {
			t.Fatal(err)
		}
	}
}

// nodeAt is the node of a changeset that TestSight adds at a rev.
func nodeAt(r hg.Rev) hg.Node {
	n := hg.Node{0xee}
	binary.BigEndian.PutUint32(n[1:], uint32(r))
	return n
}
