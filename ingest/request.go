package ingest

import (
	"io"
	"time"

	"vcsd/hg"
)

// A Request is a push as it arrives.
type Request struct {
	Body io.Reader // the bundle; read once, to its end

	// CheckHeads compares the client's idea of the repository's heads, sent
	// beside the bundle, with those there are; its error is the client's
	// answer. Nil means that the client sent none.
	CheckHeads func(heads []hg.Node) error
	// HeadsArg is what CheckHeads knows, in any form that tells it from others:
	// equal bundles are one push only if it is equal too.
	HeadsArg string

	// Staged is called, unless it is nil, once the push needs nothing any more
	// but its turn: it is staged, or another one like it is being staged. It
	// may be called after Push has returned, as others may have joined.
	Staged func()

	Who Who
}

// Who tells where a push came from, for the journal and for hooks.
type Who struct {
	User   string // authenticated user, may be empty
	Remote string // address of the client
	URL    string // as hg's hooks see it: remote:http:ADDRESS:USER
	Time   time.Time
}

// A Reply is what a client is told about its push.
type Reply struct {
	// Bundle2 tells which of the following is meant.
	Bundle2 bool
	// Caps are those that a bundle2 client announced for the reply; nil if it
	// wants to hear of nothing but errors.
	Caps  map[string][]string
	Parts []ReplyPart

	Ret    int    // HG10: the result of addchangegroup
	Output string // HG10: what the client shows as "remote: "
}

// A ReplyPart is one part of a bundle2 reply.
type ReplyPart struct {
	Type      string
	Mandatory bool
	Params    []Param
	Payload   []byte
}

// A Param is an advisory parameter of a reply part.
type Param struct{ Key, Value string }
