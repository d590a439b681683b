// Package compression holds the engines in which bundles and answers travel:
// none, zlib, zstd and bzip2, under the names that bundle headers and the HTTP
// protocol give them. Decoders have a bounded window and a bounded output;
// encoders and decoders are reused through pools. All functions may be called
// concurrently; a reader or writer belongs to one goroutine.
//
// Source: hg help internals.bundles, internals.bundle2 (Compression) and
// internals.wireprotocol (compression engines).
package compression
