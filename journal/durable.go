//go:build !broken_nosync

package journal

// durable makes a file of the journal's bytes durable.
func durable(f interface{ Sync() error }) error { return f.Sync() }
