// Package pattern matches names of files against Mercurial's patterns (hg help
// patterns), as its hooks and filters do: a name that any pattern matches is
// matched.
//
// Names and patterns are bytes to hg, in whatever encoding; so they are here.
// Regular expressions are those of Python's re. Where Go's mean something else
// they are rewritten; look-around, back references and the like, which Go
// doesn't have, are refused.
//
// A Matcher may be used by several goroutines at once.
package pattern
