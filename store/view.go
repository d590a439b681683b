package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync/atomic"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/revlog"
)

// A View is a repository at one seq, as one request sees it. It may be used
// by several goroutines until Close. The revs it is given must be below Len.
type View struct {
	repo   *Repo
	state  *state
	closed atomic.Bool
}

// Close lets go of what the View reads. A second Close does nothing.
func (v *View) Close() {
	if !v.closed.Swap(true) {
		v.state.release()
	}
}

// Again returns another View of the same state, which the caller closes. v must
// be open.
func (v *View) Again() *View {
	v.state.retain()
	return &View{repo: v.repo, state: v.state}
}

// State tells what the View shows from what others show of any repository: two
// Views with the same State are equal. 0 is none.
func (v *View) State() uint64 { return v.state.id }

// Repo returns the repository.
func (v *View) Repo() *Repo { return v.repo }

// Seq returns the number of the commit record that the View shows.
func (v *View) Seq() uint64 { return v.state.seq }

// Generation tells two Views apart between which revisions may have changed
// their numbers or gone, as when a local hg stripped some.
func (v *View) Generation() uint64 { return v.state.rewrites }

// Changelog returns the changelog, hidden changesets included. It belongs to
// the View and must not be closed.
func (v *View) Changelog() *revlog.Snapshot { return v.state.changelog }

// Manifest returns the manifest log. It belongs to the View.
func (v *View) Manifest() *revlog.Snapshot { return v.state.manifest }

// Filelog returns the log of a file, by its name in the working copy. A file
// that never was has an empty log. The log may have revisions of later pushes
// at its end. The caller closes the Snapshot.
func (v *View) Filelog(ctx context.Context, file string) (*revlog.Snapshot, error) {
	radix := v.repo.FilelogRadix(file)
	key := FilelogKey{Repo: v.repo.opts.Key, Epoch: v.state.epoch, Radix: radix}
	log, err := v.repo.opts.Filelogs.Get(ctx, key, v.state.seq, func(context.Context) (*revlog.Log, int64, error) {
		log, err := v.repo.OpenFilelog(file)
		if err != nil {
			return nil, 0, err
		}
		return log, filelogCost(log), nil
	})
	if err != nil {
		return nil, err
	}
	return log.Snapshot(), nil
}

const (
	// filelogOverheadBytes is what an open log takes up beside its index.
	filelogOverheadBytes = 512
	// descriptorBytes is what the open file of a split log counts for: it
	// bounds how many a cache holds open.
	descriptorBytes = 64 << 10
)

func filelogCost(log *revlog.Log) int64 {
	s := log.Snapshot()
	defer s.Close()
	size := s.Size()
	cost := size.IndexBytes + filelogOverheadBytes
	if !size.Inline {
		cost += descriptorBytes
	}
	return cost
}

// Len returns the number of changesets, hidden ones included.
func (v *View) Len() int { return v.state.changelog.Len() }

// Parents returns the parents of a changeset; View is a dag.Graph.
func (v *View) Parents(r hg.Rev) (p1, p2 hg.Rev) { return v.state.changelog.Parents(r) }

// Visible tells whether clients may see a changeset.
func (v *View) Visible(r hg.Rev) bool { return v.state.visible(r) }

// AllVisible tells whether no changeset is hidden.
func (v *View) AllVisible() bool { return v.state.filtered.Len() == 0 }

// Filtered returns the changesets that clients may not see. The set is
// read-only; it may be nil.
func (v *View) Filtered() *dag.Set { return v.state.filtered }

// ObsoleteRevs returns the changesets that are obsolete, visible or not. The
// set is read-only; it may be nil.
func (v *View) ObsoleteRevs() *dag.Set { return v.state.obsolete }

// Rev returns the rev of a changeset that clients may see.
func (v *View) Rev(n hg.Node) (hg.Rev, bool) {
	r, ok := v.state.changelog.Rev(n)
	return r, ok && (r == hg.NullRev || v.state.visible(r))
}

// Phase returns the phase of a changeset.
func (v *View) Phase(r hg.Rev) hg.Phase { return v.state.phases.Phase(r) }

// NonPublic returns the changesets that are not public, hidden ones included,
// ascending. The slice is the caller's.
func (v *View) NonPublic() []hg.Rev { return v.state.phases.NonPublic() }

// DraftRoots returns the drafts that have no draft below them, ascending.
// The slice is read-only.
func (v *View) DraftRoots() []hg.Rev { return v.state.phases.roots[hg.Draft] }

// PhaseRoots returns the roots of all phases above public, as a phaseroots
// file has them.
func (v *View) PhaseRoots() PhaseRoots { return v.state.phases.Roots() }

// HasSecret tells whether there are changesets that are secret, or more hidden
// than that by their phase.
func (v *View) HasSecret() bool {
	for p, roots := range v.state.phases.Roots() {
		if p >= hg.Secret && len(roots) > 0 {
			return true
		}
	}
	return false
}

// HasMarkers tells whether the repository has obsolescence markers.
func (v *View) HasMarkers() bool { return v.state.obs.Len() > 0 }

// ObsStore returns the obsolescence markers.
func (v *View) ObsStore() *ObsStore { return v.state.obs }

// Obsolete tells whether a changeset is obsolete, visible or not.
func (v *View) Obsolete(r hg.Rev) bool { return v.state.obsolete.Has(r) }

// Pinned returns the changesets of g that stay visible though they are
// obsolete: those that the working directory, local tags and bookmarks name. g
// begins with the changesets of the View.
func (v *View) Pinned(g RevGraph, bookmarks map[string]hg.Node) ([]hg.Rev, error) {
	return v.repo.pinned(g, bookmarks)
}

// MarkerVersion returns the version of the format of the markers.
func (v *View) MarkerVersion() byte { return v.state.obs.version }

// MarkerBytes returns the length of the markers in their file.
func (v *View) MarkerBytes() int64 { return v.state.obs.size }

// WriteMarkers writes the obsolescence markers, as they stand in the file
// ObsStorePath at the View's seq: MarkerBytes bytes.
func (v *View) WriteMarkers(w io.Writer) (err error) {
	f, err := v.repo.fs.Open(ObsStorePath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyN(w, f, v.MarkerBytes()); err != nil {
		return fmt.Errorf("first %d bytes of %s: %w", v.MarkerBytes(), ObsStorePath, err)
	}
	return nil
}

// Bookmark returns where a bookmark stands, and whether there is one. It may
// stand at NullNode.
func (v *View) Bookmark(name string) (n hg.Node, ok bool) {
	n, ok = v.state.bookmarks[name]
	return n, ok
}

// Bookmarks returns all bookmarks. The map is the caller's.
func (v *View) Bookmarks() map[string]hg.Node { return maps.Clone(v.state.bookmarks) }

// HeadRevs returns the visible heads, ascending. The slice is read-only.
func (v *View) HeadRevs() []hg.Rev { return v.state.heads }

// AllHeadRevs returns the heads, hidden ones included, ascending. The slice is
// read-only.
func (v *View) AllHeadRevs() []hg.Rev {
	return v.state.allHeads
}

// Heads returns the visible heads, newest first as hg sends them; of an empty
// repository, NullNode. The slice is the caller's.
func (v *View) Heads() []hg.Node {
	if len(v.state.heads) == 0 {
		return []hg.Node{hg.NullNode}
	}
	nodes := make([]hg.Node, len(v.state.heads))
	for i, r := range v.state.heads {
		nodes[len(nodes)-1-i] = v.state.changelog.Node(r)
	}
	return nodes
}

// Tip returns the newest visible changeset, NullRev if there is none.
func (v *View) Tip() hg.Rev {
	if n := len(v.state.heads); n > 0 {
		return v.state.heads[n-1]
	}
	return hg.NullRev
}

// Branch returns the branch of a changeset.
func (v *View) Branch(r hg.Rev) string {
	return v.state.branches.names[v.state.branches.of[r].index()]
}

// Closes tells whether a changeset closes its branch.
func (v *View) Closes(r hg.Rev) bool { return v.state.branches.of[r].closes() }

// BranchHeadRevs returns the visible heads of a branch, ascending. The slice
// is read-only.
func (v *View) BranchHeadRevs(branch string) []hg.Rev { return v.state.branches.branchHeads(branch) }

// BranchStart returns the first changeset of a branch, visible or not.
func (v *View) BranchStart(branch string) (r hg.Rev, ok bool) {
	i, ok := v.state.branches.ids[branch]
	if !ok {
		return 0, false
	}
	return v.state.branches.first[i], true
}

// BranchTip returns the changeset that a branch's name stands for.
func (v *View) BranchTip(branch string) (hg.Rev, bool) { return v.state.branches.tip(branch) }

// EachBranch iterates over the branches that have a visible head, with their
// heads, ascending.
func (v *View) EachBranch() iter.Seq2[string, []hg.Rev] {
	return func(yield func(string, []hg.Rev) bool) {
		for i, heads := range v.state.branches.heads {
			if len(heads) > 0 && !yield(v.state.branches.names[i], heads) {
				return
			}
		}
	}
}
