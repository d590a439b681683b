// Package hook runs the hooks that an administrator configured in the [hooks]
// section of an hgrc (hg help config.hooks), as hg does: which of them, in
// which order, with which environment, and what their exit status means.
//
// A Runner is immutable; it may be used by several goroutines at once. How many
// hooks run at the same time is bounded by the Limit that Runners share, and
// each hook by a time limit. Hooks in Python, which hg runs within its own
// process, can't be run; Check tells so, and a veto hook among them vetoes
// whenever its point is reached.
//
// What hg passes to each hook was recorded from stock hg serve; the recordings
// and the script that made them are in testdata.
package hook
