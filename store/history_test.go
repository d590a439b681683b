package store

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"vcsd/hg"
)

// A history tells hg's interpreter which repository to make.
type history struct {
	Commits   []historyCommit
	Phases    []phaseMove
	Markers   []historyMarker
	Bookmarks map[string]int // to rev
}

type historyCommit struct {
	Parents [2]int
	Branch  string
	Closes  bool
}

type phaseMove struct {
	Retract bool
	Phase   hg.Phase
	Revs    []int
}

// A historyMarker replaces a rev; a successor beyond all revs is a node that
// the repository does not have.
type historyMarker struct {
	Prec  int
	Succs []int
}

// madeHistory is what hg made of a history. Files are in base64.
type madeHistory struct {
	Nodes     []string
	Start     string   // phaseroots before the moves
	After     []string // phaseroots after each move
	Phases    []hg.Phase
	Obsolete  []hg.Rev
	Visible   []hg.Rev            // filtered of "visible"
	Served    []hg.Rev            // filtered of "served"
	Others    map[string][]hg.Rev // filtered of hg's other views
	ObsStore  string
	Relevant  map[string]int // markers relevant to a rev alone, in decimal
	Bookmarks string
	RbcNames  string
	RbcRevs   string
	FNodes    string
}

const makeHistories = `
import os, tempfile, base64, shutil
from mercurial import ui as uimod, hg, context, phases, repoview, obsolete, obsutil, bookmarks
def b64(b): return base64.b64encode(b or b'').decode('ascii')
def make(h):
    d = tempfile.mkdtemp().encode()
    u = uimod.ui.load()
    u.quiet = True
    for s, k, v in ((b'experimental', b'evolution', b'all'), (b'phases', b'new-commit', b'draft'), (b'format', b'exp-archived-phase', b'yes')):
        u.setconfig(s, k, v)
    repo = hg.repository(u, d + b'/r', create=True)
    nodes = []
    out = {}
    null = repo.nullid
    for i, c in enumerate(h['Commits']):
        p = [nodes[x] if x >= 0 else null for x in c['Parents']]
        extra = {b'branch': c['Branch'].encode()}
        if c['Closes']: extra[b'close'] = b'1'
        nodes.append(context.memctx(repo, p, b'commit %d' % i, [], lambda *a: None, user=b'u', date=(i, 0), extra=extra).commit())
    out['Nodes'] = [n.hex() for n in nodes]
    out['Start'] = b64(repo.svfs.tryread(b'phaseroots'))
    out['After'] = []
    for m in h['Phases'] or []:
        with repo.lock(), repo.transaction(b'x') as tr:
            f = phases.retractboundary if m['Retract'] else phases.advanceboundary
            f(repo, tr, m['Phase'], [nodes[r] for r in m['Revs']])
        out['After'].append(b64(repo.svfs.tryread(b'phaseroots')))
    with repo.lock(), repo.transaction(b'x') as tr:
        for i, m in enumerate(h['Markers'] or []):
            s = [nodes[x] if x < len(nodes) else bytes([x % 256]) * 20 for x in m['Succs'] or []]
            repo.obsstore.create(tr, nodes[m['Prec']], tuple(s), parents=tuple(p.node() for p in repo.unfiltered()[nodes[m['Prec']]].parents() if p.rev() >= 0) if not s else None, date=(i, 0), metadata={b'user': b'u'})
    with repo.wlock(), repo.lock(), repo.transaction(b'x') as tr:
        repo._bookmarks.applychanges(repo, tr, [(n.encode(), nodes[r]) for n, r in (h['Bookmarks'] or {}).items()])
    repo = hg.repository(u, d + b'/r')
    un = repo.unfiltered()
    out['Phases'] = [un[n].phase() for n in nodes]
    out['Obsolete'] = sorted(obsolete.getrevs(un, b'obsolete'))
    out['Visible'] = sorted(repoview.filterrevs(repo, b'visible'))
    out['Served'] = sorted(repoview.filterrevs(repo, b'served'))
    out['Others'] = {n: sorted(repoview.filterrevs(repo, n.encode())) for n in ('served.hidden', 'visible', 'immutable', 'base')}
    out['ObsStore'] = b64(repo.svfs.tryread(b'obsstore'))
    out['Relevant'] = {str(i): len(un.obsstore.relevantmarkers([n])) for i, n in enumerate(nodes)}
    out['Bookmarks'] = b64(repo.vfs.tryread(b'bookmarks'))
    for name in os.listdir(repo.cachevfs.base): repo.cachevfs.unlink(name)
    repo = hg.repository(u, d + b'/r')
    with repo.wlock(), repo.lock():
        repo.filtered(b'served').branchmap()
        repo.unfiltered().revbranchcache().write()
        from mercurial import tags
        f = tags.hgtagsfnodescache(repo.unfiltered())
        for n in nodes[::2]: f.getfnode(n)
        f.write()
    out['RbcNames'] = b64(repo.cachevfs.tryread(b'rbc-names-v1'))
    out['RbcRevs'] = b64(repo.cachevfs.tryread(b'rbc-revs-v1'))
    out['FNodes'] = b64(repo.cachevfs.tryread(b'hgtagsfnodes1'))
    shutil.rmtree(d)
    return out
json.dump([make(h) for h in ask], sys.stdout)
`

func makeHistory(rng *rand.Rand) history {
	var h history
	n := 3 + rng.IntN(12)
	for i := range n {
		c := historyCommit{Parents: [2]int{-1, -1}, Branch: []string{"default", "default", "b", "z \u00e9"}[rng.IntN(4)], Closes: rng.IntN(6) == 0}
		if i > 0 && rng.IntN(8) > 0 {
			c.Parents[0] = max(0, i-1-rng.IntN(4))
		}
		if i > 1 && rng.IntN(4) == 0 {
			if p := rng.IntN(i); p != c.Parents[0] && c.Parents[0] >= 0 {
				c.Parents[1] = p
			}
		}
		h.Commits = append(h.Commits, c)
	}
	for range rng.IntN(8) {
		m := phaseMove{Retract: rng.IntN(2) == 0, Phase: []hg.Phase{hg.Public, hg.Draft, hg.Secret, hg.Archived}[rng.IntN(4)]}
		if m.Phase == hg.Public {
			m.Retract = false // there is nothing below
		}
		for range 1 + rng.IntN(3) {
			m.Revs = append(m.Revs, rng.IntN(n))
		}
		h.Phases = append(h.Phases, m)
	}
	for range rng.IntN(5) {
		m := historyMarker{Prec: rng.IntN(n)}
		for range rng.IntN(3) {
			if s := rng.IntN(n + 2); s != m.Prec && !slices.Contains(m.Succs, s) {
				m.Succs = append(m.Succs, s)
			}
		}
		h.Markers = append(h.Markers, m)
	}
	h.Bookmarks = make(map[string]int)
	for i := range rng.IntN(3) {
		h.Bookmarks[fmt.Sprintf("mark %d", i)] = rng.IntN(n)
	}
	return h
}

// madeGraph is the graph of a history as hg numbered and named it.
type madeGraph struct {
	parents [][2]int
	nodes   []hg.Node
}

func (g madeGraph) Len() int { return len(g.nodes) }
func (g madeGraph) Parents(r hg.Rev) (hg.Rev, hg.Rev) {
	return hg.Rev(g.parents[r][0]), hg.Rev(g.parents[r][1])
}
func (g madeGraph) Node(r hg.Rev) hg.Node { return g.nodes[r] }
func (g madeGraph) Rev(n hg.Node) (hg.Rev, bool) {
	i := slices.Index(g.nodes, n)
	return hg.Rev(i), i >= 0
}

func (g madeGraph) first(n int) madeGraph { return madeGraph{g.parents[:n], g.nodes[:n]} }

func newMadeGraph(t *testing.T, h history, m madeHistory) madeGraph {
	t.Helper()
	var g madeGraph
	for i, s := range m.Nodes {
		n, err := hg.ParseNode(s)
		if err != nil {
			t.Fatal(err)
		}
		g.nodes = append(g.nodes, n)
		g.parents = append(g.parents, h.Commits[i].Parents)
	}
	return g
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// revsOf returns ints as revs.
func revsOf(ints []int) []hg.Rev {
	revs := make([]hg.Rev, len(ints))
	for i, r := range ints {
		revs[i] = hg.Rev(r)
	}
	return revs
}

// TestHistoriesAsHg lets hg make random repositories and compares every file
// and set of them with what this package makes of the same.
func TestHistoriesAsHg(t *testing.T) {
	count := 100
	if testing.Short() {
		count = 15
	}
	rng := rand.New(rand.NewPCG(11, 11))
	histories := make([]history, count)
	for i := range histories {
		histories[i] = makeHistory(rng)
	}
	var made []madeHistory
	askHg(t, makeHistories, histories, &made)
	for i, h := range histories {
		g := newMadeGraph(t, h, made[i])
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			phases := comparePhases(t, g, h, made[i])
			compareHidden(t, g, phases, made[i])
			compareCaches(t, g, h, phases, made[i])
			marks := ParseBookmarks(unbase64(t, made[i].Bookmarks))
			if got, want := EncodeBookmarks(marks), unbase64(t, made[i].Bookmarks); string(got) != string(want) || len(marks) != len(h.Bookmarks) {
				t.Errorf("bookmarks %q, want %q", got, want)
			}
		})
		if t.Failed() {
			t.Logf("history: %+v", h)
			break
		}
	}
}

func comparePhases(t *testing.T, g madeGraph, h history, made madeHistory) *PhaseMap {
	start := unbase64(t, made.Start)
	roots, err := ParsePhaseRoots(start)
	if err != nil {
		t.Fatal(err)
	}
	m := NewPhaseMap(g, roots)
	if got := EncodePhaseRoots(m.Roots()); string(got) != string(start) {
		t.Fatalf("phaseroots come back as %q, want %q", got, start)
	}
	for i, move := range h.Phases {
		before := m
		var moved []hg.Rev
		if move.Retract {
			m, moved = m.Retract(move.Phase, revsOf(move.Revs))
		} else {
			m, moved = m.Advance(move.Phase, revsOf(move.Revs))
		}
		if got, want := EncodePhaseRoots(m.Roots()), unbase64(t, made.After[i]); string(got) != string(want) {
			t.Fatalf("after move %d, %+v, phaseroots are\n%swant\n%s", i, move, got, want)
		}
		for r := range hg.Rev(g.Len()) {
			if changed := before.Phase(r) != m.Phase(r); changed != slices.Contains(moved, r) {
				t.Fatalf("move %d, %+v: rev %d changed: %v, said to have moved: %v", i, move, r, changed, moved)
			}
		}
	}
	for r, p := range made.Phases {
		if m.Phase(hg.Rev(r)) != p {
			t.Errorf("phase of %d is %v, want %v", r, m.Phase(hg.Rev(r)), p)
		}
	}
	compareNext(t, g, m)
	return m
}

// compareNext checks that phases that were computed for a part of the history
// first are the same in the end.
func compareNext(t *testing.T, g madeGraph, m *PhaseMap) {
	roots := m.Roots()
	for n := range g.Len() {
		step := NextPhaseMap(NewPhaseMap(g.first(n), roots), g, roots)
		if step.first != m.first || !slices.Equal(step.phases, m.phases) {
			t.Errorf("from %d changesets on, phases are %v from %d, want %v from %d", n, step.phases, step.first, m.phases, m.first)
		}
	}
}

func compareHidden(t *testing.T, g madeGraph, phases *PhaseMap, made madeHistory) {
	file := unbase64(t, made.ObsStore)
	obs, err := ParseObsStore(file)
	if err != nil {
		t.Fatal(err)
	}
	var pinned []hg.Rev
	for _, n := range ParseBookmarks(unbase64(t, made.Bookmarks)) {
		r, _ := g.Rev(n)
		pinned = append(pinned, r)
	}
	obsolete := ObsoleteRevs(g, phases, obs)
	hidden := HiddenRevs(g, phases, obsolete, pinned)
	served := Served.Filter(g.Len(), phases, hidden)
	for name, want := range made.Others {
		sight, ok := ParseSight(name)
		if !ok {
			t.Fatalf("no view %s", name)
		}
		if got := sight.Filter(g.Len(), phases, hidden); got.Len() != len(want) || got != nil && !slices.Equal(got.Revs(), want) {
			t.Errorf("filtered in %s: %v, want %v", name, got.Revs(), want)
		}
	}
	for _, c := range []struct {
		what      string
		got, want []hg.Rev
	}{{"obsolete", obsolete.Revs(), made.Obsolete}, {"hidden", hidden.Revs(), made.Visible}, {"not served", served.Revs(), made.Served}} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	for r, n := range g.nodes {
		if got, want := len(obs.Relevant(func(m hg.Node) bool { return m == n })), made.Relevant[fmt.Sprint(r)]; got != want {
			t.Errorf("%d markers are relevant to %d, want %d", got, r, want)
		}
	}
	if len(obs.Fresh(obs.Markers())) > 0 {
		t.Error("Fresh returns markers that the store has")
	}
	again, off, err := new(ObsStore).AppendForm(obs.Markers())
	if len(file) > 0 && (err != nil || off != 0 || string(again) != string(file)) {
		t.Errorf("obsstore is written as %q at %d, %v, want %q", again, off, err, file)
	}
}

func compareCaches(t *testing.T, g madeGraph, h history, phases *PhaseMap, made madeHistory) {
	rbc := ParseRevBranches(unbase64(t, made.RbcNames), unbase64(t, made.RbcRevs))
	fresh := ParseRevBranches(nil, nil)
	for r, want := range h.Commits {
		rev, n := hg.Rev(r), g.nodes[r]
		name, closes, ok := rbc.Branch(rev, n)
		if ok && (name != want.Branch || closes != want.Closes) {
			t.Errorf("rev branch cache: %d is on %q %v, want %+v", r, name, closes, want)
		}
		if ok {
			fresh.Set(rev, n, name, closes)
		}
	}
	if _, revs := fresh.Tails(); len(revs.Data) > 0 && string(revs.Data) != string(unbase64(t, made.RbcRevs))[:len(revs.Data)] {
		// hg numbers names in the order in which it meets them, which is not
		// always that of revs: compare what the records say instead.
		compareRecords(t, g, unbase64(t, made.RbcNames), unbase64(t, made.RbcRevs), fresh)
	}
	fnodes := ParseTagsFileNodes(unbase64(t, made.FNodes))
	for r := range g.nodes {
		f, ok := fnodes.Get(hg.Rev(r), g.nodes[r])
		if ok && !f.IsNull() || r%2 == 0 && !ok {
			t.Errorf("tags cache has %v %v for %d, which has no tags", f, ok, r)
		}
	}
	if got, want := fnodes.Encode(g.Len()), unbase64(t, made.FNodes); string(got) != string(want) {
		t.Errorf("tags cache is written as %x, want %x", got, want)
	}
}

func compareRecords(t *testing.T, g madeGraph, names, revs []byte, ours *RevBranches) {
	theirs := ParseRevBranches(names, revs)
	for r, n := range g.nodes {
		name, closes, ok := theirs.Branch(hg.Rev(r), n)
		name2, closes2, ok2 := ours.Branch(hg.Rev(r), n)
		if name != name2 || closes != closes2 || ok != ok2 {
			t.Errorf("rev branch cache: %d is on %q %v %v, want %q %v %v", r, name2, closes2, ok2, name, closes, ok)
		}
	}
}
