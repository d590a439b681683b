package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/revlog"
	"vcsd/store"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
)

// TestCloneAsHg compares a clone of every repository with a bundle of the same
// changesets that hg makes.
func TestCloneAsHg(t *testing.T) {
	for _, name := range hgtest.Repos(t, append(unserved, "empty")...) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h := openRepo(t, name)
			v := viewOf(t, r)
			heads := ""
			for i, n := range v.Heads() {
				if i > 0 {
					heads += "+"
				}
				heads += n.String()
			}
			want, wantOrder := decode(t, h.Changegroup(heads), changegroup.V02, make(texts))
			parts := getBundle(t, v, full())
			got, order := decode(t, payload(t, parts, "changegroup"), changegroup.V02, make(texts))
			compareSent(t, want, got)
			for i, k := range wantOrder {
				if k.log == "changelog" && i < len(order) && order[i] != k {
					t.Errorf("changeset %d is %s, want %s", i, order[i].node, k.node)
				}
			}
			if n, _ := parts[0].Param("nbchanges"); n != strconv.Itoa(countLog(got, "changelog")) {
				t.Errorf("nbchanges=%s, want %d", n, countLog(got, "changelog"))
			}
		})
	}
}

func countLog(revs map[id]sent, log string) (n int) {
	for k := range revs {
		if k.log == log {
			n++
		}
	}
	return n
}

// compareSent compares what two sides sent, but for the bases of deltas.
func compareSent(t *testing.T, want, got map[id]sent) {
	t.Helper()
	for k, w := range want {
		g, ok := got[k]
		w.base, g.base = hg.NullNode, hg.NullNode
		if bytes.HasPrefix([]byte(w.text), []byte(tombstone)) && len(g.text) >= len(tombstone) {
			// hg leaves the end of its base's text behind a tombstone at times.
			w.text, g.text = w.text[:len(tombstone)], g.text[:len(tombstone)]
		}
		if !ok {
			t.Errorf("%s %s is not sent", k.log, k.node)
		} else if g != w {
			t.Errorf("%s %s: got %+.60v, want %+.60v", k.log, k.node, g, w)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s %s is sent and hg doesn't", k.log, k.node)
		}
	}
}

// TestEveryPull pulls each changeset into clients that have each other one, in
// each version, and compares with what a walk through all manifests finds.
func TestEveryPull(t *testing.T) {
	for _, name := range []string{"branches", "merges", "heads", "renames", "flags", "metadata", "tags", "obsolete", "split", "nogeneraldelta", "censored", "phases"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := openRepo(t, name)
			v := viewOf(t, r)
			m := newModel(t, v)
			step := hg.Rev(1 + v.Len()/min(24, 10_000/v.Len()))
			for want := hg.Rev(0); int(want) < v.Len(); want += step {
				for common := hg.NullRev; int(common) < v.Len(); common += step {
					if v.Visible(want) && (common == hg.NullRev || v.Visible(common)) {
						m.checkPull(t, common, want)
					}
				}
			}
		})
	}
}

func (m *model) checkPull(t *testing.T, common, want hg.Rev) {
	t.Helper()
	cl := m.view.Changelog()
	for _, version := range []changegroup.Version{changegroup.V01, changegroup.V02, changegroup.V03} {
		a := full()
		a.Heads = []hg.Node{cl.Node(want)}
		a.Caps["changegroup"], a.Changegroup3 = []string{version.String()}, true
		if common != hg.NullRev {
			a.Common = []hg.Node{cl.Node(common)}
		}
		has := m.withAncestors(common)
		data := payload(t, getBundle(t, m.view, a), "changegroup")
		wants := m.withAncestors(want)
		if data == nil {
			for k := range wants {
				if !has[k] {
					t.Errorf("version %v, %d for a client with %d: nothing is sent, %s is lacking", version, want, common, k.log)
					break
				}
			}
			continue
		}
		revs, _ := decode(t, data, version, m.client(has))
		before := t.Failed()
		m.checkSent(t, has, wants, revs)
		if t.Failed() && !before {
			t.Fatalf("version %v, changeset %d, client with %d", version, want, common)
		}
	}
}

// TestFlags: only version 03 has room for them.
func TestFlags(t *testing.T) {
	r, _ := openRepo(t, "censored")
	v := viewOf(t, r)
	for _, version := range []changegroup.Version{changegroup.V01, changegroup.V02, changegroup.V03} {
		a := full()
		a.Caps["changegroup"], a.Changegroup3 = []string{version.String()}, true
		revs, _ := decode(t, payload(t, getBundle(t, v, a), "changegroup"), version, make(texts))
		flagged := 0
		for _, s := range revs {
			if s.flags&hg.FlagCensored != 0 {
				flagged++
			}
		}
		if want := version == changegroup.V03; flagged > 0 != want {
			t.Errorf("version %v: %d revisions are flagged as censored", version, flagged)
		}
	}
}

func TestChangegroupVersion(t *testing.T) {
	tests := []struct {
		offered []string // nil: the client knows none
		three   bool
		want    string // version parameter, or the error
	}{
		{[]string{"01", "02"}, false, "02"},
		{[]string{"02", "01"}, false, "02"},
		{[]string{"01"}, false, "01"},
		{[]string{"01", "02", "03"}, false, "02"},
		{[]string{"01", "02", "03"}, true, "03"},
		{[]string{"01", "02", "03", "04"}, true, "03"},
		{[]string{"01", "02"}, true, "02"},
		{[]string{"03"}, false, "no common changegroup version"},
		{[]string{"04"}, true, "no common changegroup version"},
		{nil, true, ""},
	}
	r, _ := openRepo(t, "linear")
	v := viewOf(t, r)
	for _, tt := range tests {
		a := full()
		a.Caps["changegroup"], a.Changegroup3 = tt.offered, tt.three
		var b bytes.Buffer
		err := GetBundle(t.Context(), v, a, noKeys, &b)
		if err != nil {
			if err.Error() != tt.want {
				t.Errorf("%v, 03 allowed: %v: error %v, want %q", tt.offered, tt.three, err, tt.want)
			}
			continue
		}
		parts, err := hgtest.ParseBundle2(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := parts[0].Param("version"); got != tt.want {
			t.Errorf("%v, 03 allowed: %v: version %q, want %q", tt.offered, tt.three, got, tt.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	r, _ := openRepo(t, "phases")
	v := viewOf(t, r)
	secret := hg.NullRev
	for rev := hg.Rev(0); int(rev) < v.Len(); rev++ {
		if !v.Visible(rev) {
			secret = rev
		}
	}
	if secret == hg.NullRev {
		t.Fatal("no changeset of the repository is hidden")
	}
	hidden := v.Changelog().Node(secret)
	tests := []struct {
		name   string
		change func(*Args)
		want   string
	}{
		{"unknown head", func(a *Args) { a.Heads = []hg.Node{{1}} }, fmt.Sprintf("unknown revision '%s'", hg.Node{1})},
		{"hidden head", func(a *Args) { a.Heads = []hg.Node{hidden} }, fmt.Sprintf("filtered revision '%s' (not in 'served' subset)", hidden)},
		{"bookmarks without the capability", func(a *Args) { a.Bookmarks = true; delete(a.Caps, "bookmarks") }, "no common bookmarks exchange method"},
		{"phases without the capability", func(a *Args) { a.Phases = true; a.Caps["phases"] = nil }, "no common phases exchange method"},
		{"stream", func(a *Args) { a.Stream = true }, "stream data requested but server does not allow this feature (well-behaved clients should not be requesting stream data from servers not advertising it; the client may be buggy)"},
	}
	for _, tt := range tests {
		a := full()
		tt.change(&a)
		var b bytes.Buffer
		err := GetBundle(t.Context(), v, a, noKeys, &b)
		if err == nil || err.Error() != tt.want || b.Len() > 0 {
			t.Errorf("%s: %v after %d bytes, want %q and none", tt.name, err, b.Len(), tt.want)
		}
	}
}

// TestHiddenCommon: what the client has and must not know of counts for
// nothing, nor does what nobody knows.
func TestHiddenCommon(t *testing.T) {
	r, _ := openRepo(t, "obsolete")
	v := viewOf(t, r)
	a := full()
	all, _ := decode(t, payload(t, getBundle(t, v, a), "changegroup"), changegroup.V02, make(texts))
	for rev := hg.Rev(0); int(rev) < v.Len(); rev++ {
		if !v.Visible(rev) {
			a.Common = append(a.Common, v.Changelog().Node(rev))
		}
	}
	if a.Common == nil {
		t.Fatal("no changeset of the repository is hidden")
	}
	a.Common = append(a.Common, hg.Node{1}, hg.NullNode)
	got, _ := decode(t, payload(t, getBundle(t, v, a), "changegroup"), changegroup.V02, make(texts))
	compareSent(t, all, got)
}

// TestCancelled: nothing goes on after its client has gone.
func TestCancelled(t *testing.T) {
	r, _ := openRepo(t, "linear")
	v := viewOf(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	if err := GetBundle(ctx, v, full(), noKeys, &b); !errors.Is(err, ctx.Err()) {
		t.Errorf("GetBundle: %v, want %v", err, ctx.Err())
	}
	if err := StreamV1(ctx, v, &b); !errors.Is(err, ctx.Err()) {
		t.Errorf("StreamV1: %v, want %v", err, ctx.Err())
	}
}

// A full clone of a store that lacks the log of a file ends in an error, not in a
// clone without the file.
func TestLostFilelog(t *testing.T) {
	r, h := openRepo(t, "linear")
	v := viewOf(t, r)
	paths, err := filePaths(t.Context(), v)
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %q, %v", paths, err)
	}
	for _, path := range paths {
		name := filepath.Join(h.Dir, ".hg", r.FilelogRadix(path)+".i")
		if err := os.Rename(name, name+".away"); err != nil {
			t.Fatal(err)
		}
		v := viewOf(t, openAt(t, h.Dir))
		var corrupt *revlog.CorruptError
		if err := GetBundle(t.Context(), v, full(), noKeys, io.Discard); !errors.As(err, &corrupt) {
			t.Errorf("without the log of %q: %v, want a *revlog.CorruptError", path, err)
		}
		if err := os.Rename(name+".away", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := GetBundle(t.Context(), v, full(), noKeys, io.Discard); err != nil {
		t.Errorf("with all logs: %v", err)
	}
}

// TestLegacyChangegroup asks as clients from before getbundle do: for the
// descendants of roots.
func TestLegacyChangegroup(t *testing.T) {
	for _, name := range []string{"branches", "merges", "heads"} {
		r, _ := openRepo(t, name)
		v := viewOf(t, r)
		m := newModel(t, v)
		for root := hg.Rev(0); int(root) < v.Len(); root++ {
			var b bytes.Buffer
			n := v.Changelog().Node(root)
			if err := Changegroup(t.Context(), v, []hg.Node{n}, nil, nil, &b); err != nil {
				t.Fatal(err)
			}
			has := m.withAncestors(parentsOf(v, root)...)
			revs, _ := decode(t, b.Bytes(), changegroup.V01, m.client(m.withAncestors(outsideOf(v, root)...)))
			if _, ok := revs[id{"changelog", n}]; !ok {
				t.Errorf("%s: descendants of %d: it is not sent itself", name, root)
			}
			for k := range revs {
				if k.log == "changelog" && has[k] {
					t.Errorf("%s: descendants of %d: ancestor %s is sent", name, root, k.node)
				}
			}
		}
	}
}

func parentsOf(v *store.View, r hg.Rev) []hg.Rev {
	p1, p2 := v.Parents(r)
	return []hg.Rev{p1, p2}
}

// outsideOf returns the changesets that don't descend from root: a client that
// lacks root and its descendants may have all of them.
func outsideOf(v *store.View, root hg.Rev) (revs []hg.Rev) {
	below := dag.Descendants(v, []hg.Rev{root})
	for r := hg.Rev(0); int(r) < v.Len(); r++ {
		if !below.Has(r) {
			revs = append(revs, r)
		}
	}
	return revs
}

// TestCaches: the parts that spare clients some work, of what hg knows.
func TestCaches(t *testing.T) {
	r, h := openRepo(t, "tags")
	v := viewOf(t, r)
	a := full()
	a.Caps["rev-branch-cache"] = nil
	h.Run("tags") // fills hg's cache
	parts := getBundle(t, v, a)
	fnodes, err := bundle2.DecodeTagsFnodes(payload(t, parts, "hgtagsfnodes"))
	if err != nil || len(fnodes) == 0 {
		t.Fatalf("hgtagsfnodes: %d entries, %v", len(fnodes), err)
	}
	m := newModel(t, v)
	for _, f := range fnodes {
		rev, ok := v.Rev(f.Changeset)
		named := slices.Contains(m.named[rev], id{`file ".hgtags"`, f.File})
		if !ok || named == f.File.IsNull() {
			t.Errorf("changeset %s: .hgtags is %s, which its manifest names: %v", f.Changeset, f.File, named)
		}
	}
	branches, err := bundle2.DecodeBranchCache(payload(t, parts, "cache:rev-branch-cache"))
	n := 0
	for _, b := range branches {
		for i, node := range slices.Concat(b.Open, b.Closed) {
			n++
			if rev, ok := v.Rev(node); !ok || v.Branch(rev) != b.Branch || v.Closes(rev) != (i >= len(b.Open)) {
				t.Errorf("branch %q: %s", b.Branch, node)
			}
		}
	}
	if err != nil || n != v.Len() {
		t.Errorf("%d changesets in rev-branch-cache, %v; want %d", n, err, v.Len())
	}
	a.Changegroup, a.Caps = false, full().Caps
	if parts := getBundle(t, v, a); len(parts) > 0 {
		t.Errorf("without a changegroup: %v", parts)
	}
}
