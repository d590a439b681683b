package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"vcsd/hg"
)

// A fakeRepo is a Repo and its View and Pusher, made of answers.
type fakeRepo struct {
	heads    []hg.Node
	parents  map[hg.Node][2]hg.Node
	names    map[string]hg.Node
	branches []Branch
	keys     map[string]map[string]string
	bundle   []byte
	manifest []byte
	err      error // of every method that can fail

	getBundle  func(GetBundleArgs, *Stream) error
	pullBundle string // empty: there is none

	pushReply PushReply
	pushErr   error
	readAll   bool   // Unbundle reads the body
	pushed    []byte // what it read
	request   UnbundleRequest
	pushkey   PushkeyRequest
	opened    int
	closed    int
}

func (f *fakeRepo) View(context.Context) (View, error) {
	f.opened++
	return f, nil
}

func (f *fakeRepo) Close() error {
	f.closed++
	return nil
}

func (f *fakeRepo) Heads(context.Context) ([]hg.Node, error) { return f.heads, f.err }

func (f *fakeRepo) Known(_ context.Context, nodes []hg.Node) ([]bool, error) {
	var out []bool
	for _, n := range nodes {
		_, ok := f.parents[n]
		out = append(out, ok)
	}
	return out, f.err
}

func (f *fakeRepo) Lookup(_ context.Context, key string) (hg.Node, error) {
	if key == "tip" {
		return f.heads[0], nil
	}
	if n, ok := f.names[key]; ok {
		return n, nil
	}
	if f.err != nil {
		return hg.Node{}, f.err
	}
	return hg.Node{}, &hg.UnknownRevision{Name: key}
}

func (f *fakeRepo) BranchMap(context.Context) ([]Branch, error) { return f.branches, f.err }

func (f *fakeRepo) ListKeys(_ context.Context, ns string) (map[string]string, error) {
	return f.keys[ns], f.err
}

func (f *fakeRepo) Between(_ context.Context, pairs [][2]hg.Node) ([][]hg.Node, error) {
	var out [][]hg.Node
	for _, p := range pairs {
		var line []hg.Node
		next := 1
		for n, i := p[0], 0; n != p[1] && !n.IsNull(); n, i = f.parents[n][0], i+1 {
			if i == next {
				line = append(line, n)
				next *= 2
			}
		}
		out = append(out, line)
	}
	return out, f.err
}

func (f *fakeRepo) Branches(_ context.Context, nodes []hg.Node) ([][4]hg.Node, error) {
	var out [][4]hg.Node
	for _, top := range nodes {
		n := top
		for !f.parents[n][0].IsNull() && f.parents[n][1].IsNull() {
			n = f.parents[n][0]
		}
		out = append(out, [4]hg.Node{top, n, f.parents[n][0], f.parents[n][1]})
	}
	return out, f.err
}

func (f *fakeRepo) GetBundle(_ context.Context, args GetBundleArgs, w *Stream) error {
	if f.getBundle != nil {
		return f.getBundle(args, w)
	}
	_, err := w.Write(f.bundle)
	return err
}

func (f *fakeRepo) PullBundle(_ context.Context, args GetBundleArgs, w *Stream) (bool, error) {
	if f.pullBundle == "" {
		return false, nil
	}
	w.Uncompressed()
	_, err := io.WriteString(w, f.pullBundle)
	return true, err
}

func (f *fakeRepo) Changegroup(_ context.Context, _, _ []hg.Node, w *Stream) error {
	_, err := w.Write(f.bundle)
	return err
}

func (f *fakeRepo) StreamOut(_ context.Context, w *Stream) error {
	_, err := w.ReadFrom(bytes.NewReader(f.bundle))
	return err
}

func (f *fakeRepo) CloneBundles(context.Context) ([]byte, error) { return f.manifest, f.err }

func (f *fakeRepo) Unbundle(_ context.Context, req UnbundleRequest) (PushReply, error) {
	f.request = req
	var err error
	if f.readAll {
		f.pushed, err = io.ReadAll(req.Body)
	}
	if err == nil {
		err = f.pushErr
	}
	return f.pushReply, err
}

func (f *fakeRepo) Pushkey(_ context.Context, req PushkeyRequest) (PushkeyReply, error) {
	f.pushkey = req
	return PushkeyReply{OK: f.pushErr == nil, Output: f.pushReply.Output}, f.pushErr
}

// testFeatures are those of hg serve without any configuration.
func testFeatures() *Features {
	return &Features{
		HeaderLen: 1024, Engines: DefaultEngines(), Changegroups: []string{"02", "01"},
		StreamOut: true, StreamRequirements: []string{"revlogv1", "generaldelta", "sparserevlog", "revlog-compression-zstd"},
		Bundle2Stream: true, CheckRelated: true, Bundle1Pull: true, Bundle1Push: true,
	}
}

// A testServer serves one Endpoint on a local port, with status texts.
type testServer struct {
	url  string
	errs chan error // what Serve returned
}

func serve(t *testing.T, e func(r *http.Request) *Endpoint) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{url: "http://" + l.Addr().String(), errs: make(chan error, 100)}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.errs <- e(r).Serve(w, r)
	})
	lingering := Linger(h, Limits{DrainTime: 50 * time.Millisecond, LingerBytes: 1 << 20, LingerTime: 100 * time.Millisecond})
	srv := &http.Server{Handler: lingering, ConnContext: ConnContext, MaxHeaderBytes: MaxHeaderBytes}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ReasonListener(l))
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return s
}

func serveRepo(t *testing.T, f *fakeRepo, features *Features) *testServer {
	return serve(t, func(*http.Request) *Endpoint {
		return &Endpoint{Repo: f, Pusher: f, Features: features}
	})
}

// An answer is what came back for a request.
type answer struct {
	status      string // "200 Script output follows"
	contentType string
	length      int64 // -1 if chunked
	body        []byte
}

func (a answer) String() string {
	return fmt.Sprintf("%s, %s, length %d, %q", a.status, a.contentType, a.length, a.body)
}

func (s *testServer) do(t *testing.T, method, query string, header http.Header, body io.Reader) answer {
	t.Helper()
	return request(t, method, s.url+"/?"+query, header, body)
}

func request(t *testing.T, method, url string, header http.Header, body io.Reader) answer {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer{resp.Status, resp.Header.Get("Content-Type"), resp.ContentLength, b}
}

func node(hex string) hg.Node {
	for len(hex) < hg.NodeHexLen {
		hex += "0"
	}
	n, err := hg.ParseNode(hex)
	if err != nil {
		panic(err)
	}
	return n
}

func nodes(hex ...string) []hg.Node {
	var out []hg.Node
	for _, h := range hex {
		out = append(out, node(h))
	}
	return slices.Clip(out)
}
