// Package store is one repository on disk: its requirements, the names and
// lists of its files, changesets, manifests and file revisions in their text
// form, phases, bookmarks, obsolescence markers, and the caches that hg keeps
// beside them. Everything is read and written as Mercurial 6.3 does.
//
// A Repo is what a server keeps open; a View is what one request sees of it: the
// state at one seq, which no later push changes. Parsers and encoders take and
// return bytes and touch no file.
//
// Sources: hg help internals.requirements, internals.revlogs, phases and
// bookmarks; for the rest, what hg writes, which the tests compare with.
package store
