package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// A command is how one command of the protocol is run. Exactly one of simple
// and stream is set, or none for those that push.
type command struct {
	perm Permission

	// args are the arguments that must be there. Others are ignored.
	args []string

	// simple returns the whole answer; such a command may stand in a batch.
	simple func(context.Context, *call) ([]byte, error)

	// stream writes a long answer. bare ones are never compressed.
	stream func(context.Context, *call, *Stream) error
	bare   bool
}

// commands are those that hg serve has for HTTP, by name. It is filled by init
// because batch runs commands itself.
var commands map[string]command

func init() {
	commands = map[string]command{
		"batch":             {perm: Pull, args: []string{"cmds"}, simple: batch},
		"between":           {perm: Pull, args: []string{"pairs"}, simple: between},
		"branches":          {perm: Pull, args: []string{"nodes"}, simple: branches},
		"branchmap":         {perm: Pull, simple: branchMap},
		"capabilities":      {perm: Pull, simple: capabilities},
		"changegroup":       {perm: Pull, args: []string{"roots"}, stream: changegroup},
		"changegroupsubset": {perm: Pull, args: []string{"bases", "heads"}, stream: changegroupSubset},
		"clonebundles":      {perm: Pull, simple: cloneBundles},
		"debugwireargs":     {perm: Pull, args: []string{"one", "two"}, simple: debugWireArgs},
		"getbundle":         {perm: Pull, stream: getBundle},
		"heads":             {perm: Pull, simple: heads},
		"hello":             {perm: Pull, simple: hello},
		"known":             {perm: Pull, args: []string{"nodes"}, simple: known},
		"listkeys":          {perm: Pull, args: []string{"namespace"}, simple: listKeys},
		"lookup":            {perm: Pull, args: []string{"key"}, simple: lookup},
		"protocaps":         {perm: Pull, args: []string{"caps"}, simple: protocaps},
		"pushkey":           {perm: Push, args: []string{"namespace", "key", "old", "new"}, simple: pushkey},
		"stream_out":        {perm: Pull, stream: streamOut, bare: true},
		"unbundle":          {perm: Push, args: []string{"heads"}},
	}
}

// A call is a command being run.
type call struct {
	name     string
	args     Args
	client   clientCaps
	features *Features
	limits   Limits
	allow    func(Permission) error
	view     *lazyView
	pusher   Pusher
	peer     Peer
}

// checkArgs reports the first argument that is missing.
func (c *call) checkArgs(cmd command) error {
	for _, name := range cmd.args {
		if _, ok := c.args[name]; !ok {
			return fmt.Errorf("%w: %s without the argument %q", hg.ErrMalformed, c.name, name)
		}
	}
	return nil
}

func (c *call) simple(ctx context.Context, cmd command) ([]byte, error) {
	if err := c.checkArgs(cmd); err != nil {
		return nil, err
	}
	return cmd.simple(ctx, c)
}

func capabilities(_ context.Context, c *call) ([]byte, error) {
	return []byte(c.features.Capabilities()), nil
}

func hello(_ context.Context, c *call) ([]byte, error) {
	return []byte("capabilities: " + c.features.Capabilities() + "\n"), nil
}

func protocaps(context.Context, *call) ([]byte, error) { return []byte("OK"), nil }

func debugWireArgs(_ context.Context, c *call) ([]byte, error) {
	optional := func(name string) string {
		if v, ok := c.args[name]; ok {
			return v
		}
		return "None"
	}
	// A fifth is printed and never accepted, to show that unknown arguments
	// do no harm.
	return fmt.Appendf(nil, "%s %s %s %s None", c.args["one"], c.args["two"],
		optional("three"), optional("four")), nil
}

func heads(ctx context.Context, c *call) ([]byte, error) {
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := v.Heads(ctx)
	return append(appendNodes(nil, nodes), '\n'), err
}

func known(ctx context.Context, c *call) ([]byte, error) {
	nodes, err := parseNodes(c.args["nodes"])
	if err != nil {
		return nil, err
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	have, err := v.Known(ctx, nodes)
	out := make([]byte, len(have))
	for i, h := range have {
		out[i] = '0'
		if h {
			out[i] = '1'
		}
	}
	return out, err
}

// lookup tells an error in the answer itself.
func lookup(ctx context.Context, c *call) ([]byte, error) {
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	node, err := v.Lookup(ctx, c.args["key"])
	if err == nil {
		return []byte("1 " + node.String() + "\n"), nil
	}
	message, _, ok := Explain(err)
	if !ok {
		return nil, err
	}
	return []byte("0 " + message + "\n"), nil
}

func branchMap(ctx context.Context, c *call) ([]byte, error) {
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	list, err := v.BranchMap(ctx)
	var out []byte
	for i, b := range list {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, bundle2.Quote(b.Name)...)
		out = append(out, ' ')
		out = appendNodes(out, b.Heads)
	}
	return out, err
}

func listKeys(ctx context.Context, c *call) ([]byte, error) {
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := v.ListKeys(ctx, c.args["namespace"])
	return EncodeKeys(keys), err
}

// EncodeKeys writes the keys of a namespace, sorted, as in the answer to
// listkeys and in bundle2's part of that name.
func EncodeKeys(keys map[string]string) []byte {
	var out []byte
	for i, k := range slices.Sorted(maps.Keys(keys)) {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, k...)
		out = append(out, '\t')
		out = append(out, keys[k]...)
	}
	return out
}

func between(ctx context.Context, c *call) ([]byte, error) {
	var pairs [][2]hg.Node
	for word := range strings.SplitSeq(c.args["pairs"], " ") {
		top, bottom, _ := strings.Cut(word, "-")
		t, err := parseNode(top)
		if err != nil {
			return nil, err
		}
		b, err := parseNode(bottom)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, [2]hg.Node{t, b})
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	lists, err := v.Between(ctx, pairs)
	var out []byte
	for _, nodes := range lists {
		out = append(appendNodes(out, nodes), '\n')
	}
	return out, err
}

// branches of no nodes are those of the tip.
func branches(ctx context.Context, c *call) ([]byte, error) {
	nodes, err := parseNodes(c.args["nodes"])
	if err != nil {
		return nil, err
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		tip, err := v.Lookup(ctx, "tip")
		if err != nil {
			return nil, err
		}
		nodes = []hg.Node{tip}
	}
	lines, err := v.Branches(ctx, nodes)
	var out []byte
	for _, line := range lines {
		out = append(appendNodes(out, line[:]), '\n')
	}
	return out, err
}

func cloneBundles(ctx context.Context, c *call) ([]byte, error) {
	v, err := c.view.get(ctx)
	if err != nil {
		return nil, err
	}
	return v.CloneBundles(ctx)
}

func pushkey(ctx context.Context, c *call) ([]byte, error) {
	if c.pusher == nil {
		return nil, hg.ErrReadOnly
	}
	reply, err := c.pusher.Pushkey(ctx, PushkeyRequest{
		Namespace: c.args["namespace"], Key: c.args["key"],
		Old: c.args["old"], New: c.args["new"], Peer: c.peer,
	})
	if err != nil {
		message, hint, ok := Explain(err)
		if !ok {
			return nil, err
		}
		return []byte("0\n" + reply.Output + "pushkey-abort: " + withHint(message, hint)), nil
	}
	if reply.OK {
		return []byte("1\n" + reply.Output), nil
	}
	return []byte("0\n" + reply.Output), nil
}
