package store

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// An ObsStore is the obsolescence markers of a repository, store/obsstore. A
// nil one has none, as the zero value. It may be read by several goroutines at once.
type ObsStore struct {
	version byte
	size    int64 // bytes of the file
	markers []obsmarker.Marker

	// Indexes of markers by node.
	replaced map[hg.Node][]int32 // that obsolete it
	replaces map[hg.Node][]int32 // that have it as a successor
	children map[hg.Node][]int32 // that obsolete a child of it
}

// ParseObsStore reads an obsstore file; an empty one has no markers.
func ParseObsStore(b []byte) (*ObsStore, error) {
	s := &ObsStore{
		version: obsmarker.Version1, size: int64(len(b)),
		replaced: make(map[hg.Node][]int32), replaces: make(map[hg.Node][]int32), children: make(map[hg.Node][]int32),
	}
	if len(b) == 0 {
		return s, nil
	}
	version, markers, err := obsmarker.Decode(b)
	if err != nil {
		return nil, err
	}
	s.version, s.markers = version, markers
	for i := range s.markers {
		s.index(int32(i))
	}
	return s, nil
}

func (s *ObsStore) index(i int32) {
	m := &s.markers[i]
	if m.Long != nil {
		return // names no changeset of this repository
	}
	s.replaced[m.Prec] = append(s.replaced[m.Prec], i)
	for _, n := range m.Succs {
		s.replaces[n] = append(s.replaces[n], i)
	}
	for _, n := range m.Parents {
		s.children[n] = append(s.children[n], i)
	}
}

// Len returns the number of markers.
func (s *ObsStore) Len() int {
	if s == nil {
		return 0
	}
	return len(s.markers)
}

// Markers returns all markers, in the file's order. The slice is read-only.
func (s *ObsStore) Markers() []obsmarker.Marker {
	if s == nil {
		return nil
	}
	return s.markers
}

// Replaced reports whether there is a marker that obsoletes a changeset.
func (s *ObsStore) Replaced(n hg.Node) bool { return s != nil && len(s.replaced[n]) > 0 }

// Fresh returns those of markers that the store does not have, each once.
func (s *ObsStore) Fresh(markers []obsmarker.Marker) []obsmarker.Marker {
	seen := make(map[string]struct{})
	for i := range markers {
		// Only markers of the same changeset can be equal.
		for _, j := range s.sameChangeset(&markers[i]) {
			seen[s.markers[j].Key()] = struct{}{}
		}
	}
	var fresh []obsmarker.Marker
	for i := range markers {
		k := markers[i].Key()
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			fresh = append(fresh, markers[i])
		}
	}
	return fresh
}

// sameChangeset returns the markers that obsolete what m does; all of those
// with long nodes, which are in no index, if m has such.
func (s *ObsStore) sameChangeset(m *obsmarker.Marker) []int32 {
	if s == nil {
		return nil
	}
	if m.Long == nil {
		return s.replaced[m.Prec]
	}
	var long []int32
	for i := range s.markers {
		if s.markers[i].Long != nil {
			long = append(long, int32(i))
		}
	}
	return long
}

// AppendForm returns the bytes that add markers to the file, and the offset to
// write them at: its end.
func (s *ObsStore) AppendForm(markers []obsmarker.Marker) (data []byte, off int64, err error) {
	version := byte(obsmarker.Version1)
	if s != nil && s.size > 0 {
		version, off = s.version, s.size
	}
	if off == 0 {
		data = append(data, version)
	}
	put := obsmarker.AppendV1
	if version == obsmarker.Version0 {
		put = obsmarker.AppendV0
	}
	for i := range markers {
		if data, err = put(data, &markers[i]); err != nil {
			return nil, 0, err
		}
	}
	return data, off, nil
}

// Relevant returns the markers that a repository needs which has these
// changesets, in the file's order: those that lead to them, from all sides,
// and those of changesets that were pruned above or among them.
func (s *ObsStore) Relevant(nodes []hg.Node) []obsmarker.Marker {
	if s.Len() == 0 {
		return nil
	}
	seen := make(map[hg.Node]struct{}, len(nodes))
	taken := make(map[int32]struct{})
	var pending []hg.Node
	visit := func(n hg.Node) {
		if _, ok := seen[n]; !ok {
			seen[n] = struct{}{}
			pending = append(pending, n)
		}
	}
	for _, n := range nodes {
		visit(n)
	}
	take := func(i int32) {
		if _, ok := taken[i]; !ok {
			taken[i] = struct{}{}
			visit(s.markers[i].Prec)
		}
	}
	for len(pending) > 0 {
		n := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		s.direct(n, take)
	}
	relevant := make([]obsmarker.Marker, 0, len(taken))
	for i := range s.markers {
		if _, ok := taken[int32(i)]; ok {
			relevant = append(relevant, s.markers[i])
		}
	}
	return relevant
}

// direct hands to take the markers that concern whoever has n: that n replaces
// something, that n or a child of it was pruned.
func (s *ObsStore) direct(n hg.Node, take func(int32)) {
	for _, i := range s.replaces[n] {
		take(i)
	}
	for _, i := range slices.Concat(s.children[n], s.replaced[n]) {
		if len(s.markers[i].Succs) == 0 {
			take(i)
		}
	}
}

// ObsoleteRevs returns the changesets that are obsolete: replaced, and not
// public.
func ObsoleteRevs(g RevGraph, phases *PhaseMap, obs *ObsStore) *dag.Set {
	set := new(dag.Set)
	if obs.Len() == 0 {
		return set
	}
	for _, r := range phases.NonPublic() {
		if obs.Replaced(g.Node(r)) {
			set.Add(r)
		}
	}
	return set
}

// HiddenRevs returns the changesets that hg does not show: those obsolete, and
// those in a phase that is never shown, without the pinned ones and without
// ancestors of what is shown. Pinned are the parents of the working copy, and
// what bookmarks and local tags point to.
func HiddenRevs(g dag.Graph, phases *PhaseMap, obsolete *dag.Set, pinned []hg.Rev) *dag.Set {
	hidden := obsolete.Clone()
	nonPublic := phases.NonPublic()
	for _, r := range nonPublic {
		if phases.Phase(r) >= hg.Archived {
			hidden.Add(r)
		}
	}
	for _, r := range pinned {
		hidden.Remove(r)
	}
	if hidden.Len() == 0 {
		return hidden
	}
	// Parents come before children, so one pass from the end reveals chains.
	for _, r := range slices.Backward(nonPublic) {
		if !hidden.Has(r) {
			p1, p2 := g.Parents(r)
			hidden.Remove(p1)
			hidden.Remove(p2)
		}
	}
	return hidden
}
