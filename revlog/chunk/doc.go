// Package chunk encodes and decodes the chunks in which a revlog stores its
// revisions: a full text or a delta, as it is or compressed. The first byte
// tells which (hg help internals.revlogs, "Revision Entries").
//
// Chunks come from disks that may be damaged: nothing here panics on one,
// returns more than the caller's limit, or allocates for more than the chunk
// can hold. All functions may run concurrently.
package chunk
