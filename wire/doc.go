// Package wire speaks version 1 of Mercurial's HTTP protocol: it reads a
// command and its arguments from a request, asks a View or a Pusher, and writes
// the answer in the form that the client can read. It knows nothing of how
// repositories are stored or how pushes are published.
//
// The formats are those of hg help internals.wireprotocol; where that is
// silent, the answers are those of hg serve 6.3.
//
// An Endpoint is a value made for one request; everything else here is
// immutable or belongs to the request's goroutine.
package wire
