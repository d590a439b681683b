// Package journal keeps the commit records of one repository and the segments
// that hold their larger bytes: immutable files in one directory, described in
// doc/format/record.md and doc/format/segment.md.
//
// A record says everything that a batch of pushes did, down to the bytes at
// absolute offsets of the store's files. Put makes a record durable; which
// record is the next one is decided elsewhere, by a compare-and-swap of the
// tip. Apply repeats a record's writes in a store, any number of times with
// the same result, and in the order of the records: that is redo, and there is
// no undo.
//
// A Journal may be used by several goroutines and several processes, also on
// several machines, at once. Apply must run alone for one store: its caller
// holds Mercurial's store lock.
package journal
