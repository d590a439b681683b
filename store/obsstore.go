package store

import (
	"fmt"
	"slices"
	"sync"

	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// An ObsStore is the obsolescence markers of a repository, store/obsstore, as
// they were at one time. It is immutable; a nil one has none, as the zero value.
type ObsStore struct {
	version byte
	size    int64  // bytes of the file that the markers take
	torn    bool   // the file goes on with a part of one
	tail    []byte // the last ones, at most tailBytes
	markers []obsmarker.Marker
	table   *obsTable // shared with what continues this store

	below *ObsStore // markers that come before these; nil if there are none
}

// tailBytes is by how many bytes at its end a file is known again.
const tailBytes = 256

// An obsTable finds markers by node. It only grows: a store looks past those
// that are not its own yet.
type obsTable struct {
	mu sync.RWMutex // guards all below; what slices hold doesn't change

	// Indexes of markers by node.
	replaced map[hg.Node][]int32 // that obsolete it
	replaces map[hg.Node][]int32 // that have it as a successor
	children map[hg.Node][]int32 // that obsolete a child of it

	twice bool // something was obsoleted twice
}

func newObsTable() *obsTable {
	return &obsTable{
		replaced: make(map[hg.Node][]int32), replaces: make(map[hg.Node][]int32), children: make(map[hg.Node][]int32),
	}
}

// ParseObsStore reads an obsstore file; an empty one has no markers. A marker
// at its end that isn't whole is not there yet: somebody writes it.
func ParseObsStore(b []byte) (*ObsStore, error) {
	if len(b) == 0 {
		return &ObsStore{version: obsmarker.Version1, table: newObsTable()}, nil
	}
	whole := 1 + obsmarker.Whole(b[0], b[1:])
	version, markers, err := obsmarker.Decode(b[:whole])
	if err != nil {
		return nil, err
	}
	s := &ObsStore{version: version, markers: markers, table: newObsTable()}
	s.table.add(markers, 0)
	s.end(b[:whole])
	s.torn = whole < len(b)
	return s, nil
}

// end notes the bytes that follow those that the store was made of.
func (s *ObsStore) end(b []byte) {
	s.size += int64(len(b))
	all := slices.Concat(s.tail, b[max(0, len(b)-tailBytes):])
	s.tail = all[max(0, len(all)-tailBytes):]
}

// continued returns the store of a file that goes on with the bytes of more
// where that of s ended. Only one store may continue another.
func (s *ObsStore) continued(more []byte) (*ObsStore, error) {
	next := *s
	whole := obsmarker.Whole(s.version, more)
	next.torn = whole < len(more)
	more = more[:whole]
	for m, err := range obsmarker.All(s.version, more, s.size) {
		if err != nil {
			return nil, err
		}
		next.markers = append(next.markers, m)
	}
	s.table.add(next.markers[len(s.markers):], len(s.markers))
	next.end(more)
	return &next, nil
}

func (s *ObsStore) tornError() error {
	return &CorruptError{ObsStorePath, fmt.Errorf("it ends in the middle of a marker, at byte %d", s.size)}
}

// With returns a store that has these markers besides those of s, which does
// not have them.
func (s *ObsStore) With(markers []obsmarker.Marker) *ObsStore {
	if len(markers) == 0 {
		return s
	}
	below := s
	switch {
	case s == nil:
		below = new(ObsStore)
	case s.below != nil:
		below, markers = s.below, slices.Concat(s.markers, markers)
	}
	top := &ObsStore{markers: markers, table: newObsTable(), below: below}
	top.table.add(markers, 0)
	return top
}

// add makes the table find markers, the first of which has an index.
func (t *obsTable) add(markers []obsmarker.Marker, first int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range markers {
		m, at := &markers[i], int32(first+i)
		if m.Long != nil {
			continue // names no changeset of this repository
		}
		t.replaced[m.Prec] = append(t.replaced[m.Prec], at)
		t.twice = t.twice || len(t.replaced[m.Prec]) > 1
		for _, n := range m.Succs {
			t.replaces[n] = append(t.replaces[n], at)
		}
		for _, n := range m.Parents {
			t.children[n] = append(t.children[n], at)
		}
	}
}

// Len returns the number of markers.
func (s *ObsStore) Len() int {
	if s == nil {
		return 0
	}
	return s.below.Len() + len(s.markers)
}

// Markers returns all markers, in the file's order. The slice is read-only.
func (s *ObsStore) Markers() []obsmarker.Marker {
	switch {
	case s == nil:
		return nil
	case s.below == nil:
		return s.markers
	}
	return slices.Concat(s.below.Markers(), s.markers)
}

// Replaced reports whether there is a marker that obsoletes a changeset.
func (s *ObsStore) Replaced(n hg.Node) bool {
	for ; s != nil && s.table != nil; s = s.below {
		s.table.mu.RLock()
		indexes := s.table.replaced[n]
		s.table.mu.RUnlock()
		// They ascend.
		if len(indexes) > 0 && int(indexes[0]) < len(s.markers) {
			return true
		}
	}
	return false
}

// Replacing returns the markers that obsolete a changeset. They are read-only.
func (s *ObsStore) Replacing(n hg.Node) []*obsmarker.Marker {
	return s.find(n, func(t *obsTable) []int32 { return t.replaced[n] })
}

// Preceding returns the markers that have a changeset as a successor. They are
// read-only.
func (s *ObsStore) Preceding(n hg.Node) []*obsmarker.Marker {
	return s.find(n, func(t *obsTable) []int32 { return t.replaces[n] })
}

// OfChildren returns the markers that obsolete children of a changeset, as far
// as they record parents. They are read-only.
func (s *ObsStore) OfChildren(n hg.Node) []*obsmarker.Marker {
	return s.find(n, func(t *obsTable) []int32 { return t.children[n] })
}

func (s *ObsStore) find(n hg.Node, list func(*obsTable) []int32) []*obsmarker.Marker {
	if s == nil || s.table == nil {
		return nil
	}
	found := s.below.find(n, list)
	s.table.mu.RLock()
	indexes := list(s.table)
	s.table.mu.RUnlock()
	for _, i := range indexes {
		if int(i) < len(s.markers) {
			found = append(found, &s.markers[i])
		}
	}
	return found
}

// Fresh returns those of markers that the store does not have, each once.
func (s *ObsStore) Fresh(markers []obsmarker.Marker) []obsmarker.Marker {
	seen := make(map[string]struct{})
	for i := range markers {
		// Only markers of the same changeset can be equal.
		for _, m := range s.sameChangeset(&markers[i]) {
			seen[m.Key()] = struct{}{}
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
func (s *ObsStore) sameChangeset(m *obsmarker.Marker) []*obsmarker.Marker {
	if m.Long == nil {
		return s.Replacing(m.Prec)
	}
	var long []*obsmarker.Marker
	all := s.Markers()
	for i := range all {
		if all[i].Long != nil {
			long = append(long, &all[i])
		}
	}
	return long
}

// AppendForm returns the bytes that add markers to the file, and the offset to
// write them at: its end.
func (s *ObsStore) AppendForm(markers []obsmarker.Marker) (data []byte, off int64, err error) {
	version := byte(obsmarker.Version1)
	switch {
	case s != nil && s.below != nil:
		return nil, 0, fmt.Errorf("these markers are in no file yet")
	case s != nil && s.torn:
		return nil, 0, s.tornError()
	case s != nil && s.size > 0:
		version, off = s.version, s.size
	}
	if off == 0 {
		data = append(data, version)
	}
	for i := range markers {
		if data, err = obsmarker.Append(data, version, &markers[i]); err != nil {
			return nil, 0, err
		}
	}
	return data, off, nil
}

// Torn reports whether the file that was parsed goes on with a part of a
// marker.
func (s *ObsStore) Torn() bool { return s != nil && s.torn }
