package e2e

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"golang.org/x/sync/errgroup"
)

// TestSamePayload posts one push many times at once and once more later: it is
// applied once and everybody gets the same answer.
func TestSamePayload(t *testing.T) {
	s := newSite(t)
	root := hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})
	s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(root))...)
	next := hgtest.NewChangeset(root, "", "next", map[string]string{"f": "next\n"})
	var updates []hg.Node
	if !s.Stock { // which calls the second one a race
		updates = []hg.Node{root.Node()}
	}
	bundle := hgtest.Bundle2(hgtest.PushParts(updates, hgtest.ChangegroupOf(next))...)
	const posts = 8
	before := s.records(t)
	replies := make([]hgtest.Reply, posts+1)
	var g errgroup.Group
	for i := range posts {
		g.Go(func() (err error) {
			replies[i], err = s.post(t.Context(), bundle)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var err error
	if replies[posts], err = s.post(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	// Who comes after the first was published is told so in a line more.
	const again = "this push was published before, no changes found in it\n"
	first := strings.TrimSuffix(replies[0].Output, again)
	for i, r := range replies {
		if r.Return != 1 || r.Error != "" {
			t.Errorf("post %d: reply %+v", i, r)
		}
		if strings.TrimSuffix(r.Output, again) != first && !s.Stock {
			t.Errorf("post %d says %q, the first %q", i, r.Output, first)
		}
	}
	if !strings.HasSuffix(replies[posts].Output, again) && !s.Stock {
		t.Errorf("the post after all others is not told that it was published before: %q", replies[posts].Output)
	}
	if n := s.records(t) - before; n != 1 && !s.Stock {
		t.Errorf("%d commit records for one push", n)
	}
	s.Stop()
	s.checkStore(t, []hg.Node{next.Node()})
}

// TestSameBookmarkMoves moves a bookmark from A to B, back, and from A to B
// again by an identical bundle: each move is made, though the payload of the
// third is that of the first.
func TestSameBookmarkMoves(t *testing.T) {
	for _, form := range []struct {
		name string
		move func(from, to hg.Node) []hgtest.Part
	}{
		{"pushkey", pushkeyMove},
		{"bookmarks", bookmarksMove},
	} {
		t.Run(form.name, func(t *testing.T) {
			s := newSite(t)
			a := hgtest.NewChangeset(nil, "", "a", map[string]string{"f": "a\n"})
			b := hgtest.NewChangeset(a, "", "b", map[string]string{"f": "b\n"})
			s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(a, b))...)
			at := hg.NullNode
			for i, to := range []hg.Node{a.Node(), b.Node(), a.Node(), b.Node(), a.Node()} {
				r, err := s.push(t.Context(), form.move(at, to)...)
				if err != nil || r.Error != "" {
					t.Fatalf("move %d: reply %+v, error %v", i, r, err)
				}
				if got := s.client.Listkeys("bookmarks")["mark"]; got != to.String() {
					t.Fatalf("move %d: bookmark at %q, want %v", i, got, to)
				}
				at = to
			}
		})
	}
}

func pushkeyMove(from, to hg.Node) []hgtest.Part {
	old := from.String()
	if from.IsNull() {
		old = ""
	}
	return []hgtest.Part{
		{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		{Type: "PUSHKEY", Mandatory: []hgtest.Param{{Name: "namespace", Value: "bookmarks"}, {Name: "key", Value: "mark"}, {Name: "old", Value: old}, {Name: "new", Value: to.String()}}},
	}
}

func bookmarksMove(from, to hg.Node) []hgtest.Part {
	if from.IsNull() {
		from = hg.WorkingNode // how the part writes "absent"
	}
	return []hgtest.Part{
		{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		{Type: "CHECK:BOOKMARKS", Payload: bookmark(from, "mark")},
		{Type: "BOOKMARKS", Payload: bookmark(to, "mark")},
	}
}

func bookmark(n hg.Node, name string) []byte {
	return append(binary.BigEndian.AppendUint16(n[:], uint16(len(name))), name...)
}

// TestOtherPayloadSameChangeset is the control: another payload for the same changeset is
// not answered from memory.
func TestOtherPayloadSameChangeset(t *testing.T) {
	s := newSite(t)
	root := hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})
	cg := hgtest.ChangegroupOf(root)
	for i := range 2 {
		parts := append(hgtest.PushParts(nil, cg), hgtest.Part{Type: "unknown-advisory", Payload: fmt.Append(nil, i)})
		if r, err := s.push(t.Context(), parts...); err != nil || r.Error != "" || r.Return != 1 {
			t.Errorf("push %d: reply %+v, error %v", i, r, err)
		}
	}
	s.Stop()
	s.checkStore(t, []hg.Node{root.Node()})
}
