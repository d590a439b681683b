package linear

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// A world is one repository, what is known of its changesets, and the history
// of what clients asked.
type world struct {
	repo     string
	branches []string
	marks    []string
	targets  []hg.Node // where bookmarks go
	start    time.Time

	mu      sync.Mutex
	nodes   map[string]*hgtest.Changeset // that were ever sent, by node
	branch  map[string]string            // of nodes
	place   map[string]int               // of nodes in the line of their branch
	history []porcupine.Operation        // guarded by mu
	counts  map[string]int               // of answers; guarded by mu
}

func isBranch(register string) bool { return strings.HasPrefix(register, "branch ") }

// learn takes note of a changeset that is about to be sent.
func (w *world) learn(c *hgtest.Changeset, branch string, parent *hgtest.Changeset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := c.Node().String()
	w.nodes[n], w.branch[n] = c, branch
	if parent != nil {
		w.place[n] = w.place[parent.Node().String()] + 1
	}
}

func (w *world) changeset(node string) *hgtest.Changeset {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[node]
}

func (w *world) now() int64 { return int64(time.Since(w.start)) }

// add records an operation.
func (w *world) add(client, asked int, call, end int64, in input, out output) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.write && out.result == unknown {
		end = forever
	}
	w.history = append(w.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end, Metadata: asked})
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// A client asks one thing after the other, each time any of the servers.
type client struct {
	*world
	id      int
	rng     *rand.Rand
	servers []*server
	seen    map[string]string // registers, as last seen
	serial  int
	asked   int // which server was asked last
}

// giveUp is how long a client waits for an answer. Stopped servers go on
// before that.
const giveUp = 20 * time.Second

// any returns a connection to one of the servers.
func (c *client) any() *hgtest.Client {
	c.asked = c.rng.IntN(len(c.servers))
	return c.servers[c.asked].client(c.repo)
}

// run asks until ctx ends.
func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch c.rng.IntN(12) {
		case 0, 1:
			c.readHeads()
		case 2, 3:
			c.readBookmarks()
		case 4:
			c.readBookmark(c.marks[c.rng.IntN(len(c.marks))])
		case 5:
			c.pull()
		case 6, 7, 8:
			c.push(c.branches[c.rng.IntN(len(c.branches))])
		case 9, 10:
			c.moveBookmark(c.marks[c.rng.IntN(len(c.marks))], false)
		case 11:
			c.moveBookmark(c.marks[c.rng.IntN(len(c.marks))], true)
		}
	}
}

// ask sends a command and returns its answer; false if there is none.
func (c *client) ask(command string, args hgtest.Args, body []byte) (call int64, data []byte, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	call = c.now()
	a, err := c.any().Send(ctx, command, args, body)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("status %d", a.Status)
	}
	if err == nil {
		data, err = a.Payload()
	}
	if err != nil {
		c.count(command + " without an answer")
	}
	return call, data, err == nil
}

// sees records a read.
func (c *client) sees(call, end int64, register, value string) {
	c.seen[register] = value
	c.add(c.id, c.asked, call, end, input{register: register}, output{value: value})
}

func (c *client) readHeads() {
	call, data, ok := c.ask("heads", nil, nil)
	end := c.now()
	if ok {
		c.seesHeads(call, end, strings.Fields(string(data)))
	}
}

// seesHeads records a read of all branches. A branch with two heads is no
// value that it ever had.
func (c *client) seesHeads(call, end int64, nodes []string) {
	heads := map[string]string{}
	for _, n := range nodes {
		branch := c.branchOf(n)
		if heads[branch] != "" {
			n = heads[branch] + " and " + n
		}
		heads[branch] = n
	}
	for _, b := range c.branches {
		c.sees(call, end, "branch "+b, heads[b])
	}
}

func (w *world) branchOf(node string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.branch[node]
}

func (c *client) readBookmarks() {
	call, data, ok := c.ask("listkeys", hgtest.Args{"namespace": "bookmarks"}, nil)
	end := c.now()
	if !ok {
		return
	}
	marks := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, node, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		marks[name] = node
	}
	for _, m := range c.marks {
		c.sees(call, end, "bookmark "+m, marks[m])
	}
}

func (c *client) readBookmark(name string) {
	call, data, ok := c.ask("lookup", hgtest.Args{"key": name}, nil)
	end := c.now()
	if !ok {
		return
	}
	found, node, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	if found != "1" {
		node = ""
	}
	c.sees(call, end, "bookmark "+name, node)
}

// pull asks for what is new since the heads that the client has seen.
func (c *client) pull() {
	var common []hg.Node
	heads := map[string]string{}
	for _, b := range c.branches {
		n := c.seen["branch "+b]
		if cs := c.changeset(n); cs != nil {
			common = append(common, cs.Node())
			heads[b] = n
		}
	}
	call, data, ok := c.ask("getbundle", hgtest.Args{"common": hgtest.JoinNodes(common), "bundlecaps": "HG20,bundle2=HG20%0Achangegroup%3D02", "cg": "1"}, nil)
	end := c.now()
	if !ok {
		return
	}
	nodes, err := pulled(data)
	if err != nil {
		c.count("getbundle in pieces")
		return
	}
	for _, n := range nodes {
		if b := c.branchOf(n); heads[b] == "" || c.after(n, heads[b]) {
			heads[b] = n
		}
	}
	c.seesHeads(call, end, slices.Collect(maps.Values(heads)))
}

// after tells whether a node comes after another of its branch.
func (w *world) after(a, b string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.place[a] > w.place[b]
}

// pulled returns the changesets of a bundle.
func pulled(bundle []byte) (nodes []string, err error) {
	parts, err := hgtest.ParseBundle2(bundle)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if !strings.EqualFold(p.Type, "changegroup") {
			continue
		}
		found, err := hgtest.ChangelogNodes(p.Payload)
		if err != nil {
			return nil, err
		}
		for _, n := range found {
			nodes = append(nodes, n.String())
		}
	}
	return nodes, nil
}

// push puts a changeset on top of the head that the client saw last. Without an
// answer it may send the same again, as a user would.
func (c *client) push(branch string) {
	register := "branch " + branch
	parent := c.changeset(c.seen[register])
	if parent == nil {
		return
	}
	c.serial++
	name := fmt.Sprintf("client %d, %d", c.id, c.serial)
	next := hgtest.NewChangeset(parent, branch, name, map[string]string{branch: name + "\n"})
	c.learn(next, branch, parent)
	bundle := hgtest.Bundle2(hgtest.PushParts([]hg.Node{parent.Node()}, hgtest.ChangegroupOf(next))...)
	in := input{register, true, parent.Node().String(), next.Node().String(), false}
	call, res := c.unbundle(bundle)
	if res == unknown && c.rng.IntN(2) == 0 {
		c.count("push sent again")
		// That it lost now says nothing of the first time.
		if _, res = c.unbundle(bundle); res == refused {
			res = unknown
		}
	}
	c.wrote(call, in, res)
}

// wrote records a write.
func (c *client) wrote(call int64, in input, res result) {
	c.add(c.id, c.asked, call, c.now(), in, output{result: res})
	if res == done {
		c.seen[in.register] = in.new
	}
	c.count([...]string{"writes done", "writes refused", "writes unknown"}[res])
}

// unbundle pushes and tells how it ended.
func (c *client) unbundle(bundle []byte) (call int64, res result) {
	call, data, ok := c.ask("unbundle", hgtest.Args{"heads": hgtest.Force}, bundle)
	if !ok {
		return call, unknown
	}
	r, err := hgtest.ParseReply(&hgtest.Answer{Body: data})
	switch {
	case err != nil:
		return call, unknown
	case r.Error == "":
		return call, done
	case r.Error == "pushraced":
		c.count("pushraced: " + hexes.ReplaceAllString(r.Reason, "NODE"))
		return call, refused
	default:
		c.count(r.Error + ": " + r.Reason)
		return call, unknown
	}
}

// hexes are nodes, by which reasons differ.
var hexes = regexp.MustCompile(`[0-9a-f]{12,40}`)

// moveBookmark moves, makes or deletes a bookmark, from where the client saw
// it last, by a bundle or by pushkey.
func (c *client) moveBookmark(name string, byKey bool) {
	register := "bookmark " + name
	in := input{register, true, c.seen[register], c.targets[c.rng.IntN(len(c.targets))].String(), byKey}
	if in.old != "" && c.rng.IntN(4) == 0 {
		in.new = ""
	}
	if in.old == in.new {
		return
	}
	if byKey {
		c.moveByKey(name, in)
		return
	}
	c.serial++
	caps := fmt.Sprintf("%s\nnonce=%d-%d", hgtest.ReplyCaps, c.id, c.serial) // each bundle is one of its kind
	call, res := c.unbundle(hgtest.Bundle2(
		hgtest.Part{Type: "replycaps", Payload: []byte(caps)},
		hgtest.Part{Type: "CHECK:BOOKMARKS", Payload: mark(name, in.old)},
		hgtest.Part{Type: "BOOKMARKS", Payload: mark(name, in.new)}))
	c.wrote(call, in, res)
}

func (c *client) moveByKey(name string, in input) {
	call, data, ok := c.ask("pushkey", hgtest.Args{"namespace": "bookmarks", "key": name, "old": in.old, "new": in.new}, []byte{})
	res := unknown
	switch text := string(data); {
	case ok && strings.HasPrefix(text, "1\n"):
		res = done
	case ok && strings.HasPrefix(text, "0\n"):
		res = refused
		if strings.Contains(text, "try again later") {
			res = unknown
		}
	}
	c.wrote(call, in, res)
}

// mark is one entry of a part about bookmarks; no node is told as all ff.
func mark(name, node string) []byte {
	b := slices.Repeat([]byte{0xff}, hg.NodeLen)
	if node != "" {
		n, err := hg.ParseNode(node)
		if err != nil {
			panic(err)
		}
		b = n[:]
	}
	return append(append(slices.Clone(b), byte(len(name)>>8), byte(len(name))), name...)
}
