//go:build race

package ingest

// crashStride passes over operations where the race detector makes each push
// ten times as slow; without it, every one is tried.
const crashStride = 11
