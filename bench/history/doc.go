// Package history makes histories to measure with: bundles of synthetic ones,
// the same for the same seed, and further changesets on top of any repository,
// in memory and without hg. It encodes changegroups by itself, so that what is
// measured does not depend on vcsd's own codecs.
//
// Values belong to one goroutine each.
package history
