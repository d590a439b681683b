package refs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"vcsd/hg"
)

// A RepoID names a repository to all nodes: the UUID in its .hg/vcsd/id. It is
// not empty and holds no slash and no control character.
type RepoID string

// A Tip is the state of a repository that is published. The zero Tip stands
// for "nothing published yet".
type Tip struct {
	Seq          uint64   // of the commit record; the first is 1
	Digest       [32]byte // BLAKE3 of the commit record
	ChangelogLen int      // revisions in the changelog
	Node         hg.Node  // tip of the changelog
}

// A Store is what the push pipeline needs of this package. Client is the only
// implementation, over etcd or memory; refstest.Run says what it must do.
type Store interface {
	// Tip returns the published tip, or false if the repository has none. It
	// is linearizable: what was published before the call is seen.
	Tip(ctx context.Context, repo RepoID) (Tip, bool, error)
	// Acquire waits for the locks of these branches and takes all of them or
	// none.
	Acquire(ctx context.Context, repo RepoID, branches []string) (*Lease, error)
	// Publish moves the tip; see Publication.
	Publish(ctx context.Context, p Publication) error
	// Outcome returns the value published for key, or false if there is none
	// or it has expired.
	Outcome(ctx context.Context, repo RepoID, key [32]byte) ([]byte, bool, error)
	// WatchTips sends the tip, then each later one; see Client.WatchTips.
	WatchTips(ctx context.Context, repo RepoID) <-chan Tip
	// Delete forgets all that is kept for a repository.
	Delete(ctx context.Context, repo RepoID) error
}

var _ Store = (*Client)(nil)

// A Publication asks to move a repository's tip from Old to New, in one
// transaction: if the tip is Old, each lease is still held and each leased
// branch's head key is as the lease read it, then all is put, and the leases
// are released.
//
// A transaction of etcd is bounded. What doesn't fit follows in further
// transactions before Publish returns: outcomes first, then head keys with
// the locks of their branches. If this process dies between, the tip stands
// and those keys are missing or old: the tip is the truth, head keys are an
// index of it.
type Publication struct {
	Repo     RepoID
	Old, New Tip // Old zero: the repository has no tip yet
	// Leases are released if Publish succeeds, and stay held if it fails for
	// another reason than their own loss or an unknown outcome.
	Leases   []*Lease
	Heads    []HeadChange // at most one for a branch; leased or not
	Outcomes []Outcome    // at most one for a key
}

// A HeadChange sets a branch's head key.
type HeadChange struct {
	Branch string
	Value  []byte // opaque, at most MaxValueBytes; nil removes the key
}

// An Outcome is the answer that a payload got, kept for Options.Retention.
type Outcome struct {
	Key   [32]byte // BLAKE3 of the payload
	Value []byte   // opaque, at most MaxValueBytes
}

// MaxValueBytes bounds a head key's or an outcome's value. A branch with more
// heads than fit is to be published as a digest of them.
const MaxValueBytes = 64 << 10

var (
	// ErrTipMoved means that the tip is not the one a publication is based on.
	// It is wrapped in a *TipMovedError.
	ErrTipMoved = errors.New("tip has moved")

	// ErrLeaseLost means that a branch lease is no longer held: the session
	// expired, or another process has the lock. Lease.Err tells which of the
	// leases of a publication is meant.
	ErrLeaseLost = errors.New("branch lease is lost")

	// ErrReleased means that a lease was used after its release.
	ErrReleased = errors.New("branch lease was released")

	// ErrHeadMoved means that a leased branch's head key was changed by
	// somebody who doesn't hold the lock. The leases are held and their Heads
	// are read anew.
	ErrHeadMoved = errors.New("branch head has moved")

	// ErrUnknownOutcome means that a publication got no answer and that it
	// could not be learnt in time whether it took place. Nothing may be said
	// to the pusher but that; Tip tells once etcd answers again. Its leases
	// are gone.
	ErrUnknownOutcome = errors.New("outcome of a publication is unknown")

	// ErrClosed means that the Client was closed.
	ErrClosed = errors.New("refs: client is closed")
)

// A TipMovedError tells where the tip is. It unwraps to ErrTipMoved.
type TipMovedError struct {
	Tip Tip // zero if the repository has none
}

func (e *TipMovedError) Error() string {
	return fmt.Sprintf("%v, it is at seq %d", ErrTipMoved, e.Tip.Seq)
}

// Unwrap returns ErrTipMoved.
func (e *TipMovedError) Unwrap() error { return ErrTipMoved }

// What Options take for zero.
const (
	DefaultReadTime   = 10 * time.Second
	DefaultSettleTime = 20 * time.Second
)

// Options tune a Client. The zero value is ready for use.
type Options struct {
	// Node names this process in keys, for people. 0 bytes means "node"; at
	// most 64 are kept.
	Node string
	// Prefix is put before all keys. Empty means "vcsd/1/". It ends in a slash.
	Prefix string
	// TTL is how long a session outlives its last heartbeat. 0 means 5 s; at
	// least 1 s, and no less than etcd grants (1.5 election time-outs).
	TTL time.Duration
	// Retention is how long outcomes are kept, at least. 0 means 24 h; at
	// least 1 min.
	Retention time.Duration
	// HandOvers is how often a lock may be handed to the next waiter of this
	// process before other processes get a chance. 0 means 32.
	HandOvers int
	// HoldTime is how long a lock may be handed on in this process before
	// other processes get a chance. 0 means 1 s.
	HoldTime time.Duration
	// ReadTime bounds a read that meets an unreachable etcd. 0 means
	// DefaultReadTime.
	ReadTime time.Duration
	// SettleTime bounds a publication three times over: what it needs before
	// its transaction, that, and the search for its outcome. 0 means
	// DefaultSettleTime.
	SettleTime time.Duration
	// MaxTxnOps is etcd's limit of comparisons or operations in a transaction
	// (--max-txn-ops). 0 means 128, at least 16.
	MaxTxnOps int
	// MaxTxnBytes bounds a transaction's keys and values. 0 means 1 MiB;
	// keep it below 2/3 of etcd's --max-request-bytes. At least 256 KiB.
	MaxTxnBytes int
	// Log gets changes of the session's state. nil means none.
	Log *slog.Logger
	// Fault makes requests to etcd fail, for tests. nil means none.
	Fault func(Request) Fault
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v, least time.Duration) {
		if *d == 0 {
			*d = v
		}
		*d = max(*d, least)
	}
	def(&o.TTL, 5*time.Second, time.Second)
	def(&o.Retention, 24*time.Hour, time.Minute)
	def(&o.HoldTime, time.Second, 0)
	def(&o.ReadTime, DefaultReadTime, 0)
	def(&o.SettleTime, DefaultSettleTime, 0)
	if o.Node == "" {
		o.Node = "node"
	}
	o.Node = o.Node[:min(len(o.Node), 64)]
	if o.Prefix == "" {
		o.Prefix = "vcsd/1/"
	}
	if o.HandOvers == 0 {
		o.HandOvers = 32
	}
	if o.MaxTxnOps == 0 {
		o.MaxTxnOps = 128
	}
	o.MaxTxnOps = max(o.MaxTxnOps, 16)
	if o.MaxTxnBytes == 0 {
		o.MaxTxnBytes = 1 << 20
	}
	o.MaxTxnBytes = max(o.MaxTxnBytes, 4*MaxValueBytes)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
