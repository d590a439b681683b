package hook

// A Point is a moment at which hg runs hooks, in hg's spelling.
type Point string

// The points that a server reaches.
const (
	PreListkeys         Point = "prelistkeys"
	Listkeys            Point = "listkeys"
	PreOutgoing         Point = "preoutgoing"
	Outgoing            Point = "outgoing"
	PreTxnOpen          Point = "pretxnopen"
	PreChangegroup      Point = "prechangegroup"
	PreTxnChangegroup   Point = "pretxnchangegroup"
	PrePushkey          Point = "prepushkey"
	PreTxnCloseBookmark Point = "pretxnclose-bookmark"
	PreTxnClosePhase    Point = "pretxnclose-phase"
	PreTxnClose         Point = "pretxnclose"
	Pushkey             Point = "pushkey"
	TxnCloseBookmark    Point = "txnclose-bookmark"
	TxnClosePhase       Point = "txnclose-phase"
	TxnClose            Point = "txnclose"
	TxnAbort            Point = "txnabort"
	Changegroup         Point = "changegroup"
	Incoming            Point = "incoming"
)

// ReadPoints are the points that only requests for reading reach.
func ReadPoints() []Point { return []Point{PreListkeys, Listkeys, PreOutgoing, Outgoing} }

// PushPoints are the points that pushes reach, in the order in which hg
// reaches them in a push that succeeds; TxnAbort comes last.
func PushPoints() []Point {
	return []Point{
		PreTxnOpen, PreChangegroup, PreTxnChangegroup, PrePushkey,
		PreTxnCloseBookmark, PreTxnClosePhase, PreTxnClose,
		Pushkey, TxnCloseBookmark, TxnClosePhase, TxnClose, Changegroup, Incoming,
		TxnAbort,
	}
}

// Vetoes reports whether a hook that fails at p refuses what comes after p.
// Elsewhere a failure is a warning.
func (p Point) Vetoes() bool {
	switch p {
	case PreListkeys, PreOutgoing, PreTxnOpen, PreChangegroup, PreTxnChangegroup, PrePushkey,
		PreTxnCloseBookmark, PreTxnClosePhase, PreTxnClose:
		return true
	}
	return false
}

// SeesPending reports whether hooks at p are shown what the push would do.
// Prepushkey hooks are if something was pending before, see Call.Pending.
func (p Point) SeesPending() bool {
	switch p {
	case PreTxnChangegroup, PrePushkey, PreTxnCloseBookmark, PreTxnClosePhase, PreTxnClose:
		return true
	}
	return false
}

func known(p Point) bool {
	for _, list := range [][]Point{ReadPoints(), PushPoints()} {
		for _, q := range list {
			if p == q {
				return true
			}
		}
	}
	return false
}
