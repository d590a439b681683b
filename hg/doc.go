// Package hg is the vocabulary that all of vcsd shares: nodes, revision
// numbers, phases, and the errors that have an answer on the wire. It holds no
// behaviour of its own, and imports nothing of vcsd.
package hg
