package revlog

import (
	"slices"

	"vcsd/hg"
)

// In a sparse log a chain is one full snapshot, some intermediate ones that
// are deltas against the one before, and deltas proper. Snapshots are shared:
// a branch that needs a new chain starts it as high up as it can.

const (
	// maxSiblings bounds how many snapshots of one kind are tried: the youngest
	// are the likeliest to be close.
	maxSiblings = 8

	// A delta shorter than 1/shortDelta of the text ends a search.
	shortDelta = 8

	// maxIndexed bounds how far back snapshots are looked for, in revisions.
	maxIndexed = 1 << 20
)

// isSnapshot tells whether rev is a full text, or a delta against a snapshot
// that is not its parent.
func (st *Stager) isSnapshot(rev hg.Rev) bool {
	for {
		base := st.base(rev)
		if base == rev || base == hg.NullRev {
			return true
		}
		p1, p2 := st.parents(rev)
		if base == p1 || base == p2 || base == st.skipEmpty(p1) || base == st.skipEmpty(p2) {
			return false
		}
		rev = base
	}
}

// A snapshotIndex finds the snapshots that are against a given one. It is made
// when it is first wanted: most pushes never do.
type snapshotIndex struct {
	made  bool
	floor hg.Rev // nothing below it is listed
	// on lists snapshots by base, ascending; full ones under NullRev.
	on map[hg.Rev][]hg.Rev
}

// add lists rev, which was just staged.
func (x *snapshotIndex) add(st *Stager, rev hg.Rev) {
	if x.made {
		x.list(st, rev)
	}
}

func (x *snapshotIndex) list(st *Stager, rev hg.Rev) {
	if !st.isSnapshot(rev) {
		return
	}
	base := st.base(rev)
	if base == rev {
		base = hg.NullRev
	}
	x.on[base] = append(x.on[base], rev)
}

// reach makes the index go down to floor.
func (x *snapshotIndex) reach(st *Stager, floor hg.Rev) {
	floor = max(floor, st.next()-maxIndexed, 0)
	if x.made && floor >= x.floor {
		return
	}
	x.made, x.floor = true, floor
	x.on = make(map[hg.Rev][]hg.Rev)
	for rev := floor; rev < st.next(); rev++ {
		x.list(st, rev)
	}
}

// levels lists snapshots by their depth.
type levels [][]hg.Rev

func (l *levels) add(depth int, rev hg.Rev) {
	for len(*l) <= depth {
		*l = append(*l, nil)
	}
	if !slices.Contains((*l)[depth], rev) {
		(*l)[depth] = append((*l)[depth], rev)
	}
}

// snapshotsBelow returns the snapshots that the chain of rev begins with, the
// full one first.
func (st *Stager) snapshotsBelow(rev hg.Rev) []hg.Rev {
	var snaps []hg.Rev
	for {
		if len(snaps) > 0 || st.isSnapshot(rev) {
			snaps = append(snaps, rev)
		}
		base := st.base(rev)
		if base == rev || base == hg.NullRev {
			break
		}
		rev = base
	}
	slices.Reverse(snaps)
	return snaps
}

// trySnapshots tries the snapshots in the chains of the parents and their
// siblings, the deepest first: those are the closest.
func (s *search) trySnapshots() error {
	st := s.st
	found := s.parentSnapshots()
	if len(found) == 0 {
		return nil
	}
	floor := slices.Min(found[0]) + 1
	st.snapshots.reach(st, floor)
	s.addUnrelated(&found, floor)
	above := hg.NullRev
	for depth := len(found) - 1; depth >= 0; depth-- {
		var siblings []hg.Rev
		for _, snap := range found[depth] {
			siblings = append(siblings, st.snapshots.on[snap]...)
		}
		// An ancestor passed over the older ones already.
		siblings = slices.DeleteFunc(siblings, func(r hg.Rev) bool { return r <= above })
		for _, group := range [][]hg.Rev{youngest(siblings), youngest(found[depth])} {
			if err := s.tryAll(group...); err != nil {
				return err
			}
			if s.short() {
				return s.refine()
			}
		}
		above = slices.Min(found[depth])
	}
	if err := s.tryAll(youngest(st.snapshots.on[hg.NullRev])...); err != nil || !s.found {
		return err
	}
	return s.refine()
}

// short tells whether the best delta so far is so short that a search for a
// better one does not pay.
func (s *search) short() bool {
	return s.found && int64(len(s.best.chunk)) <= s.len/shortDelta
}

// youngest returns the last of revs, in order.
func youngest(revs []hg.Rev) []hg.Rev {
	revs = slices.Clone(revs)
	slices.Sort(revs)
	return revs[max(0, len(revs)-maxSiblings):]
}

func (s *search) parentSnapshots() levels {
	var found levels
	for _, p := range []hg.Rev{s.r.p1, s.r.p2} {
		if p == hg.NullRev {
			continue
		}
		for depth, snap := range s.st.snapshotsBelow(p) {
			found.add(depth, snap)
		}
	}
	return found
}

// addUnrelated adds the snapshots of the youngest revision, if it has a chain
// of its own: what somebody else is building may serve here too.
func (s *search) addUnrelated(found *levels, floor hg.Rev) {
	for depth, snap := range s.st.snapshotsBelow(s.st.next() - 1) {
		if depth < len(*found) && snap >= floor {
			found.add(depth, snap)
		}
	}
}

// refine looks for a shorter delta among the neighbours of the snapshot found:
// what it is against, and what is against it.
func (s *search) refine() error {
	st := s.st
	for base := s.best.base; st.isSnapshot(base); {
		down := st.base(base)
		if down == base || down == hg.NullRev {
			break
		}
		if err := s.try(down); err != nil {
			return err
		}
		if s.best.base == base {
			break
		}
		base = s.best.base
	}
	for {
		base := s.best.base
		if err := s.tryAll(youngest(st.snapshots.on[base])...); err != nil || s.best.base == base {
			return err
		}
	}
}
