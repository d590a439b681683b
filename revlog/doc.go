// Package revlog reads and plans Mercurial's revision logs: the changelog, the
// manifest log and the log of every file. A log is an index of 64-byte entries
// (.i) and the revisions' chunks, which stand between the entries (inline) or
// in a file of their own (.d). The layout is in format.go and, with pictures,
// in doc/format/revlog.md; the source is hg help internals.revlogs.
//
// A Log hands out Snapshots. A Snapshot is immutable: it has a fixed number of
// revisions, takes no lock, and may be used by several goroutines until it is
// closed. Extend publishes a longer snapshot; it neither waits for readers nor
// moves what they read. Extend and Close of a Log may run beside everything
// else.
//
// Two kinds of log are cheap in different ways. A mapped log (changelog,
// manifest) maps its index with address space to spare, and builds its table
// of nodes when it is opened. Any other log (a file's) is read into memory:
// opening it costs one open, one stat and one read, and its table of nodes is
// made when it is first wanted, if it is long enough to deserve one.
//
// # Faults
//
// When somebody else truncates a mapped index (a local hg strip does), touching
// the lost pages faults. Methods that return an error turn the fault into one.
// Those that return none (Node, Rev, Parents, ...) do not guard every call:
// goroutines that walk a mapped index run under vfs.Guard.
package revlog
