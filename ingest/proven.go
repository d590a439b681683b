//go:build !broken_lease

package ingest

// proven returns what the sequencer decides of a push: all of it. Its checks held
// when it had got its leases, but a lease is a hint (I7).
func proven(s *staged) *staged { return s }
