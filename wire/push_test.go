package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vcsd/config"
	"vcsd/hg"
)

// unbundleQuery is a push that leaves the check of heads to its bundle.
var unbundleQuery = "cmd=unbundle&heads=" + hexOf("force")

func TestUnbundle(t *testing.T) {
	head, other := node("aa"), node("bb")
	raced := "repository changed while preparing changes - please try again"
	tests := []struct {
		name   string
		heads  string
		body   string
		repo   fakeRepo
		change func(*Features)
		want   string // of the answer's body; for bundle2, words in it separated by "|"
		pushed bool   // the Pusher was asked
	}{
		{name: "bundle2", heads: hexOf("force"), body: "HG20data", repo: fakeRepo{pushReply: PushReply{Bundle2: []byte("HG20reply")}},
			want: "HG20reply", pushed: true},
		{name: "bundle1", heads: head.String(), body: "HG10UN", repo: fakeRepo{pushReply: PushReply{Result: -2, Output: "hook\n"}},
			want: "-2\nhook\n", pushed: true},
		{name: "bundle1, stale", heads: other.String(), body: "HG10UN", want: "0\n" + raced + "\n"},
		{name: "bundle2, stale", heads: other.String(), body: "HG20data", want: "HG20|ERROR:PUSHRACED|" + raced},
		{name: "heads that are none", heads: "zz", body: "HG20data", want: "HG20|ERROR:ABORT|malformed data"},
		{name: "bundle1, refused", heads: hexOf("force"), body: "HG10UN", repo: fakeRepo{pushErr: hg.Abortf("no"), pushReply: PushReply{Output: "hook\n"}},
			want: "0\nhook\nabort: no\n", pushed: true},
		{name: "bundle2, refused", heads: hexOf("force"), body: "HG20data", repo: fakeRepo{pushErr: hg.Abortf("no"), pushReply: PushReply{Output: "hook\n"}},
			want: "HG20|output|hook\n|ERROR:ABORT|no", pushed: true},
		{name: "bundle2, refused after all was read", heads: hexOf("force"), body: "HG20data",
			repo: fakeRepo{readAll: true, pushErr: hg.Abortf("no")}, want: "HG20|ERROR:ABORT|no", pushed: true},
		{name: "body shorter than any magic", heads: hexOf("force"), body: "HG", repo: fakeRepo{pushErr: hg.ErrMalformed},
			want: "0\nabort: malformed data\n", pushed: true},
		{name: "no body", heads: hexOf("force"), repo: fakeRepo{pushErr: hg.ErrMalformed}, want: "0\nabort: malformed data\n", pushed: true},
		{name: "bundle1 not allowed", heads: hexOf("force"), body: "HG10UN", change: func(f *Features) { f.Bundle1Push = false },
			want: "incompatible Mercurial client; bundle2 required\n(see https://www.mercurial-scm.org/wiki/IncompatibleClient)\n"},
		{name: "bundle1 not allowed, bundle2", heads: hexOf("force"), body: "HG20data", change: func(f *Features) { f.Bundle1Push = false },
			repo: fakeRepo{readAll: true, pushReply: PushReply{Bundle2: []byte("HG20reply")}}, want: "HG20reply", pushed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			repo := tt.repo
			repo.heads = []hg.Node{head}
			features := testFeatures()
			if tt.change != nil {
				tt.change(features)
			}
			s := serveRepo(t, &repo, features)
			a := s.do(t, "POST", "cmd=unbundle&heads="+strings.ReplaceAll(tt.heads, " ", "+"), nil, strings.NewReader(tt.body))
			<-s.errs
			words := []string{tt.want}
			if strings.HasPrefix(tt.want, "HG20|") {
				words = strings.Split(tt.want, "|")
			} else if string(a.body) != tt.want {
				t.Errorf("answer %q, want %q", a.body, tt.want)
			}
			for _, w := range words {
				if !bytes.Contains(a.body, []byte(w)) {
					t.Errorf("answer %q lacks %q", a.body, w)
				}
			}
			if got := repo.request.Body != nil; got != tt.pushed {
				t.Errorf("pushed: %v, want %v", got, tt.pushed)
			}
			if repo.readAll && string(repo.pushed) != tt.body {
				t.Errorf("the Pusher read %q of %q", repo.pushed, tt.body)
			}
			if tt.pushed && repo.request.Size != int64(len(tt.body)) {
				t.Errorf("size %d, want %d", repo.request.Size, len(tt.body))
			}
		})
	}
}

func TestUnbundleWithPostArgs(t *testing.T) {
	repo := &fakeRepo{readAll: true, pushReply: PushReply{Bundle2: []byte("HG20")}}
	s := serveRepo(t, repo, testFeatures())
	args := "heads=" + hexOf("force")
	s.do(t, "POST", "cmd=unbundle", http.Header{"X-HgArgs-Post": {fmt.Sprint(len(args))}}, strings.NewReader(args+"HG20data"))
	if err := <-s.errs; err != nil || string(repo.pushed) != "HG20data" || repo.request.Size != 8 || !repo.request.Heads.Force {
		t.Errorf("pushed %q of %d bytes, heads %+v, %v", repo.pushed, repo.request.Size, repo.request.Heads, err)
	}
}

func TestPushkey(t *testing.T) {
	const query = "cmd=pushkey&namespace=bookmarks&key=k%C3%A4&old=&new=n"
	tests := []struct {
		name string
		repo fakeRepo
		want string
	}{
		{"done", fakeRepo{pushReply: PushReply{Output: "hook\n"}}, "1\nhook\n"},
		{"refused", fakeRepo{pushErr: &hg.Abort{Message: "prepushkey hook failed", Hint: "h"}, pushReply: PushReply{Output: "hook\n"}},
			"0\nhook\npushkey-abort: prepushkey hook failed\n(h)\n"},
		{"our own error", fakeRepo{pushErr: errors.New("secret")}, internalMessage + "\n"},
	}
	for _, tt := range tests {
		s := serveRepo(t, &tt.repo, testFeatures())
		a := s.do(t, "POST", query, nil, nil)
		<-s.errs
		if string(a.body) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, a.body, tt.want)
		}
		if k := tt.repo.pushkey; k.Namespace != "bookmarks" || k.Key != "kä" || k.Old != "" || k.New != "n" {
			t.Errorf("%s: pushkey %+v", tt.name, k)
		}
	}
}

func TestReadOnly(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa")}
	s := serve(t, func(*http.Request) *Endpoint { return &Endpoint{Repo: repo, Features: testFeatures()} })
	for query, want := range map[string]string{
		unbundleQuery: "0\nabort: repository is served read-only\n",
		"cmd=pushkey&namespace=bookmarks&key=x&old=&new=": "repository is served read-only\n",
	} {
		if a := s.do(t, "POST", query, nil, strings.NewReader("HG10")); string(a.body) != want {
			t.Errorf("%s: %q, want %q", query, a.body, want)
		}
		<-s.errs
	}
}

// TestRefusedPushIsAnswered sends as hg does: what comes is read only when all
// is sent, or the pipe is broken.
func TestRefusedPushIsAnswered(t *testing.T) {
	for _, size := range []int64{0, 1000, 256 << 10, 256<<10 + 1, 1 << 20, 100 << 20} {
		var read int64
		s := serve(t, func(r *http.Request) *Endpoint {
			r.Body = countingBody{r.Body, &read}
			return &Endpoint{Features: testFeatures(), Allow: func(Permission) error { return &StatusError{Code: 403, Reason: "ssl required"} }}
		})
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /?%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", unbundleQuery, size)
		if _, err := io.Copy(c, io.LimitReader(zeros{}, size)); err != nil && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%d bytes: sending ended with %v, which is no broken pipe", size, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.Status != "403 ssl required" {
			t.Fatalf("%d bytes: answer %v, %v", size, resp, err)
		}
		if want := size > 256<<10; resp.Close != want {
			t.Errorf("%d bytes: connection is given up: %v, want %v", size, resp.Close, want)
		}
		if read != 0 {
			t.Errorf("%d bytes: the handler read %d of what it refuses", size, read)
		}
		c.Close()
		<-s.errs
	}
}

// TestExpectedPushIsNotDrained refuses before the client begins to send.
func TestExpectedPushIsNotDrained(t *testing.T) {
	var read int64
	s := serve(t, func(r *http.Request) *Endpoint {
		r.Body = countingBody{r.Body, &read}
		return &Endpoint{Features: testFeatures(), Allow: func(Permission) error { return &StatusError{Code: 401, Reason: "push not authorized"} }}
	})
	a := s.do(t, "POST", unbundleQuery, http.Header{"Expect": {"100-continue"}}, strings.NewReader("HG20"))
	if err := <-s.errs; err == nil || a.status != "401 push not authorized" || read != 0 {
		t.Errorf("%v, server read %d", a, read)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type countingBody struct {
	io.ReadCloser
	n *int64
}

func (c countingBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	*c.n += int64(n)
	return n, err
}

// TestClientShowsTheSentence pushes with the real hg and reads what its user
// would read.
func TestClientShowsTheSentence(t *testing.T) {
	needHg(t)
	dir := filepath.Join(t.TempDir(), "r")
	runHg(t, "", "init", dir)
	write(t, filepath.Join(dir, "a"), strings.Repeat("x", 100))
	runHg(t, dir, "commit", "-Aqm", "m")
	tests := []struct {
		path  string
		reply PushReply
		err   error
		allow error
		want  string
	}{
		{path: "abort", err: &hg.Abort{Message: "no way", Hint: "try another"}, reply: PushReply{Output: "from a hook\n"},
			want: "remote: from a hook\nremote: no way\nremote: (try another)\nabort: push failed on remote\n"},
		{path: "raced", err: hg.ErrPushRaced, want: "abort: push failed:\n'repository changed while pushing - please try again'\n"},
		{path: "unsupported", err: &hg.UnsupportedContent{PartType: "foo", Params: []string{"bar"}}, want: "abort: missing support for foo - bar\n"},
		{path: "readonly", err: hg.ErrReadOnly, want: "remote: repository is served read-only\nabort: push failed on remote\n"},
		{path: "internal", err: errors.New("secret"), want: "remote: " + internalMessage + "\nabort: push failed on remote\n"},
		{path: "ssl", allow: &StatusError{Code: 403, Reason: "ssl required"}, want: "abort: HTTP Error 403: ssl required\n"},
		{path: "denied", allow: &StatusError{Code: 401, Reason: "push not authorized"}, want: "abort: authorization failed\n"},
	}
	s := serve(t, func(r *http.Request) *Endpoint {
		for _, tt := range tests {
			if r.URL.Path == "/"+tt.path {
				repo := &fakeRepo{heads: []hg.Node{hg.NullNode}, pushErr: tt.err, pushReply: tt.reply}
				return &Endpoint{Repo: repo, Pusher: repo, Features: testFeatures(), Allow: func(p Permission) error {
					if p == Push && tt.allow != nil {
						return tt.allow
					}
					return Authorize(&config.Web{AllowPull: true, AllowPush: []string{"*"}}, "", r.Method, false, p)
				}}
			}
		}
		return &Endpoint{}
	})
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			out, err := tryHg(dir, "push", s.url+"/"+tt.path)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.HasSuffix(out, tt.want) {
				t.Errorf("hg push says %q, %v; want %q", out, err, tt.want)
			}
		})
	}
}
