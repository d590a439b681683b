// Package quarantine receives the payloads of pushes into directories named by
// their BLAKE3 digest, apart from the store, until the pushes are decided.
//
// Equal payloads that are in flight at the same time share a directory and, by
// Do, a result. Nothing here is durable: what a process leaves behind is garbage
// that Sweep removes. Several processes share an area; each has a
// subdirectory of its own, whose lock file it holds as long as it lives:
//
//	quarantine/p-<random>/lock
//	quarantine/p-<random>/<digest>/payload
//	quarantine/p-<random>/<digest>/segment-<number>
//	quarantine/gone-<random>/   one that is being removed
//
// An Area may be used by several goroutines at once, a Dir by one at a time.
package quarantine
