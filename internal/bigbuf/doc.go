// Package bigbuf says how much memory to make for a long text, a delta or a
// chunk. All functions may be called concurrently.
package bigbuf
