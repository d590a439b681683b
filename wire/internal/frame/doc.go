// Package frame reads length-prefixed pieces of a stream from a stranger: it
// counts the bytes, says in hg's words where a stream went wrong, and never
// allocates for bytes that have not arrived. A Reader belongs to one
// goroutine.
package frame
