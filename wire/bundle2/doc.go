// Package bundle2 reads and writes bundle2 streams ("HG20"): parameters of the
// stream, parts with parameters and a payload, interrupts, capabilities; and
// the payloads of the small parts. What the parts do to a repository is for
// others. Readers and Writers belong to one goroutine each.
//
// Source: hg help internals.bundle2; pictures in doc/format/bundle2.md. Where
// that page is silent, what stock hg sends and accepts.
package bundle2
