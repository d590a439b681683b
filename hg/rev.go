package hg

// A Rev is a revision's index in one revlog of one repository. It means
// nothing elsewhere: send Nodes, never Revs.
type Rev int32

// NullRev is the Rev of NullNode.
const NullRev Rev = -1

// RevFlags are the 16 storage flags of a revision: in an index entry and in
// changegroup version 03 (hg help internals.revlogs, internals.changegroups).
type RevFlags uint16

const (
	// FlagCensored marks a file revision whose text was replaced by a
	// tombstone: its hash does not match.
	FlagCensored RevFlags = 1 << 15
	// FlagEllipsis marks a revision of a narrow clone. vcsd refuses it.
	FlagEllipsis RevFlags = 1 << 14
	// FlagExtStored marks a text that points to content stored elsewhere (LFS).
	// Its hash is that of the content, so vcsd passes it on unverified.
	FlagExtStored RevFlags = 1 << 13
	// FlagHasCopies marks changes that could affect copy tracing.
	FlagHasCopies RevFlags = 1 << 12

	// FlagsKnown are the flags that a stock 6.3 server accepts.
	FlagsKnown = FlagCensored | FlagEllipsis | FlagExtStored | FlagHasCopies
)
