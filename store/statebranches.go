package store

import (
	"maps"
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/revlog"
)

// A branchTable knows the branch of every changeset. It only grows, until the
// changelog is opened anew; states keep a prefix of it.
type branchTable struct {
	names []string
	ids   map[string]uint32
	of    []branchID // by rev
}

// A branchID is an index in branchTable.names, shifted left by one; its lowest
// bit tells that the changeset closes the branch.
type branchID uint32

func (b branchID) index() int   { return int(b >> 1) }
func (b branchID) closes() bool { return b&1 != 0 }

func newBranchTable() *branchTable {
	return &branchTable{ids: make(map[string]uint32)}
}

func (t *branchTable) id(name string, closes bool) branchID {
	i, ok := t.ids[name]
	if !ok {
		i = uint32(len(t.names))
		t.names = append(t.names, name)
		t.ids[name] = i
	}
	id := branchID(i << 1)
	if closes {
		id |= 1
	}
	return id
}

// extend reads the branches of the changesets it does not know yet.
func (t *branchTable) extend(cl *revlog.Snapshot) error {
	read := cl.Reader(0)
	for r := hg.Rev(len(t.of)); int(r) < cl.Len(); r++ {
		text, err := read.Text(r)
		if err != nil {
			return err
		}
		c, err := ParseChangeset(text)
		if err != nil {
			return &revlog.CorruptError{File: "store/00changelog.i", Rev: r, Err: err}
		}
		t.of = append(t.of, t.id(c.Branch(), c.Closes()))
	}
	return nil
}

// A branchView is the branches of one state.
type branchView struct {
	names []string
	of    []branchID
	ids   map[string]uint32 // not written once a state has it
	heads [][]hg.Rev        // visible heads by branch index, ascending; nil: none
}

// view returns the branches of st, whose changesets the table knows.
func (t *branchTable) view(st, old *state) branchView {
	v := branchView{names: t.names[:len(t.names):len(t.names)], of: t.of[:st.changelog.Len():st.changelog.Len()]}
	if st.extends(old) {
		v.heads = make([][]hg.Rev, len(v.names))
		copy(v.heads, old.branches.heads)
		v.ids = old.branches.ids
	} else {
		v.heads = make([][]hg.Rev, len(v.names))
	}
	if len(v.ids) != len(t.ids) {
		v.ids = maps.Clone(t.ids)
	}
	first := 0
	if st.extends(old) {
		first = old.changelog.Len()
	}
	v.addHeads(st, hg.Rev(first))
	return v
}

// addHeads makes the visible changesets from first on heads of their branches.
func (v *branchView) addHeads(st *state, first hg.Rev) {
	added := make(map[int][]hg.Rev)
	for r := first; int(r) < len(v.of); r++ {
		if st.visible(r) {
			i := v.of[r].index()
			added[i] = append(added[i], r)
		}
	}
	topo := make(map[hg.Rev]struct{}, len(st.heads))
	for _, h := range st.heads {
		topo[h] = struct{}{}
	}
	for i, revs := range added {
		v.heads[i] = AddBranchHeads(st.changelog, v.heads[i], revs, topo)
	}
}

// AddBranchHeads returns the heads of a branch, ascending, after the
// changesets added, ascending, joined it. old are the heads before; heads are
// those of the whole repository, after. A head of a branch has no descendant
// on that branch, not even by way of another one.
func AddBranchHeads(g dag.Graph, old, added []hg.Rev, heads map[hg.Rev]struct{}) []hg.Rev {
	candidates := make(map[hg.Rev]struct{}, len(old)+len(added))
	for _, r := range old {
		candidates[r] = struct{}{}
	}
	for _, r := range added {
		p1, p2 := g.Parents(r)
		delete(candidates, p1)
		delete(candidates, p2)
		candidates[r] = struct{}{}
	}
	revs := slices.Sorted(maps.Keys(candidates))
	// Heads of the repository are nobody's ancestors; only the others need
	// to be looked for among the ancestors of the rest.
	for _, r := range revs {
		if _, isHead := heads[r]; !isHead && len(revs) > 1 {
			return dag.HeadsOf(g, revs)
		}
	}
	return revs
}

// branchHeads returns the visible heads of a branch, ascending.
func (v *branchView) branchHeads(name string) []hg.Rev {
	i, ok := v.ids[name]
	if !ok {
		return nil
	}
	return v.heads[i]
}

// tip returns the changeset that a branch's name stands for: its newest open
// head, or its newest closed one.
func (v *branchView) tip(name string) (hg.Rev, bool) {
	heads := v.branchHeads(name)
	for _, r := range slices.Backward(heads) {
		if !v.of[r].closes() {
			return r, true
		}
	}
	if len(heads) == 0 {
		return 0, false
	}
	return heads[len(heads)-1], true
}
