package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/revlog"
	"vcsd/wire"
)

// spoil is a push made wrong.
type spoil struct {
	name string
	make func(base *hgtest.Changeset) []byte
	want string // in the message
}

// oneFile returns a changeset on base that has one file.
func oneFile(base *hgtest.Changeset, path string) *hgtest.Changeset {
	return hgtest.NewChangeset(base, "", "spoilt", map[string]string{path: "content\n"})
}

// spoiled pushes oneFile after a change to it.
func spoiled(change func(c *hgtest.Changeset)) func(*hgtest.Changeset) []byte {
	return func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		change(c)
		return pushOf(c)
	}
}

// linkedTo returns a new file's revision that says it came with c.
func linkedTo(c *hgtest.Changeset, text string) hgtest.Rev {
	r := hgtest.NewRev(hg.NullNode, hg.NullNode, []byte(text))
	r.Link = c.Node()
	return r
}

// withManifest pushes a changeset whose manifest has another text.
func withManifest(text func(old string) string) func(*hgtest.Changeset) []byte {
	return func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		old := string(c.Manifest.Delta[12:])
		c.Manifest = hgtest.NewRev(base.Manifest.Node, hg.NullNode, []byte(text(old)))
		c.SetChangelog(base.Node(), "spoilt", []string{"f"})
		return pushOf(c)
	}
}

func withPart(p hgtest.Part) func(*hgtest.Changeset) []byte {
	return func(*hgtest.Changeset) []byte {
		return hgtest.Bundle2(hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)}, p)
	}
}

// interrupted sends a part in the middle of a replycaps part.
func interrupted(typ string, params ...hgtest.Param) func(*hgtest.Changeset) []byte {
	return func(*hgtest.Changeset) []byte {
		whole := string(hgtest.Bundle2(hgtest.Part{Type: typ, Mandatory: params}))
		inner := whole[len("HG20")+4 : len(whole)-4]
		caps := hgtest.ReplyCaps
		outer := string(hgtest.Bundle2(hgtest.Part{Type: "replycaps", Payload: []byte(caps)}))
		// Between the chunk of the payload and its end.
		at := strings.Index(outer, caps) + len(caps)
		return []byte(outer[:at] + "\xff\xff\xff\xff" + inner + outer[at:])
	}
}

var stranger = hg.Node{1, 2, 3}

var spoils = []spoil{
	{"changeset of another hash", spoiled(func(c *hgtest.Changeset) { c.Changelog.Node[0] ^= 1; c.Changelog.Link = c.Changelog.Node }), "integrity check failed"},
	{"manifest of another hash", spoiled(func(c *hgtest.Changeset) { c.Manifest.Node[0] ^= 1 }), "integrity check failed"},
	{"file of another hash", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.Node[0] ^= 1 }), "integrity check failed"},
	{"unknown parent", spoiled(func(c *hgtest.Changeset) { c.Changelog.P1 = stranger }), "unknown parent"},
	{"unknown parent of a manifest", spoiled(func(c *hgtest.Changeset) { c.Manifest.P2 = stranger }), "unknown parent"},
	{"unknown parent of a file", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.P2 = stranger }), "unknown parent"},
	{"unknown base", spoiled(func(c *hgtest.Changeset) { c.Manifest.Base = stranger }), "unknown delta base"},
	{"changeset linked elsewhere", spoiled(func(c *hgtest.Changeset) { c.Changelog.Link = stranger }), "linked to"},
	{"manifest linked elsewhere", spoiled(func(c *hgtest.Changeset) { c.Manifest.Link = stranger }), "unknown changeset"},
	{"file linked elsewhere", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.Link = stranger }), "unknown changeset"},
	{"null node", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.Node = hg.NullNode }), "can't be stored"},
	{"delta beyond its base", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.Delta = hgtest.Fragment(5, 9, nil) }), ""},
	{"delta cut short", spoiled(func(c *hgtest.Changeset) { c.Files[0].Rev.Delta = c.Files[0].Rev.Delta[:15] }), ""},
	{"no manifest", func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		c.Manifest = base.Manifest
		return pushOf(c)
	}, "missing manifest"},
	{"no file revision", spoiled(func(c *hgtest.Changeset) { c.Files = nil }), "missing file data for f"},
	{"other file revision", spoiled(func(c *hgtest.Changeset) { c.Files[0].Name = "g" }), "missing file data for f"},
	{"file revision that no manifest names", spoiled(func(c *hgtest.Changeset) {
		c.Files = append(c.Files, hgtest.FileRev{Name: "stray", Rev: linkedTo(c, "stray\n")})
	}), "stray: no manifest names"},
	{"manifest that no changeset names", func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		c.SetChangelog(base.Node(), "spoilt", []string{"f"})
		d := oneFile(base, "g")
		d.Changelog = hgtest.NewRev(c.Node(), hg.NullNode, []byte(base.Manifest.Node.String()+"\nu\n0 0\n\nd"))
		d.Changelog.Link = d.Changelog.Node
		d.Manifest.Link, d.Files[0].Rev.Link = d.Changelog.Node, d.Changelog.Node
		return pushOf(c, d)
	}, "manifest: no changeset names"},
	{"file that looks censored", func(base *hgtest.Changeset) []byte {
		return pushOf(hgtest.NewChangeset(base, "", "spoilt", map[string]string{"f": "\x01\ncensored: gone\n\x01\n"}))
	}, "looks censored"},
	{"bookmark that is not in UTF-8", withPart(hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("\xff", hg.NullNode)}), "not in UTF-8"},
	{"manifest line without a node", withManifest(func(old string) string { return old + "x\x00\n" }), "manifest"},
	{"manifest line cut short", withManifest(func(old string) string { return strings.TrimSuffix(old, "\n") }), "manifest"},
	{"manifest with a line twice", withManifest(func(old string) string { return old + old }), "manifest"},
	{"file group without revisions", func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		cg := hgtest.ChangegroupOf(c)
		cg = append(cg[:len(cg)-4], 0, 0, 0, 5, 'z', 0, 0, 0, 0, 0, 0, 0, 0)
		return hgtest.Bundle2(hgtest.PushParts(nil, cg)...)
	}, "group is empty"},
	{"file in two groups", func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		cg := hgtest.ChangegroupOf(c)
		i := bytes.LastIndex(cg, []byte("\x00\x00\x00\x05f"))
		group := slices.Clone(cg[i : len(cg)-4])
		return hgtest.Bundle2(hgtest.PushParts(nil, slices.Concat(cg[:i], group, group, []byte{0, 0, 0, 0}))...)
	}, "two groups"},
	{"changeset that is none", func(base *hgtest.Changeset) []byte {
		c := oneFile(base, "f")
		c.Changelog = hgtest.NewRev(base.Node(), hg.NullNode, []byte("nonsense"))
		link := c.Changelog.Node
		c.Changelog.Link, c.Manifest.Link, c.Files[0].Rev.Link = link, link, link
		return pushOf(c)
	}, "changeset"},
	{"endless branch name", func(base *hgtest.Changeset) []byte {
		return pushOf(hgtest.NewChangeset(base, strings.Repeat("b", 9000), "x", nil))
	}, "branch name"},
	{"unknown mandatory part", withPart(hgtest.Part{Type: "NONSENSE"}), "missing support for nonsense"},
	{"unknown mandatory parameter", withPart(hgtest.Part{Type: "CHECK:HEADS", Mandatory: []hgtest.Param{{Name: "odd", Value: "1"}}}), "missing support for check:heads - odd"},
	{"changegroup of version 09", withPart(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "09"}}}), "missing support for changegroup - version"},
	{"changegroup of version 03 that is none", withPart(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "03"}}}), "stream ended unexpectedly"},
	{"tree manifests announced", withPart(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "03"}, {Name: "treemanifest", Value: "1"}}}), "bundle contains tree manifests"},
	{"a tree manifest", withPart(hgtest.Part{
		Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "03"}},
		Payload: []byte("\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x08dir/" + "\x00\x00\x00\x00"),
	}), "bundle contains tree manifests"},
	{"the client gives up", withPart(hgtest.Part{Type: "error:abort", Mandatory: []hgtest.Param{{Name: "message", Value: "my disk is full"}}}), "my disk is full"},
	{"the client gives up in a part", interrupted("error:abort", hgtest.Param{Name: "message", Value: "my disk is full"}), "my disk is full"},
	{"a check in a part", interrupted("check:heads"), "missing support for check:heads"},
	{"an interrupt that is not known", interrupted("NONSENSE"), "missing support for nonsense"},
	{"markers without a version", withPart(hgtest.Part{Type: "OBSMARKERS"}), "no version"},
	{"markers of version 9", withPart(hgtest.Part{Type: "OBSMARKERS", Payload: []byte{9}}), "unknown version 9"},
	{"markers cut short", withPart(hgtest.Part{Type: "OBSMARKERS", Payload: append([]byte{1}, make([]byte, 30)...)}), "parsing obsolete marker"},
	{"markers in an odd base", withPart(hgtest.Part{Type: "PUSHKEY", Mandatory: []hgtest.Param{{Name: "namespace", Value: "obsolete"}, {Name: "key", Value: "dump0"}, {Name: "old", Value: ""}, {Name: "new", Value: "\"\""}}}), "bad base85 character"},
	{"remote-changegroup", withPart(hgtest.Part{Type: "REMOTE-CHANGEGROUP"}), "missing support for remote-changegroup"},
	{"heads of odd length", withPart(hgtest.Part{Type: "CHECK:HEADS", Payload: []byte("odd")}), ""},
	{"bookmarks cut short", withPart(hgtest.Part{Type: "BOOKMARKS", Payload: make([]byte, 21)}), ""},
	{"bookmark of nothing known", withPart(hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("m", stranger)}), "unknown revision"},
	{"bookmark called tip", withPart(hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("tip", hg.NullNode)}), "reserved"},
	{"bookmark with a newline", withPart(hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("a\nb", hg.NullNode)}), "cannot be used"},
	{"phase of nothing known", withPart(hgtest.Part{Type: "PHASE-HEADS", Payload: phaseEntry(hg.Public, stranger)}), "unknown node"},
	{"phase that is none", withPart(hgtest.Part{Type: "PHASE-HEADS", Payload: phaseEntry(77, stranger)}), ""},
	{"pushkey without a key", withPart(hgtest.Part{Type: "PUSHKEY", Mandatory: []hgtest.Param{{Name: "namespace", Value: "phases"}}}), "pushkey"},
	{"no bundle", func(*hgtest.Changeset) []byte { return []byte("hello, world") }, ""},
	{"nothing", func(*hgtest.Changeset) []byte { return nil }, ""},
	{"bundle of a later version", func(*hgtest.Changeset) []byte { return []byte("HG21\x00\x00\x00\x00\x00\x00\x00\x00") }, ""},
}

func init() {
	for _, path := range []string{
		"", "/etc/passwd", "../up", "a/../b", "a//b", "./a", "a/", ".hg/hgrc", ".HG/hgrc", "a/.hg/hgrc", ".hg ./hgrc",
		"hg~1/hgrc", ".h\u200cg/hgrc", "a\nb", "a\rb", "C:/x", `..\up`, `.hg\hgrc`,
	} {
		spoils = append(spoils, spoil{"path " + path, func(base *hgtest.Changeset) []byte { return pushOf(oneFile(base, path)) }, "path"})
	}
	// Those end or divide a line of the manifest.
	for i := range spoils {
		switch spoils[i].name {
		case "path ", "path a\nb":
			spoils[i].want = "malformed manifest"
		case "path a\rb":
			spoils[i].want = "disallowed in filenames"
		}
	}
}

// checkRefused pushes a bundle that must be refused with a sentence for the
// client, and must leave nothing behind.
func checkRefused(t *testing.T, n *node, before map[string]string, bundle []byte, want string) {
	t.Helper()
	reply, err := n.try(bundle)
	if err == nil {
		t.Errorf("accepted: %+v", reply)
		return
	}
	message, _, known := wire.Explain(err)
	if !known || !strings.Contains(message, want) {
		t.Errorf("error %v is told as %q (known: %v), want %q in it", err, message, known, want)
	}
	if left := quarantined(t, n.fs); left != nil {
		t.Errorf("left in quarantine: %q", left)
	}
	if after := storeContent(t, n.fs); !maps.Equal(before, after) {
		t.Errorf("the store was changed")
	}
}

func TestSpoilt(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 2)
	n.push(pushOf(base...))
	before := storeContent(t, n.fs)
	for _, s := range spoils {
		t.Run(s.name, func(t *testing.T) { checkRefused(t, n, before, s.make(base[1]), s.want) })
	}
	if c := chain(base[1], "", "sound", 1); len(n.push(pushOf(c...)).Parts) == 0 {
		t.Errorf("a sound push afterwards got no answer")
	}
}

func TestTruncated(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)
	n.push(pushOf(base...))
	before := storeContent(t, n.fs)
	c := chain(base[0], "", "next", 2)
	parts := append(hgtest.PushParts([]hg.Node{base[0].Node()}, hgtest.ChangegroupOf(c...)),
		hgtest.Part{Type: "PHASE-HEADS", Payload: phaseEntry(hg.Public, c[1].Node())},
		hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("m", c[1].Node())})
	bundle := hgtest.Bundle2(parts...)
	for i := 0; i < len(bundle); i += crashStride {
		if checkRefused(t, n, before, bundle[:i], ""); t.Failed() {
			t.Fatalf("after %d of %d bytes", i, len(bundle))
		}
	}
	n.push(bundle)
	if !n.has(c[1].Node()) || n.bookmark("m") != c[1].Node() {
		t.Error("the whole bundle was accepted and is not there")
	}
}

// A fault of our own is not the client's, and its details are not told.
func TestServerFaultIsNotTold(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)
	n.push(pushOf(base...))
	mem := n.fs.(*vfs.Mem)
	mem.SetCapacity(1)
	defer mem.SetCapacity(0)
	_, err := n.try(pushOf(chain(base[0], "", "next", 1)...))
	if message, _, known := wire.Explain(err); !known || message != "no space left on the server" {
		t.Errorf("on a full disk: %v, told as %q", err, message)
	}
}

func TestLimits(t *testing.T) {
	n := newNode(t)
	n.close()
	n.limits = Limits{MaxPushBytes: 5000, MaxTextBytes: 1000, MaxChangesets: 2, MaxOpBytes: 100, MaxParts: 3}
	n.mustOpen()
	before := storeContent(t, n.fs)
	many := hgtest.Part{Type: "CHECK:HEADS", Payload: make([]byte, 20)}
	sixty := hgtest.Part{Type: "check:updated-heads", Payload: make([]byte, 60)}
	key := hgtest.Part{Type: "pushkey", Mandatory: []hgtest.Param{
		{Name: "namespace", Value: "bookmarks"}, {Name: "key", Value: "m"}, {Name: "old", Value: ""}, {Name: "new", Value: strings.Repeat("f", 60)},
	}}
	for _, tt := range []struct {
		name   string
		bundle []byte
	}{
		{"bundle", pushOf(hgtest.NewChangeset(nil, "", "x", map[string]string{"f": text("x", 200)}))},
		{"text", pushOf(hgtest.NewChangeset(nil, "", "x", map[string]string{"f": text("x", 30)}))},
		{"changesets", pushOf(chain(nil, "", "x", 3)...)},
		{"part", hgtest.Bundle2(hgtest.Part{Type: "CHECK:HEADS", Payload: make([]byte, 120)})},
		{"parts", hgtest.Bundle2(many, many, many, many)},
		{"parts together", hgtest.Bundle2(sixty, sixty)},
		{"keys together", hgtest.Bundle2(key, key)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkRefused(t, n, before, tt.bundle, "limit")
			if _, err := n.try(tt.bundle); !errors.Is(err, hg.ErrTooLarge) {
				t.Errorf("error = %v, want %v", err, hg.ErrTooLarge)
			}
		})
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	n := newNode(t)
	bundle := pushOf(chain(nil, "", "x", 2)...)
	broken := errors.New("connection reset")
	body := io.MultiReader(bytes.NewReader(bundle[:len(bundle)/2]), iotestErr{broken})
	if _, err := n.p.Push(context.Background(), Request{Body: body}); !errors.Is(err, broken) {
		t.Errorf("error = %v, want %v", err, broken)
	}
	if left := quarantined(t, n.fs); left != nil {
		t.Errorf("left in quarantine: %q", left)
	}
}

type iotestErr struct{ err error }

func (r iotestErr) Read([]byte) (int, error) { return 0, r.err }

// TestLinksAreChecked: a push says that its manifest and its file came with a
// changeset that everybody has. Whoever pulls from there must get them.
func TestLinksAreChecked(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)
	n.push(pushOf(base...))
	c := oneFile(base[0], "f")
	c.Manifest.Link, c.Files[0].Rev.Link = base[0].Node(), base[0].Node()
	n.push(pushOf(c))
	view, err := n.p.repo.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	file, err := view.Filelog(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, _ := view.Changelog().Rev(c.Node())
	for _, l := range []struct {
		name string
		log  *revlog.Snapshot
		node hg.Node
	}{{"manifest", view.Manifest(), c.Manifest.Node}, {"f", file, c.Files[0].Rev.Node}} {
		rev, ok := l.log.Rev(l.node)
		if !ok || l.log.LinkRev(rev) != want {
			t.Errorf("%s: rev %d (known: %v) is linked to %d, want %d", l.name, rev, ok, l.log.LinkRev(rev), want)
		}
	}
}
