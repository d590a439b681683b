// Package auth tells who sent a request: by a name and a password, a token, a
// certificate of the client, or a header of a proxy that has asked already.
// What that person may do is decided elsewhere; only a token brings limits of
// its own along.
//
// Files of passwords, tokens and certificates count as they are at the moment
// of a request. One that can't be read lets nobody in.
//
// All types may be used by several goroutines at once.
package auth
