// Package ingest is the push pipeline: it receives a bundle into quarantine,
// decodes and verifies it there, decides under branch leases and in one
// transaction whether it may be published, and links what was published into
// the store by commit records that only ever need to be done again.
//
// A Pipeline serves one repository. Its methods may be called by many
// goroutines at once; everything up to the sequencer runs concurrently and
// holds no lock of the repository.
package ingest
