// Package delta makes, checks, applies and folds binary deltas.
//
// A delta turns one text into another. It is a dense sequence of fragments;
// each replaces a range of the base text by new bytes. The format is that of
// changegroups (hg help internals.changegroups, "Delta Groups") and of the
// chunks of a revlog.
//
// Deltas come from clients and disks: nothing here panics on one or allocates
// more for it than the limit that the caller sets. All functions may run
// concurrently.
package delta
