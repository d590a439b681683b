//go:build broken_lease

package ingest

import "slices"

// proven trusts the leases: checks are not made again. e2e/broken proves that
// this is noticed.
func proven(s *staged) *staged {
	t := *s
	t.ops = slices.DeleteFunc(slices.Clone(s.ops), isCheck)
	return &t
}
