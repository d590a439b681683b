package ingest

import (
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// chain returns n changesets on top of each other, each with a new version of
// the file "a" and a file of its own.
func chain(parent *hgtest.Changeset, branch, name string, n int) []*hgtest.Changeset {
	var all []*hgtest.Changeset
	for i := range n {
		msg := name + strings.Repeat("+", i)
		parent = hgtest.NewChangeset(parent, branch, msg, map[string]string{"a": msg + "\n", "file-" + msg: msg})
		all = append(all, parent)
	}
	return all
}

func TestPushAndReopen(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "one", 5)
	reply := n.push(pushOf(c[:3]...))
	if !reply.Bundle2 || len(reply.Parts) != 3 || reply.Ret != 1 {
		t.Errorf("reply = %+v, want result 1 in three parts", reply)
	}
	n.push(pushOf(c[3:]...))
	n.push(bookmarkPush("mark", c[4].Node()))
	n.close()
	n.mustOpen()
	if !n.has(c[0].Node(), c[4].Node()) || n.bookmark("mark") != c[4].Node() {
		t.Errorf("after reopening, changesets or the bookmark are gone")
	}
	if left := quarantined(t, n.fs); left != nil {
		t.Errorf("left in quarantine: %q", left)
	}
	h := toDisk(t, n.fs)
	h.Verify()
	if got := strings.Count(h.Describe(), "public"); got != 5 {
		t.Errorf("hg finds %d public changesets, want 5", got)
	}
}

func TestPushOnDraftPublishes(t *testing.T) {
	n := newNode(t)
	n.publishing = false
	c := chain(nil, "", "one", 3)
	n.push(pushOf(c[:2]...))
	if got := n.view().Phase(1); got != hg.Draft {
		t.Fatalf("phase on a non-publishing server = %v", got)
	}
	n.publishing = true
	n.push(pushOf(c[2]))
	v := n.view()
	for r := range hg.Rev(3) {
		if got := v.Phase(r); got != hg.Public {
			t.Errorf("phase of rev %d = %v, want public", r, got)
		}
	}
	if b := readAll(t, n.fs, "store/phaseroots"); len(b) != 0 {
		t.Errorf("phaseroots = %q, want none", b)
	}
}
