package ingest

import (
	"testing"

	"vcsd/hg"
	"vcsd/journal"
)

// What hooks agreed to may be published in part, but nothing beyond it.
func TestWithin(t *testing.T) {
	a, b := hg.Node{1}, hg.Node{2}
	move := func(old, new hg.Node) []journal.BookmarkMove {
		return []journal.BookmarkMove{{Name: "bk", Old: old, New: new}}
	}
	public := func(nodes ...hg.Node) []journal.PhaseMove {
		return []journal.PhaseMove{{Phase: hg.Public, Nodes: nodes}}
	}
	saw := &decision{fresh: []int{0, 2, 5}, bookmarkMoves: move(a, b), phases: public(a, b)}
	tests := []struct {
		name string
		now  decision
		want bool
	}{
		{"the same", *saw, true},
		{"nothing any more", decision{}, true},
		{"fewer changesets", decision{fresh: []int{2, 5}}, true},
		{"another changeset", decision{fresh: []int{0, 1}}, false},
		{"one twice", decision{fresh: []int{0, 0}}, false},
		{"a bookmark from elsewhere", decision{bookmarkMoves: move(b, b)}, false},
		{"a bookmark to elsewhere", decision{bookmarkMoves: move(a, a)}, false},
		{"one phase less", decision{phases: public(b)}, true},
		{"another phase", decision{phases: []journal.PhaseMove{{Phase: hg.Draft, Nodes: []hg.Node{a}}}}, false},
		{"another changeset's phase", decision{phases: public(hg.Node{3})}, false},
	}
	for _, tt := range tests {
		if got := tt.now.within(saw); got != tt.want {
			t.Errorf("%s: within = %v", tt.name, got)
		}
	}
}
