package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A state is a repository at one seq. It is immutable but for its count of
// references; its snapshots are closed with the last one.
type state struct {
	seq      uint64
	epoch    uint64      // of the filelog cache's keys
	rewrites uint64      // epoch since which logs were only appended to
	print    fingerprint // of the files it was read from

	changelog, manifest *revlog.Snapshot
	tip                 hg.Node // last of the changelog, as it was

	phases    *PhaseMap
	bookmarks map[string]hg.Node
	obs       *ObsStore
	filtered  *dag.Set // revs not shown to clients: secret or hidden; nil if none
	obsolete  *dag.Set // obsolete revs, shown or not; nil if none
	heads     []hg.Rev // visible heads, ascending
	branches  branchView
	tags      tagCache
	allHeads  func() []hg.Rev // heads with the hidden ones, ascending

	// refs counts the Views, plus one while the state is current. A state
	// whose count fell to zero is never used again.
	refs atomic.Int64
}

func (s *state) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *state) release() {
	if s.refs.Add(-1) == 0 {
		s.changelog.Close()
		s.manifest.Close()
	}
}

func (s *state) visible(r hg.Rev) bool {
	return s.filtered == nil || !s.filtered.Has(r)
}

// loadLocked makes the state of what the logs and the small files hold, and
// publishes it as seq.
func (r *Repo) loadLocked(seq uint64) error {
	// The fingerprint comes first: what changes after it is noticed later.
	print, err := readFingerprint(r.fs, r.reqs)
	if err != nil {
		return err
	}
	for _, l := range []*revlog.Log{r.changelog, r.manifest} {
		if err := l.ExtendToFile(); err != nil {
			return err
		}
	}
	old := r.cur.Load()
	st := &state{
		seq: seq, epoch: r.epoch, rewrites: r.rewrites, print: print,
		changelog: r.changelog.Snapshot(), manifest: r.manifest.Snapshot(),
	}
	st.refs.Store(1)
	st.allHeads = sync.OnceValue(func() []hg.Rev { return dag.Heads(st.changelog, nil) })
	var ferr error
	// A local hg may cut the mapped files while they are walked.
	if err := vfs.Guard(func() { ferr = r.fill(st, old) }); err != nil {
		ferr = err
	}
	if ferr != nil {
		st.release()
		return ferr
	}
	r.cur.Store(st)
	if old != nil {
		old.release()
	}
	return nil
}

// fill computes what a state holds beside its logs, from old where that helps.
func (r *Repo) fill(st, old *state) (err error) {
	st.tip = st.changelog.Node(hg.Rev(st.changelog.Len() - 1))
	if st.bookmarks, err = r.readBookmarks(st.changelog); err != nil {
		return err
	}
	roots, err := r.readPhaseRoots()
	if err != nil {
		return err
	}
	var oldPhases *PhaseMap
	if old != nil && st.rewrites == old.rewrites {
		oldPhases = old.phases
	}
	st.phases = NextPhaseMap(oldPhases, st.changelog, roots)
	if st.filtered, st.obsolete, err = r.readFiltered(st); err != nil {
		return err
	}
	if err := r.extendBranches(st.changelog); err != nil {
		return err
	}
	st.heads = st.headsAfter(old)
	st.branches = r.branches.view(st, old)
	return nil
}

// extends tells whether st only adds changesets to old, with the same ones
// hidden, so that what is known of old still holds.
func (s *state) extends(old *state) bool {
	return old != nil && old.rewrites == s.rewrites && old.filtered == nil && s.filtered == nil &&
		old.obsolete == nil && s.obsolete == nil && old.changelog.Len() <= s.changelog.Len()
}

// headsAfter returns the visible heads.
func (s *state) headsAfter(old *state) []hg.Rev {
	if !s.extends(old) {
		return dag.Heads(s.changelog, s.visible)
	}
	heads := make(map[hg.Rev]struct{}, len(old.heads))
	for _, r := range old.heads {
		heads[r] = struct{}{}
	}
	for r := hg.Rev(old.changelog.Len()); int(r) < s.changelog.Len(); r++ {
		p1, p2 := s.changelog.Parents(r)
		delete(heads, p1)
		delete(heads, p2)
		heads[r] = struct{}{}
	}
	revs := make([]hg.Rev, 0, len(heads))
	for r := range heads {
		revs = append(revs, r)
	}
	slices.Sort(revs)
	return revs
}
