package store

import (
	"slices"
	"sync/atomic"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
)

// A state is a repository at one seq. It is immutable but for its count of
// references; its snapshots are closed with the last one.
type state struct {
	id       uint64 // among all states of the process
	seq      uint64
	epoch    uint64      // of the filelog cache's keys
	rewrites uint64      // epoch since which logs were only appended to
	print    fingerprint // of the files it was read from

	changelog, manifest *revlog.Snapshot
	tip                 hg.Node // last of the changelog, as it was

	phases    *PhaseMap
	bookmarks map[string]hg.Node
	obs       *ObsStore
	filtered  *dag.Set // revs not shown to clients; nil if none
	hidden    *dag.Set // those that hg shows nobody; nil if none
	obsolete  *dag.Set // obsolete revs, shown or not; nil if none
	heads     []hg.Rev // visible heads, ascending
	allHeads  []hg.Rev // and with the hidden ones
	branches  branchView
	tags      tagCache

	// others are the same as other Sights show it; of is what this one is one
	// of the others of, nil for Served.
	others [sights]sighted
	of     *state

	// refs counts the Views, those of others too, plus one while the state is
	// current. A state whose count fell to zero is never used again.
	refs atomic.Int64
}

// states counts the states made.
var states atomic.Uint64

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

// retain adds a reference to a state that has one.
func (s *state) retain() {
	if s.of != nil {
		s = s.of
	}
	s.refs.Add(1)
}

func (s *state) release() {
	if s.of != nil {
		s = s.of
	}
	if s.refs.Add(-1) == 0 {
		s.changelog.Close()
		s.manifest.Close()
	}
}

func (s *state) visible(r hg.Rev) bool { return !s.filtered.Has(r) }

// shows tells whether a changeset counts where heads of branches are looked
// for.
func (s *state) shows(r hg.Rev) bool { return !s.filtered.Has(r) && !s.obsolete.Has(r) }

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
		id: states.Add(1), seq: seq, epoch: r.epoch, rewrites: r.rewrites, print: print,
		changelog: r.changelog.Snapshot(), manifest: r.manifest.Snapshot(),
	}
	st.refs.Store(1)
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
	if st.hidden, st.obsolete, err = r.readHidden(st); err != nil {
		return err
	}
	st.filtered = Served.Filter(st.changelog.Len(), st.phases, st.hidden)
	if err := r.extendBranches(st.changelog); err != nil {
		return err
	}
	st.findHeads(old)
	st.branches = r.branches.view(st, old)
	return nil
}

// continues tells whether st only adds changesets to old.
func (s *state) continues(old *state) bool {
	return old != nil && old.rewrites == s.rewrites && old.changelog.Len() <= s.changelog.Len()
}

// findHeads sets the heads, from those of old if s continues it.
func (s *state) findHeads(old *state) {
	known := s.continues(old)
	if known {
		come, _ := s.changes(old, func(*state, hg.Rev) bool { return true })
		s.allHeads = HeadsAfter(s.changelog, old.allHeads, come, nil, nil)
	} else {
		s.allHeads = dag.Heads(s.changelog, nil)
	}
	switch {
	case s.filtered.Len() == 0:
		s.heads = s.allHeads
	case known:
		come, gone := s.changes(old, (*state).visible)
		s.heads = HeadsAfter(s.changelog, old.heads, come, gone, s.visible)
	default:
		s.heads = dag.Heads(s.changelog, s.visible)
	}
}

// changes returns the changesets for which is holds now and did not in old,
// and those the other way round, ascending. What is says may depend on what is
// filtered and what is obsolete, and nothing else.
func (s *state) changes(old *state, is func(*state, hg.Rev) bool) (come, gone []hg.Rev) {
	first := hg.Rev(0)
	if s.continues(old) {
		first = hg.Rev(old.changelog.Len())
		for _, r := range UnionOf(old.filtered, old.obsolete, s.filtered, s.obsolete) {
			switch was := r < first && is(old, r); {
			case r >= first:
			case was && !is(s, r):
				gone = append(gone, r)
			case !was && is(s, r):
				come = append(come, r)
			}
		}
	}
	for r := first; int(r) < s.changelog.Len(); r++ {
		if is(s, r) {
			come = append(come, r)
		}
	}
	return come, gone
}

// UnionOf returns the members of all sets, which may be nil, ascending.
func UnionOf(sets ...*dag.Set) []hg.Rev {
	var all []hg.Rev
	for i, s := range sets {
		if s != nil && !slices.Contains(sets[:i], s) {
			all = append(all, s.Revs()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
