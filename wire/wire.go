package wire

import (
	"context"
	"io"

	"vcsd/hg"
)

// A Repo opens consistent views of one repository.
type Repo interface {
	// View returns what the repository is now. Everything that one request
	// learns comes from one view, so its answers never contradict each other.
	View(ctx context.Context) (View, error)
}

// A View is what a client may see of a repository at one moment. Hidden and
// secret changesets do not exist in it. The caller closes it.
type View interface {
	// Heads returns the heads, or only hg.NullNode if there is no changeset.
	Heads(ctx context.Context) ([]hg.Node, error)

	// Known tells for each node whether the changeset is there.
	Known(ctx context.Context, nodes []hg.Node) ([]bool, error)

	// Lookup resolves a revision identifier. What it can't resolve is a
	// *hg.UnknownRevision.
	Lookup(ctx context.Context, key string) (hg.Node, error)

	// BranchMap returns the heads of the named branches, in the order in which
	// they are sent.
	BranchMap(ctx context.Context) ([]Branch, error)

	// ListKeys returns the keys of a pushkey namespace; none if the namespace
	// is unknown.
	ListKeys(ctx context.Context, namespace string) (map[string]string, error)

	// Between returns, for each pair of a descendant and an ancestor, the nodes
	// at distances 1, 2, 4, 8, ... on the line of first parents between them.
	Between(ctx context.Context, pairs [][2]hg.Node) ([][]hg.Node, error)

	// Branches returns, for each node, the node itself, the first merge or root
	// on its line of first parents, and that one's parents.
	Branches(ctx context.Context, nodes []hg.Node) ([][4]hg.Node, error)

	// GetBundle writes a bundle. An error before the first byte is answered in
	// the client's language; after that the connection is broken, so that the
	// client can't take half a bundle for a whole one.
	GetBundle(ctx context.Context, args GetBundleArgs, w *Stream) error

	// PullBundle writes a bundle that somebody has put ready for requests like
	// this one (server.pullbundle), and reports whether there is one. The client
	// asks for the rest.
	PullBundle(ctx context.Context, args GetBundleArgs, w *Stream) (served bool, err error)

	// Changegroup writes a changegroup 01 of the descendants of roots that are
	// ancestors of heads; nil heads mean all heads.
	Changegroup(ctx context.Context, roots, heads []hg.Node, w *Stream) error

	// StreamOut writes the store's files in the version 1 format, from the line
	// with the code 0 on.
	StreamOut(ctx context.Context, w *Stream) error

	// CloneBundles returns the manifest of bundles that clients may start from,
	// as it is; empty if there is none.
	CloneBundles(ctx context.Context) ([]byte, error)

	// Close releases the view.
	Close() error
}

// A Branch is a named branch and its heads.
type Branch struct {
	Name  string
	Heads []hg.Node
}

// GetBundleArgs are the arguments of getbundle.
type GetBundleArgs struct {
	// Heads are the heads wanted. nil means that the client named none, and
	// wants all.
	Heads []hg.Node

	// Common are nodes that the client has, without hg.NullNode. It may name
	// nodes that the server doesn't know.
	Common []hg.Node

	// Bundle2 tells that the client reads bundle2. If it doesn't, the answer
	// is a bare changegroup 01 and only Heads and Common count.
	Bundle2 bool

	// Caps are the client's bundle2 capabilities.
	Caps map[string][]string

	// BundleCaps are all capabilities in the request, as they came.
	BundleCaps []string

	// ListKeys are the pushkey namespaces to include, in the client's order.
	ListKeys []string

	Changegroup bool // the default is true
	CBAttempted bool // the client tried a clone bundle first
	Bookmarks   bool
	Obsmarkers  bool
	Phases      bool
	Stream      bool // a stream clone is wanted

	// PartialPull tells that the client asks again if the answer is only a
	// part of what it asked for.
	PartialPull bool
}

// A Pusher changes a repository. The methods may wait; they return when the
// push is published or refused.
type Pusher interface {
	// Unbundle takes a bundle of any version from req.Body. It need not read
	// to the end. The reply counts with an error as well, for its output and
	// the client's capabilities.
	Unbundle(ctx context.Context, req UnbundleRequest) (PushReply, error)

	// Pushkey sets one key.
	Pushkey(ctx context.Context, req PushkeyRequest) (PushkeyReply, error)
}

// A Peer is the client at the other end.
type Peer struct {
	Scheme string // http or https
	Host   string // its address, without the port
	User   string // authenticated name, empty if none
}

// An UnbundleRequest is a push.
type UnbundleRequest struct {
	// Heads is what the client believes the heads to be. It was checked once
	// before the body was read; it counts again when the push is published.
	Heads HeadsArg

	// Body is the bundle, with its magic.
	Body io.Reader

	// Size is the length of Body in bytes if the client told, or -1.
	Size int64

	Peer Peer
}

// A PushReply answers an UnbundleRequest.
type PushReply struct {
	// Bundle2 is the whole reply, from HG20 to its end, if the client sent a
	// bundle2 stream and the push was accepted. It goes before the fields below.
	Bundle2 []byte

	// Caps are those that the client announced for the reply in a replycaps
	// part; nil if it announced none. They matter when the push was refused.
	Caps map[string][]string

	// Output is what hooks printed. The client shows it with "remote: ".
	Output string

	// Result is the change in the number of heads, for bundle1 (hg help
	// internals.wireprotocol, unbundle): 0 nothing, 1 same, 1+n, -1-n.
	Result int
}

// A PushkeyRequest sets Key from Old to New; an empty string means absent.
type PushkeyRequest struct {
	Namespace, Key, Old, New string

	Peer Peer
}

// A PushkeyReply answers a PushkeyRequest.
type PushkeyReply struct {
	OK     bool
	Output string // what hooks printed
}
