// Package errfs wraps a file system so that a chosen operation fails, or that
// the power goes at it. It is for tests: run the same thing with operation 0,
// 1, 2 … failing, until the fault no longer fires.
package errfs
