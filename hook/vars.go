package hook

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vcsd/hg"
)

// Vars are the variables that hg passes to a hook, by their names in the
// environment without the prefix "HG_". The methods return changed copies.
type Vars map[string]string

// With returns v with one variable set.
func (v Vars) With(name, value string) Vars {
	w := maps.Clone(v)
	if w == nil {
		w = make(Vars)
	}
	w[name] = value
	return w
}

// without returns v less one variable.
func (v Vars) without(name string) Vars {
	w := maps.Clone(v)
	delete(w, name)
	return w
}

// Group returns the variables at PreTxnChangegroup and Changegroup: v are the
// transaction's at the former, first and last the new changesets of the group.
func (v Vars) Group(first, last hg.Node) Vars {
	return v.With("NODE", first.String()).With("NODE_LAST", last.String())
}

// Incoming returns the variables of one new changeset at Incoming; v are those
// at Changegroup.
func (v Vars) Incoming(n hg.Node) Vars {
	return v.without("NODE_LAST").With("NODE", n.String())
}

// Bookmark returns the variables of one bookmark's move; v are the
// transaction's. A null node means that there is none.
func (v Vars) Bookmark(name string, old, new hg.Node) Vars {
	return v.With("BOOKMARK", name).With("OLDNODE", nodeOrEmpty(old)).With("NODE", nodeOrEmpty(new))
}

// Phase returns the variables of one changeset's move to a phase; v are the
// transaction's.
func (v Vars) Phase(n hg.Node, old, new hg.Phase) Vars {
	return v.NewPhase(n, new).With("OLDPHASE", old.String())
}

// NewPhase is Phase for a changeset that had none before.
func (v Vars) NewPhase(n hg.Node, phase hg.Phase) Vars {
	return v.With("NODE", n.String()).With("PHASE", phase.String()).With("OLDPHASE", "")
}

// Pushkey returns the variables at PrePushkey and Pushkey. At PrePushkey, v
// are the transaction's so far, nil if there is none. At Pushkey they are nil,
// and the result follows by Ret.
func (v Vars) Pushkey(namespace, key, old, new string) Vars {
	return v.With("NAMESPACE", namespace).With("KEY", key).With("OLD", old).With("NEW", new)
}

// CompatKey returns the variables at PrePushkey and Pushkey, the same at both, of
// a bookmark in a part "bookmarks" of a bundle; see the option
// server.bookmarks-pushkey-compat. v are the transaction's so far; a null node
// means that there is no such bookmark.
func (v Vars) CompatKey(name string, old, new hg.Node) Vars {
	return v.Pushkey("bookmarks", name, nodeOrEmpty(old), nodeOrEmpty(new)).With("PUSHKEYCOMPAT", "1")
}

// Ret adds the result of a pushkey.
func (v Vars) Ret(ok bool) Vars {
	if ok {
		return v.With("RET", "1")
	}
	return v.With("RET", "0")
}

// Namespace returns the variables at PreListkeys.
func Namespace(namespace string) Vars { return Vars{"NAMESPACE": namespace} }

// Values returns the variables at Listkeys.
func Values(namespace string, values map[string]string) Vars {
	return Namespace(namespace).With("VALUES", pyDict(values))
}

// Outgo returns the variables at PreOutgoing.
func Outgo() Vars { return Vars{"SOURCE": "serve"} }

// OutgoFrom returns the variables at Outgoing, which is reached if any
// changeset was sent; first is the first of them.
func OutgoFrom(first hg.Node) Vars { return Outgo().With("NODE", first.String()) }

// A Txn is what hg calls the hook arguments of a transaction. They grow while
// the parts of a bundle are handled; a field is set once that has happened.
type Txn struct {
	ID   string // as NewTxnID makes it
	Name string // TxnServe and the like

	Bundle2 bool
	Source  string // "serve" for a bundle; empty for a lone pushkey
	URL     string // as wire.Peer makes it; empty for a lone pushkey

	Node, NodeLast hg.Node // first and last changeset of the first group with any
	BookmarkMoved  bool    // a bookmark was set or deleted
	PhasesMoved    bool    // the roots of the phases changed
	NewObsmarkers  int

	userVars Vars
}

// SetUserVar adds what the client passed by --pushvars. Of two names that
// differ in case the later one counts.
func (t *Txn) SetUserVar(name, value string) {
	t.userVars = t.userVars.With("USERVAR_"+upper(name), value)
}

// upper changes the letters of ASCII alone, as hg does with bytes.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// Names of transactions.
const (
	TxnServe           = "serve"                     // a bundle2
	TxnPushkeyBookmark = "bookmarks"                 // a lone pushkey
	TxnPushkeyPhase    = "pushkey-phase"             // a lone pushkey
	TxnPushkeyMarkers  = "pushkey: obsolete markers" // a lone pushkey
)

// NewTxnID returns the name of a transaction, as hg makes it: no two have the
// same.
func NewTxnID() string {
	var b [hg.NodeLen]byte
	rand.Read(b[:])
	return "TXN:" + hex.EncodeToString(b[:])
}

// TxnBundle1 is the name of the transaction of an old bundle, which has two
// lines.
func TxnBundle1(url string) string { return "serve\n" + url }

// OpenVars returns the variables at PreTxnOpen.
func (t *Txn) OpenVars() Vars { return Vars{"TXNID": t.ID, "TXNNAME": t.Name} }

// Vars returns the variables of the transaction as it stands: those at
// PreChangegroup, PreTxnClose, TxnClose and TxnAbort, and the base of those of
// single changes.
func (t *Txn) Vars() Vars {
	v := t.OpenVars()
	maps.Copy(v, t.userVars)
	if t.Bundle2 {
		v["BUNDLE2"] = "1"
	}
	if t.Source != "" {
		v["SOURCE"], v["URL"] = t.Source, t.URL
	}
	if !t.Node.IsNull() {
		v["NODE"], v["NODE_LAST"] = t.Node.String(), t.NodeLast.String()
	}
	if t.BookmarkMoved {
		v["BOOKMARK_MOVED"] = "1"
	}
	if t.PhasesMoved {
		v["PHASES_MOVED"] = "1"
	}
	if t.NewObsmarkers > 0 {
		v["NEW_OBSMARKERS"] = strconv.Itoa(t.NewObsmarkers)
	}
	return v
}

func nodeOrEmpty(n hg.Node) string {
	if n.IsNull() {
		return ""
	}
	return n.String()
}

// pyDict writes a map as hg shows dictionaries to hooks.
func pyDict(m map[string]string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(pyQuote(k) + ": " + pyQuote(m[k]))
	}
	b.WriteByte('}')
	return b.String()
}

// pyQuote writes bytes as Python does, without the b in front.
func pyQuote(s string) string {
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	b := []byte{q}
	for i := range len(s) {
		switch c := s[i]; {
		case c == q || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, `\x%02x`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, q))
}
