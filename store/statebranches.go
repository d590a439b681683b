package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A branchTable knows the branch of every changeset. It only grows, until the
// changelog is opened anew; states keep a prefix of it.
type branchTable struct {
	names []string
	first []hg.Rev // by branch index: its first changeset
	ids   map[string]uint32
	of    []branchID // by rev

	cached *RevBranches // hg's cache of the same, as read and since extended
	saved  int          // revs that the files of the cache have
}

// A branchID is an index in branchTable.names, shifted left by one; its lowest
// bit tells that the changeset closes the branch.
type branchID uint32

func (b branchID) index() int   { return int(b >> 1) }
func (b branchID) closes() bool { return b&1 != 0 }

// hg's cache of branches, relative to .hg.
const (
	rbcNamesName = "cache/rbc-names-v1"
	rbcRevsName  = "cache/rbc-revs-v1"
)

// extendBranches makes the table know the changesets of cl. A new table
// starts with what hg's cache knows. The caller holds mu.
func (r *Repo) extendBranches(cl *revlog.Snapshot) error {
	if r.branches == nil {
		names, err := r.readSmall(rbcNamesName)
		if err != nil {
			return err
		}
		revs, err := r.readSmall(rbcRevsName)
		if err != nil {
			return err
		}
		r.branches = &branchTable{ids: make(map[string]uint32), cached: ParseRevBranches(names, revs)}
		r.branches.seed(cl)
	}
	return r.branches.extend(cl)
}

// seed takes over the changesets that the cache knows without a gap.
func (t *branchTable) seed(cl *revlog.Snapshot) {
	n := min(cl.Len(), t.cached.Len())
	for r := hg.Rev(0); int(r) < n; r++ {
		name, closes, ok := t.cached.Branch(r, cl.Node(r))
		if !ok {
			break
		}
		t.of = append(t.of, t.id(r, name, closes))
	}
	t.saved = len(t.of)
	t.cached.Truncate(t.saved)
}

// saveEvery is how much of a table may be missing in the cache's files before
// they are written again: one part in so many, but not less than saveLeast.
const (
	saveEvery = 64
	saveLeast = 64
)

// SaveBranches writes hg's cache of branches, if it lags so far behind that it
// is worth it, or behind at all if all is set. It gives way to a local hg that
// is at work. What it writes is a cache: it is not synced.
func (r *Repo) SaveBranches(all bool) error {
	names, revs, n := r.unsavedBranches(all)
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	unlock, err := Lock(ctx, r.fs, "wlock")
	if err != nil {
		return nil // somebody else's lock: the next save has it all
	}
	err = r.writeBranches(names, revs)
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.branches != nil {
		r.branches.saved = max(r.branches.saved, n)
	}
	return nil
}

// writeBranches replaces the files. Names come first: records point to them.
func (r *Repo) writeBranches(names, revs []byte) error {
	if err := r.fs.MkdirAll("cache"); err != nil {
		return err
	}
	if err := vfs.WriteAtomic(r.fs, rbcNamesName, names, false); err != nil {
		return err
	}
	return vfs.WriteAtomic(r.fs, rbcRevsName, revs, false)
}

// unsavedBranches returns the files to write and for how many changesets; 0
// if it is not time yet.
func (r *Repo) unsavedBranches(all bool) (names, revs []byte, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.branches
	if t == nil {
		return nil, nil, 0
	}
	missing := len(t.of) - t.saved
	if missing == 0 || !all && missing < max(saveLeast, len(t.of)/saveEvery) {
		return nil, nil, 0
	}
	names, revs = t.cached.Files()
	return names, revs, len(t.of)
}

func (t *branchTable) id(r hg.Rev, name string, closes bool) branchID {
	i, ok := t.ids[name]
	if !ok {
		i = uint32(len(t.names))
		t.names = append(t.names, name)
		t.first = append(t.first, r)
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
			return revlog.Corrupt("store/00changelog.i", r, err)
		}
		t.of = append(t.of, t.id(r, c.Branch(), c.Closes()))
		t.cached.Set(r, cl.Node(r), c.Branch(), c.Closes())
	}
	return nil
}

// A branchView is the branches of one state.
type branchView struct {
	names []string
	first []hg.Rev // by branch index: its first changeset, seen or not
	of    []branchID
	ids   map[string]uint32 // not written once a state has it
	heads [][]hg.Rev        // visible heads by branch index, ascending; nil: none
}

// view returns the branches of st, whose changesets the table knows.
func (t *branchTable) view(st, old *state) branchView {
	v := branchView{
		names: t.names[:len(t.names):len(t.names)], first: t.first[:len(t.first):len(t.first)],
		of:    t.of[:st.changelog.Len():st.changelog.Len()],
		heads: make([][]hg.Rev, len(t.names)),
	}
	if st.continues(old) {
		copy(v.heads, old.branches.heads)
		v.ids = old.branches.ids
	}
	if len(v.ids) != len(t.ids) {
		v.ids = maps.Clone(t.ids)
	}
	v.updateHeads(st, old)
	return v
}

// updateHeads makes the heads of all branches those of st. Obsolete changesets,
// visible because of what stands on them, are no heads.
func (v *branchView) updateHeads(st, old *state) {
	come, gone := st.changes(old, (*state).shows)
	topo := make(map[hg.Rev]struct{}, len(st.heads))
	for _, h := range st.heads {
		topo[h] = struct{}{}
	}
	byBranch := make(map[int]*[2][]hg.Rev) // those that come and go
	for i, revs := range [][]hg.Rev{come, gone} {
		for _, r := range revs {
			b := v.of[r].index()
			if byBranch[b] == nil {
				byBranch[b] = new([2][]hg.Rev)
			}
			byBranch[b][i] = append(byBranch[b][i], r)
		}
	}
	for b, changed := range byBranch {
		v.heads[b] = BranchHeadsAfter(st.changelog, v.heads[b], BranchChange{
			Come: changed[0], Gone: changed[1], First: v.first[b],
			Counts: func(r hg.Rev) bool { return v.of[r].index() == b && st.shows(r) },
		}, topo)
	}
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
