// Package changegroup reads and writes changegroups, versions 01, 02 and 03:
// the stream of deltas in which revisions of changelog, manifest and files
// travel. It knows the framing and nothing of what the revisions mean.
// Readers and Writers belong to one goroutine each.
//
// Source: hg help internals.changegroups; pictures in
// doc/format/changegroup.md.
package changegroup
