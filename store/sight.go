package store

import (
	"slices"
	"sync"

	"vcsd/dag"
	"vcsd/hg"
)

// A Sight is how much of a repository clients see: one of hg's views (hg help
// config.server). What a Sight shows has all its ancestors with it.
type Sight uint8

// The views of hg.
const (
	Served       Sight = iota // not what is hidden, nor what is secret
	ServedHidden              // not what is secret
	Visible                   // not what is hidden
	Immutable                 // what is public
	Base                      // what comes before the first changeset that is not public
	sights
)

var sightNames = map[string]Sight{
	"served": Served, "served.hidden": ServedHidden, "visible": Visible, "visible-hidden": Visible,
	"immutable": Immutable, "base": Base,
}

// ParseSight returns the view of hg that has a name.
func ParseSight(name string) (Sight, bool) {
	s, ok := sightNames[name]
	return s, ok
}

// Filter returns the changesets that s doesn't show, of the first n; nil if it
// shows all. hidden are those that hg never shows. It is not changed, but may be
// what is returned.
func (s Sight) Filter(n int, phases Phases, hidden *dag.Set) *dag.Set {
	nonPublic := phases.NonPublic()
	switch s {
	case Visible:
		return hidden
	case Base:
		return before(n, nonPublic)
	case ServedHidden:
		hidden = nil
	}
	unwanted := hg.Secret
	if s == Immutable {
		unwanted = hg.Draft
	}
	filtered := hidden
	for _, r := range nonPublic {
		if phases.Phase(r) < unwanted || filtered.Has(r) {
			continue
		}
		switch {
		case filtered == nil:
			filtered = dag.NewSet(n)
		case filtered == hidden:
			filtered = hidden.Clone()
		}
		filtered.Add(r)
	}
	return filtered
}

// before returns the changesets of the first n from the first one of revs on;
// nil if there are no revs.
func before(n int, revs []hg.Rev) *dag.Set {
	if len(revs) == 0 {
		return nil
	}
	filtered := dag.NewSet(n)
	for r := slices.Min(revs); int(r) < n; r++ {
		filtered.Add(r)
	}
	return filtered
}

// A sighted is a state of another Sight than Served, once somebody asked for
// it.
type sighted struct {
	once  sync.Once
	state *state
}

// As returns another View of the same repository at the same seq, as s shows
// it, which the caller closes. v must be open, and as Served shows it.
func (v *View) As(s Sight) *View {
	if s == Served {
		return v.Again()
	}
	o := &v.state.others[s]
	o.once.Do(func() { o.state = v.state.as(s) })
	o.state.retain()
	return &View{repo: v.repo, state: o.state}
}

// as makes the state that s shows of st. It lives by the references of st.
func (st *state) as(s Sight) *state {
	o := &state{
		of: st, id: states.Add(1), seq: st.seq, epoch: st.epoch, rewrites: st.rewrites, print: st.print,
		changelog: st.changelog, manifest: st.manifest, tip: st.tip,
		phases: st.phases, bookmarks: st.bookmarks, obs: st.obs,
		hidden: st.hidden, obsolete: st.obsolete, allHeads: st.allHeads, branches: st.branches,
	}
	o.filtered = s.Filter(o.changelog.Len(), o.phases, o.hidden)
	o.heads = o.allHeads
	if o.filtered.Len() > 0 {
		o.heads = dag.Heads(o.changelog, o.visible)
	}
	o.branches.heads = make([][]hg.Rev, len(o.branches.names))
	o.branches.updateHeads(o, nil)
	return o
}
