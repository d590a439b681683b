// Package verify tells whether a repository on disk is sound: that its logs
// decode, that changesets, manifests and file revisions lead to one another, that
// the lists and small files beside them fit, and that the journal's records are
// linked and are what the store holds.
//
// It may run beside servers that take pushes, and takes no lock. What it looks
// at is the repository as of one changelog: small files are read before that,
// everything that it leads to after it, and whoever writes goes the other way
// round. What later pushes add is left out. Where a file is caught in the middle
// of a write it is looked at again once nobody holds the store's lock.
//
// Memory goes to the indexes of changelog and manifest, the names of all files,
// and up to Options.MaxNames names of file revisions; with more of those the
// manifests are walked more than once.
package verify
