package hgtest

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"vcsd/hg"

	"github.com/klauspost/compress/zstd"
)

// A Client speaks Mercurial's HTTP protocol (hg help internals.wireprotocol)
// with one repository and keeps what it got as it came.
type Client struct {
	// URL is the repository's, without a query.
	URL string
	// Proto is sent as X-HgProto-1; empty for a client of version 1 only.
	Proto string

	t    testing.TB
	http *http.Client
}

// Args are the arguments of a command, by name.
type Args map[string]string

// An Answer is what a server sent back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // as it came, still compressed
}

// ProtoV2 asks for answers of media type 0.2, as hg 6.3 does.
const ProtoV2 = "0.1 0.2 comp=zstd,zlib,none,bzip2 partial-pull"

// Force is the heads argument of unbundle that skips the check of heads.
const Force = "666f726365"

// requestTime bounds one request; only a hanging server reaches it.
const requestTime = 5 * time.Minute

// NewClient returns a client for the repository at a URL.
func NewClient(t testing.TB, repoURL string) *Client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{URL: repoURL, t: t, http: &http.Client{Transport: transport, Timeout: requestTime}}
}

// OneShot returns c with a connection for each request.
func (c *Client) OneShot() *Client {
	d := *c
	d.http = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, Timeout: requestTime}
	return &d
}

// CloseIdle ends the connections that no request uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// For returns c for a subtest.
func (c *Client) For(t testing.TB) *Client {
	d := *c
	d.t = t
	return &d
}

// argHeaderBytes is how much of the arguments one X-HgArg header carries: the
// value that servers announce as httpheader.
const argHeaderBytes = 1024

// Send sends a command and returns the answer; err is a failure of transport.
// Arguments go into headers. A body, even an empty one, makes it a POST.
func (c *Client) Send(ctx context.Context, command string, args Args, body []byte) (*Answer, error) {
	method, r := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, r = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+"?cmd="+command, r)
	if err != nil {
		return nil, err
	}
	SetArgs(req.Header, args)
	if c.Proto != "" {
		req.Header.Set("X-HgProto-1", c.Proto)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/mercurial-0.1")
	}
	req.Header.Set("Accept", "application/mercurial-0.1")
	return c.Do(req)
}

// SetArgs encodes arguments as X-HgArg-1, X-HgArg-2 and so on.
func SetArgs(h http.Header, args Args) {
	values := url.Values{}
	for k, v := range args {
		values.Set(k, v)
	}
	enc := values.Encode()
	var names []string
	for i := 1; enc != ""; i++ {
		name := "X-HgArg-" + strconv.Itoa(i)
		room := min(len(enc), argHeaderBytes-len(name)-2)
		h.Set(name, enc[:room])
		names, enc = append(names, name), enc[room:]
	}
	if names != nil {
		h.Set("Vary", strings.Join(names, ","))
	}
}

// Do sends a request of the caller's own making.
func (c *Client) Do(req *http.Request) (*Answer, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return &Answer{resp.StatusCode, resp.Header, body}, err
}

// Call sends a command, which must be answered.
func (c *Client) Call(command string, args Args, body []byte) *Answer {
	c.t.Helper()
	a, err := c.Send(c.t.Context(), command, args, body)
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	return a
}

// Text sends a command that must be answered with status 200 and returns the
// decoded answer.
func (c *Client) Text(command string, args Args) string {
	c.t.Helper()
	a := c.Call(command, args, nil)
	data, err := a.Payload()
	if a.Status != http.StatusOK || err != nil {
		c.t.Fatalf("%s %v: status %d, %v, %q", command, args, a.Status, err, a.Body)
	}
	return string(data)
}

// Heads returns the heads that the server shows, in its order.
func (c *Client) Heads() []hg.Node {
	c.t.Helper()
	var nodes []hg.Node
	for _, s := range strings.Fields(c.Text("heads", nil)) {
		n, err := hg.ParseNode(s)
		if err != nil {
			c.t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Known tells for each node whether the server has it.
func (c *Client) Known(nodes ...hg.Node) []bool {
	c.t.Helper()
	answer := c.Text("known", Args{"nodes": JoinNodes(nodes)})
	known := make([]bool, len(answer))
	for i := range known {
		known[i] = answer[i] == '1'
	}
	return known
}

// Listkeys returns a pushkey namespace.
func (c *Client) Listkeys(namespace string) map[string]string {
	c.t.Helper()
	keys := map[string]string{}
	for line := range strings.Lines(c.Text("listkeys", Args{"namespace": namespace})) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		keys[k] = v
	}
	return keys
}

// Unbundle posts a bundle. heads is JoinNodes of the heads seen before, or
// Force.
func (c *Client) Unbundle(ctx context.Context, heads string, bundle []byte) (*Answer, error) {
	return c.Send(ctx, "unbundle", Args{"heads": heads}, bundle)
}

// JoinNodes writes nodes as the protocol does, separated by spaces.
func JoinNodes(nodes []hg.Node) string {
	s := make([]string, len(nodes))
	for i, n := range nodes {
		s[i] = n.String()
	}
	return strings.Join(s, " ")
}

// SortedNodes returns a sorted copy, for comparison.
func SortedNodes(nodes []hg.Node) []hg.Node {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, hg.Node.Compare)
	return nodes
}

// IsStream reports whether the answer is compressed as a stream: it holds a
// bundle, not a text.
func (a *Answer) IsStream() bool {
	return a.Header.Get("Content-Type") == "application/mercurial-0.2" || len(a.Body) > 1 && a.Body[0] == 0x78
}

// Payload returns the answer decompressed, by its media type.
func (a *Answer) Payload() ([]byte, error) {
	body, engine := a.Body, "none"
	switch {
	case a.Header.Get("Content-Type") == "application/mercurial-0.2":
		if len(body) == 0 || len(body) < 1+int(body[0]) {
			return nil, fmt.Errorf("media type 0.2 without the name of its compression: %q", body)
		}
		engine, body = string(body[1:1+body[0]]), body[1+body[0]:]
	case a.IsStream():
		engine = "zlib"
	}
	switch engine {
	case "none":
		return body, nil
	case "zlib":
		z, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		return io.ReadAll(z)
	}
	return nil, fmt.Errorf("compression %q", engine)
}

// GetBundle asks for changesets by their heads and the common ones, with
// bundle2 if caps is not empty, and returns the decompressed stream.
func (c *Client) GetBundle(heads, common []hg.Node, more Args) []byte {
	c.t.Helper()
	args := Args{"heads": JoinNodes(heads), "common": JoinNodes(common)}
	for k, v := range more {
		args[k] = v
	}
	a := c.Call("getbundle", args, nil)
	data, err := a.Payload()
	if a.Status != http.StatusOK || err != nil {
		c.t.Fatalf("getbundle: status %d, %v", a.Status, err)
	}
	return data
}
