//go:build !race

package ingest

const crashStride = 1
