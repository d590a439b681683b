package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/revlog/delta"
	"vcsd/store"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// unserved are the repositories that are refused when opened.
var unserved = []string{"lfs", "nostore", "treemanifest", "abandoned", "abandoned-pull"}

// openRepo opens a repository of testdata/repos.
func openRepo(t testing.TB, name string) (*store.Repo, *hgtest.HG) {
	t.Helper()
	dir := hgtest.Repo(t, name)
	return openAt(t, dir), hgtest.New(t).In(dir)
}

func openAt(t testing.TB, dir string) *store.Repo {
	t.Helper()
	r, err := store.Open(vfs.NewOS(filepath.Join(dir, ".hg")), store.Options{Key: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func viewOf(t testing.TB, r *store.Repo) *store.View {
	t.Helper()
	v, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// An id names a revision: the log ("changelog", "manifest", `file "a"`) and
// its node.
type id struct {
	log  string
	node hg.Node
}

// A sent is a revision as it came in a changegroup.
type sent struct {
	p1, p2, base, link hg.Node
	flags              hg.RevFlags
	text               string
}

// texts are those that a client can apply deltas to.
type texts map[id]string

// decode reads a changegroup as a client would that has the texts of have.
// New texts are added to have.
func decode(t testing.TB, data []byte, v changegroup.Version, have texts) (revs map[id]sent, order []id) {
	t.Helper()
	r := changegroup.NewReader(bytes.NewReader(data), v, changegroup.Limits{})
	revs = make(map[id]sent)
	for {
		g, err := r.NextGroup()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for {
			h, d, err := r.NextDelta()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			k := id{g.String(), h.Node}
			base, ok := have[id{k.log, h.Base}]
			if !ok && !h.Base.IsNull() {
				t.Fatalf("%s %s: the client lacks its base %s", k.log, k.node, h.Base)
			}
			text, err := apply(base, d)
			if err != nil {
				t.Fatalf("%s %s: %v", k.log, k.node, err)
			}
			if hg.HashText(h.P1, h.P2, []byte(text)) != h.Node && !strings.HasPrefix(text, tombstone) {
				t.Fatalf("%s %s: its text has another hash", k.log, k.node)
			}
			if _, twice := revs[k]; twice {
				t.Fatalf("%s %s is sent twice", k.log, k.node)
			}
			revs[k] = sent{h.P1, h.P2, h.Base, h.Link, h.Flags, text}
			have[k] = text
			order = append(order, k)
		}
	}
	return revs, order
}

// tombstone is what the text of a censored revision begins with.
const tombstone = "\x01\ncensored:"

// apply applies a delta. One to or from a tombstone replaces the whole text,
// whatever its length.
func apply(base string, d []byte) (string, error) {
	if strings.HasPrefix(base, tombstone) {
		var text []byte
		err := delta.Walk(d, 1<<30, func(f delta.Fragment) bool {
			text = append(text, f.Data...)
			return true
		})
		return string(text), err
	}
	text, err := delta.Apply(nil, []byte(base), d, 1<<30)
	return string(text), err
}

// full are the arguments of a clone by a client that knows everything.
func full() Args {
	return Args{Bundle2: true, Changegroup: true, Caps: map[string][]string{
		"changegroup": {"01", "02"}, "bookmarks": nil, "phases": {"heads"}, "hgtagsfnodes": nil,
	}}
}

// getBundle asks for a bundle and reads its parts.
func getBundle(t testing.TB, v *store.View, a Args) []hgtest.Part {
	t.Helper()
	var b bytes.Buffer
	if err := GetBundle(t.Context(), v, a, noKeys, &b); err != nil {
		t.Fatal(err)
	}
	parts, err := hgtest.ParseBundle2(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func noKeys(context.Context, string) ([]bundle2.KeyValue, error) {
	return nil, errors.New("not asked")
}

// payload returns that of the only part of a type; nil if there is none.
func payload(t testing.TB, parts []hgtest.Part, typ string) []byte {
	t.Helper()
	var found [][]byte
	for _, p := range parts {
		if strings.EqualFold(p.Type, typ) {
			found = append(found, p.Payload)
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return found[0]
	}
	t.Fatalf("%d parts %s, want one", len(found), typ)
	return nil
}

// A model tells by brute force what a changeset brings along.
type model struct {
	view   *store.View
	texts  texts
	named  map[hg.Rev][]id // what a changeset's manifest names, behind itself and the manifest
	namers map[id][]hg.Rev // the same the other way round, ascending
}

// newModel looks into every manifest of the repository.
func newModel(t testing.TB, v *store.View) *model {
	t.Helper()
	m := &model{view: v, texts: make(texts), named: make(map[hg.Rev][]id), namers: make(map[id][]hg.Rev)}
	cl, mf := v.Changelog(), v.Manifest()
	for r := hg.Rev(0); int(r) < v.Len(); r++ {
		text, err := cl.Text(r)
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.ParseChangeset(text)
		if err != nil {
			t.Fatal(err)
		}
		k := id{"changelog", cl.Node(r)}
		m.texts[k] = string(text)
		m.name(r, k)
		if c.Manifest.IsNull() {
			continue
		}
		mr, ok := mf.Rev(c.Manifest)
		if !ok {
			t.Fatalf("manifest of %d is missing", r)
		}
		if text, err = mf.Text(mr); err != nil {
			t.Fatal(err)
		}
		k = id{"manifest", c.Manifest}
		m.texts[k] = string(text)
		m.name(r, k)
		err = store.Entries(text, func(e store.ManifestEntry) error {
			k := id{fmt.Sprintf("file %q", e.Path), e.Node}
			m.name(r, k)
			return m.addFile(t, string(e.Path), k)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m *model) name(r hg.Rev, k id) {
	m.named[r] = append(m.named[r], k)
	m.namers[k] = append(m.namers[k], r)
}

func (m *model) addFile(t testing.TB, path string, k id) error {
	if _, ok := m.texts[k]; ok {
		return nil
	}
	log, err := m.view.Filelog(t.Context(), path)
	if err != nil {
		return err
	}
	defer log.Close()
	r, ok := log.Rev(k.node)
	if !ok {
		return fmt.Errorf("%s %s is missing", k.log, k.node)
	}
	text, err := log.Text(r)
	m.texts[k] = string(text)
	return err
}

// withAncestors returns all that changesets and their ancestors name.
func (m *model) withAncestors(revs ...hg.Rev) map[id]bool {
	all := make(map[id]bool)
	for r := range dag.Ancestors(m.view, withoutNull(revs)).All() {
		for _, k := range m.named[r] {
			all[k] = true
		}
	}
	return all
}

// client returns the texts of what a client has.
func (m *model) client(has map[id]bool) texts {
	have := make(texts)
	for k := range has {
		have[k] = m.texts[k]
	}
	return have
}

// checkSent compares what was sent to a client with what it lacks.
func (m *model) checkSent(t testing.TB, has, wants map[id]bool, revs map[id]sent) {
	t.Helper()
	for k := range wants {
		if _, ok := revs[k]; !ok && !has[k] {
			t.Errorf("%s %s is not sent", k.log, k.node)
		}
	}
	for k, s := range revs {
		if !wants[k] {
			t.Errorf("%s %s is sent and not wanted", k.log, k.node)
		}
		if s.text != m.texts[k] {
			t.Errorf("%s %s: text %.60q, want %.60q", k.log, k.node, s.text, m.texts[k])
		}
		m.checkLink(t, k, s, revs)
	}
}

// checkLink: the changeset that a revision is linked to is sent, and names it,
// and no earlier one that is sent does.
func (m *model) checkLink(t testing.TB, k id, s sent, revs map[id]sent) {
	t.Helper()
	link, ok := m.view.Rev(s.link)
	if !ok || !slices.Contains(m.namers[k], link) {
		t.Errorf("%s %s is linked to %s, which doesn't name it", k.log, k.node, s.link)
		return
	}
	for _, r := range m.namers[k] {
		if _, ok := revs[m.named[r][0]]; !ok {
			continue
		}
		if r != link {
			t.Errorf("%s %s is linked to changeset %d, want %d", k.log, k.node, link, r)
		}
		return
	}
	t.Errorf("%s %s is linked to changeset %d, which is not sent", k.log, k.node, link)
}
