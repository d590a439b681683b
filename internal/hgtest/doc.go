// Package hgtest runs the real Mercurial, vcsd and stock hg serve as processes
// for tests, and talks to servers over raw HTTP. It knows the formats it needs
// (bundle2 envelopes, the HTTP protocol) by itself, so that a mistake in vcsd's
// own codecs does not hide itself. It imports nothing of vcsd but the
// vocabulary, and only tests and measurements import it.
//
// Values made for one test may be used by several goroutines of it unless their
// comment says otherwise. A missing hg fails tests; it never skips them.
package hgtest
