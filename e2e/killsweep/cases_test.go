//go:build linux && amd64

package killsweep

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/wire/obsmarker"
)

// A pushCase is a push at whose calls the server is killed.
type pushCase struct {
	name   string
	hgrc   string   // of the repository
	before [][]byte // pushes that are there already
	push   []byte
	after  []byte // a push on top of it
	// done tells whether the push is there, first whether what was before is.
	done, first func(*hgtest.Client) bool
}

func pushOf(changesets ...*hgtest.Changeset) []byte {
	return hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(changesets...))...)
}

func partPush(kind string, payload []byte) []byte {
	return hgtest.Bundle2(
		hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)},
		hgtest.Part{Type: kind, Payload: payload})
}

func bookmarkPush(name string, node hg.Node) []byte {
	return partPush("BOOKMARKS", append(append(node[:], byte(len(name)>>8), byte(len(name))), name...))
}

// phasePush makes a changeset public.
func phasePush(node hg.Node) []byte {
	return partPush("PHASE-HEADS", append([]byte{0, 0, 0, byte(hg.Public)}, node[:]...))
}

// markerPush prunes a changeset.
func markerPush(node hg.Node) []byte {
	b, err := obsmarker.Encode([]obsmarker.Marker{{Prec: node, Date: obsmarker.Date{Seconds: 1_700_000_000}}})
	if err != nil {
		panic(err)
	}
	return partPush("OBSMARKERS", b)
}

// noise doesn't compress: two revisions of it fill an inline log.
func noise(seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 3))
	b := make([]byte, 70_000)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

// chain returns changesets in a line, each with these files.
func chain(n int, files func(i int) map[string]string) []*hgtest.Changeset {
	var all []*hgtest.Changeset
	var c *hgtest.Changeset
	for i := range n {
		c = hgtest.NewChangeset(c, "", fmt.Sprint("change ", i), files(i))
		all = append(all, c)
	}
	return all
}

// drafts is the hgrc of a repository whose changesets stay drafts.
const drafts = "[phases]\npublish = no\n[experimental]\nevolution = all\n"

func pushCases() []pushCase {
	has := func(c *hgtest.Changeset) func(*hgtest.Client) bool {
		return func(w *hgtest.Client) bool { return w.Known(c.Node())[0] }
	}
	isMark := func(nodes ...hg.Node) func(*hgtest.Client) bool {
		return func(w *hgtest.Client) bool {
			at := w.Listkeys("bookmarks")["m"]
			for _, n := range nodes {
				if at == n.String() {
					return true
				}
			}
			return false
		}
	}
	c := chain(6, func(i int) map[string]string {
		return map[string]string{"a": strings.Repeat("line\n", i+1), fmt.Sprint("file", i): fmt.Sprint(i)}
	})
	other := hgtest.NewChangeset(c[0], "", "other", map[string]string{"Dir/New": "new\n"})
	third := hgtest.NewChangeset(other, "", "third", map[string]string{"Dir/New": "more\n"})
	e := chain(3, func(i int) map[string]string { return map[string]string{"log": noise(uint64(i))} })
	return []pushCase{
		{"first push", "", nil, pushOf(c[:3]...), pushOf(c[3]), has(c[2]), func(*hgtest.Client) bool { return true }},
		{"small push to an old file", "", [][]byte{pushOf(c[:3]...)}, pushOf(c[3]), pushOf(c[4]), has(c[3]), has(c[2])},
		{"new file", "", [][]byte{pushOf(c[0])}, pushOf(other), pushOf(third), has(other), has(c[0])},
		{"split", "", [][]byte{pushOf(e[0])}, pushOf(e[1]), pushOf(e[2]), has(e[1]), has(e[0])},
		{
			"bookmark only", "", [][]byte{pushOf(c[:3]...), bookmarkPush("m", c[0].Node())},
			bookmarkPush("m", c[1].Node()), bookmarkPush("n", c[2].Node()),
			isMark(c[1].Node()), isMark(c[0].Node(), c[1].Node()),
		},
		{
			"phases only", drafts, [][]byte{pushOf(c[:3]...)}, phasePush(c[1].Node()), phasePush(c[2].Node()),
			func(w *hgtest.Client) bool {
				return w.Listkeys("phases")[c[1].Node().String()] == "" && isDraftRoot(w, c[2])
			},
			has(c[2]),
		},
		{
			"markers only", drafts, [][]byte{pushOf(c[:4]...), markerPush(c[3].Node())},
			markerPush(c[2].Node()), markerPush(c[1].Node()),
			func(w *hgtest.Client) bool { return !has(c[2])(w) },
			func(w *hgtest.Client) bool { return !has(c[3])(w) && has(c[1])(w) },
		},
	}
}

// isDraftRoot tells whether the drafts begin at a changeset.
func isDraftRoot(w *hgtest.Client, c *hgtest.Changeset) bool {
	_, ok := w.Listkeys("phases")[c.Node().String()]
	return ok
}
