// Package broken proves that the proofs can fail: it builds vcsd with a fault on
// purpose, by a build tag, and wants the proof that is there for it to notice.
package broken
