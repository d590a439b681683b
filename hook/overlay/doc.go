// Package overlay shows a repository as it would be after a push, as a
// directory that hg opens, without writing to the repository.
//
// A View is a repository of its own whose store consists of symbolic links to
// the real files, except those that the push would write: these are copies, cut
// to the length they have in the state that the push was decided on. The
// caller makes the writes in them. Nobody but the hook that is run in the View
// learns of it.
//
// A Pool keeps the links of finished Views and the large copies among their
// files for the next one, so that a View costs in proportion to what its push
// writes and to the directories of the store, not to its files. Why it is built
// like this, and what it costs, is told in doc/design/pending-view.md.
//
// A Pool may be used by several goroutines at once, a View by one at a time.
package overlay
