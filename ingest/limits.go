package ingest

import "time"

// Limits bound what one push may ask for. Zero means the default.
type Limits struct {
	// MaxPushBytes is the size of a bundle as sent, in bytes. 0 means 8 GiB.
	MaxPushBytes int64
	// QuarantineBytes is how much the pushes in flight may take up together,
	// in bytes. 0 means no limit.
	QuarantineBytes int64
	// MaxTextBytes is the size of one revision's full text, in bytes. 0 means
	// 2 GiB - 1, the most that a revlog can hold.
	MaxTextBytes int64
	// MaxChangesets is how many new changesets a push may bring. 0 means
	// 10 million.
	MaxChangesets int
	// MaxOpBytes is how much the checks, phases, bookmarks, keys and markers of a
	// push may take together, in bytes. 0 means 32 MiB.
	MaxOpBytes int64
	// MaxParts is how many parts a push may have. 0 means 65,536.
	MaxParts int
	// LockWait is how long the pushes whose turn it is wait for a local hg that
	// holds the store's lock. 0 means 10 minutes, hg's ui.timeout.
	LockWait time.Duration
	// PublishWait is how long a push waits for its turn: for its leases, for
	// the pushes before it and for the store's lock, and for a coordination
	// service that gives no answer. 0 means 10 minutes.
	PublishWait time.Duration
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.MaxPushBytes, 8<<30)
	setDefault(&l.MaxTextBytes, 1<<31-1)
	setDefault(&l.MaxChangesets, 10_000_000)
	setDefault(&l.MaxOpBytes, 32<<20)
	setDefault(&l.MaxParts, 1<<16)
	setDefault(&l.LockWait, 10*time.Minute)
	setDefault(&l.PublishWait, 10*time.Minute)
	return l
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
