package differential

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// A line is a connection on which requests are written as they are.
type line struct {
	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

func dial(t testing.TB, server string) *line {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &line{t, conn, bufio.NewReader(conn)}
}

// ask sends a request and reads its answer, and whether the server closes the
// connection after it. Lines end with a mere newline here.
func (l *line) ask(head, body string) (a answer, closes bool) {
	l.t.Helper()
	if _, err := io.WriteString(l.conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		l.t.Fatal(err)
	}
	method, _, _ := strings.Cut(head, " ")
	resp, err := http.ReadResponse(l.r, &http.Request{Method: method})
	if err != nil {
		return answer{err: err}, true
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.Status, resp.StatusCode, resp.Header.Get("Content-Type"), raw, err}, resp.Close
}

// tree makes repositories to be found and not to be found below a root.
func tree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "root")
	h := hgtest.New(t)
	h.Run("init", filepath.Join(root, "r"))
	r := h.In(filepath.Join(root, "r"))
	r.Commit("one", map[string]string{"f": "1\n"})
	for _, name := range []string{"root/r/sub/nested", "root/group/inner", "root/.dot/r", "root/ünï c/r", "outside"} {
		h.Run("init", filepath.Join(top, name))
	}
	for link, to := range map[string]string{"group/out": "../../outside", "broken": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

const someNode = "0123456789012345678901234567890123456789"

// TestHTTP compares what is around the commands. Where vcsd's answer is another
// one, want says which and why says why.
func TestHTTP(t *testing.T) {
	t.Parallel()
	p := servePair(t, tree(t))
	const index = "stock shows a page there, of which there are few here"
	tests := []struct {
		name, head, body string
		want, why        string
	}{
		{name: "a command", head: "GET /r?cmd=heads"},
		{name: "slash behind", head: "GET /r/?cmd=heads"},
		{name: "slashes", head: "GET //r//?cmd=heads"},
		{name: "escaped letter", head: "GET /%72?cmd=heads"},
		{name: "escaped slash", head: "GET /group%2Finner?cmd=heads"},
		{name: "spaces and letters", head: "GET /%C3%BCn%C3%AF%20c/r?cmd=heads", want: "200 Script output follows", why: "stock's own server takes the path for Latin-1"},
		{name: "plus is no space", head: "GET /%C3%BCn%C3%AF+c/r?cmd=heads", want: "404 Not Found", why: index},
		{name: "letter case", head: "GET /R?cmd=heads", want: "404 Not Found", why: index},
		{name: "post", head: "POST /r?cmd=heads\nContent-Length: 0"},
		{name: "post with a body that nobody reads", head: "POST /r?cmd=heads\nContent-Length: 5", body: "hello"},
		{name: "put", head: "PUT /r?cmd=heads\nContent-Length: 0"},
		{name: "head", head: "HEAD /r?cmd=heads", want: "200 Script output follows", why: "stock's own server knows no HEAD; behind WSGI it does"},
		{name: "options", head: "OPTIONS /r?cmd=heads", want: "405 method not allowed", why: "501 is for methods that nobody knows"},
		{name: "delete", head: "DELETE /r?cmd=heads", want: "405 method not allowed", why: "as options"},
		{name: "unknown command", head: "GET /r?cmd=nosuch", want: "400 method not found", why: "stock puts the text into a page"},
		{name: "unknown command by post", head: "POST /r?cmd=nosuch\nContent-Length: 3", body: "abc", want: "400 method not found", why: "as above"},
		{name: "unknown command behind", head: "GET /r/x?cmd=nosuch", want: "404 Not Found", why: "there is nothing"},
		{name: "a command behind", head: "GET /r/x?cmd=heads"},
		{name: "a command in .hg", head: "GET /r/.hg?cmd=heads"},
		{name: "a command in .hg/store", head: "GET /r/.hg/store/?cmd=heads"},
		{name: "a page behind", head: "GET /r/x", want: "404 Not Found", why: index},
		{name: "unknown repository", head: "GET /nosuch?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "a group", head: "GET /group?cmd=heads", want: "404 Not Found", why: index},
		{name: "the root", head: "GET /?cmd=heads", want: "404 Not Found", why: index},
		{name: "nested repository", head: "GET /r/sub/nested?cmd=heads"},
		{name: "between repositories", head: "GET /r/sub?cmd=heads"},
		{name: "repository in a hidden directory", head: "GET /.dot/r?cmd=heads"},
		{name: "linked from outside", head: "GET /group/out?cmd=heads"},
		{name: "link to nowhere", head: "GET /broken?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "file", head: "GET /file?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "outside", head: "GET /../outside?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "outside, escaped", head: "GET /%2e%2e/outside?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "outside, slash escaped", head: "GET /..%2foutside?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "outside by a repository", head: "GET /r/../../outside?cmd=heads", want: "404 Not Found", why: "a path with dots names nothing"},
		{name: "inside by dots", head: "GET /group/../r?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "one dot", head: "GET /./r?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "backslashes", head: "GET /..\\outside?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "null byte", head: "GET /r%00?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "null byte inside", head: "GET /r%00/../../outside?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "not UTF-8", head: "GET /%ff?cmd=heads", want: "404 Not Found", why: "stock's is a page"},
		{name: "absolute address", head: "GET http://elsewhere/r?cmd=heads", want: "200 Script output follows", why: "HTTP/1.1 wants servers to take it"},
		{name: "header over query", head: "GET /r?cmd=lookup&key=tip\nX-HgArg-1: key=null"},
		{name: "header and query", head: "GET /r?cmd=debugwireargs&one=1\nX-HgArg-1: two=2&three=3"},
		{name: "header in two", head: "GET /r?cmd=lookup\nX-HgArg-1: key=nu\nX-HgArg-2: ll"},
		{name: "header with a gap", head: "GET /r?cmd=lookup&key=tip\nX-HgArg-2: key=null"},
		{name: "header twice", head: "GET /r?cmd=lookup\nX-HgArg-1: key=null\nX-HgArg-1: key=tip"},
		{name: "cmd in a header", head: "GET /r?cmd=heads\nX-HgArg-1: cmd=lookup&key=tip"},
		{name: "body over query", head: "POST /r?cmd=lookup&key=tip\nX-HgArgs-Post: 8\nContent-Length: 8", body: "key=null"},
		{name: "body over header", head: "POST /r?cmd=lookup\nX-HgArg-1: key=tip\nX-HgArgs-Post: 8\nContent-Length: 8", body: "key=null"},
		{name: "body longer than its arguments", head: "POST /r?cmd=lookup\nX-HgArgs-Post: 8\nContent-Length: 12", body: "key=nullrest"},
		{name: "body by GET", head: "GET /r?cmd=lookup\nX-HgArgs-Post: 8\nContent-Length: 8", body: "key=null"},
		{name: "body in chunks", head: "POST /r?cmd=lookup\nX-HgArgs-Post: 8\nTransfer-Encoding: chunked", body: "8\r\nkey=null\r\n0\r\n\r\n",
			want: "200 Script output follows", why: "stock's own server reads no chunks"},
		{name: "arguments of odd length", head: "POST /r?cmd=lookup&key=tip\nX-HgArgs-Post: x\nContent-Length: 0", want: "200 Script output follows", why: "stock fails"},
		{name: "missing argument", head: "GET /r?cmd=lookup", want: "200 Script output follows", why: "stock fails"},
		{name: "bad node", head: "GET /r?cmd=known&nodes=xyz", want: "200 Script output follows", why: "stock fails"},
		{name: "push by GET", head: "GET /r?cmd=unbundle&heads=666f726365"},
		{name: "push by HEAD", head: "HEAD /r?cmd=unbundle&heads=666f726365", want: "405 push requires POST request", why: "stock's own server knows no HEAD"},
		{name: "push by PUT", head: "PUT /r?cmd=unbundle&heads=666f726365\nContent-Length: 4", body: "HG20"},
		{name: "pushkey by GET", head: "GET /r?cmd=pushkey&namespace=bookmarks&key=x&old=&new=" + someNode},
		{name: "push to nowhere", head: "POST /nosuch?cmd=unbundle&heads=666f726365\nContent-Length: 4", body: "HG20", want: "404 Not Found", why: "stock's is a page"},
		{name: "old HTTP", head: "GET /r?cmd=heads HTTP/1.0"},
		{name: "no host", head: "GET /r?cmd=heads HTTP/1.1\nX: y", want: "400 Bad Request: missing required Host header", why: "HTTP/1.1 wants servers to refuse it"},
		{name: "forwarded", head: "GET /r?cmd=heads\nX-Forwarded-Proto: https\nX-Forwarded-For: 1.2.3.4"},
		{name: "asks for gzip", head: "GET /r?cmd=heads\nAccept-Encoding: gzip"},
		{name: "asks for a part", head: "GET /r?cmd=heads\nRange: bytes=0-3"},
		{name: "has it already", head: "GET /r?cmd=heads\nIf-None-Match: *\nIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"},
		{name: "no argument", head: "GET /r?cmd"},
		{name: "long unknown argument", head: "GET /r?cmd=heads&x=" + strings.Repeat("x", 20000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			head := tt.head
			if first, rest, _ := strings.Cut(head, "\n"); !strings.Contains(first, " HTTP/") {
				head = strings.TrimSuffix(first+" HTTP/1.1\nHost: h\n"+rest, "\n")
			}
			got, _ := dial(t, p.vcsd.URL).ask(head, tt.body)
			want, _ := dial(t, p.stock.URL).ask(head, tt.body)
			switch {
			case got.err != nil:
				t.Errorf("no answer: %v; stock says %s %.200q", got.err, want.status, want.raw)
			case tt.want != "" && got.status != tt.want:
				t.Errorf("got %s %q, want %s (%s); stock says %s", got.status, got.raw, tt.want, tt.why, want.status)
			case tt.want == "" && same(got) != same(want):
				t.Errorf("\n got %s\nwant %s", same(got), same(want))
			}
		})
	}
}

// same renders what has to be equal. Stock's own server gives no type with
// refusals.
func same(a answer) string {
	if a.code >= 400 {
		return fmt.Sprintf("%s %.200q", a.status, a.raw)
	}
	if strings.HasPrefix(a.mediaType, "text/html") {
		return fmt.Sprintf("%d and a page", a.code)
	}
	return fmt.Sprintf("%s %s %q", a.status, a.mediaType, a.raw)
}

// TestKeepAlive: whatever was wrong with a request, the next one on the same
// connection is answered, or the server said that it closes.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	p := servePair(t, tree(t))
	large := strings.Repeat("x", 300_000)
	for _, tt := range []struct{ head, body string }{
		{"GET /nosuch?cmd=heads HTTP/1.1\nHost: h", ""},
		{"GET /r?cmd=nosuch HTTP/1.1\nHost: h", ""},
		{"GET /r?cmd=lookup HTTP/1.1\nHost: h", ""},
		{"DELETE /r?cmd=heads HTTP/1.1\nHost: h", ""},
		{"POST /r?cmd=heads HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"POST /nosuch?cmd=unbundle HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"POST /r?cmd=unbundle HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"POST /r?cmd=unbundle&heads=zz HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"POST /r?cmd=unbundle&heads=666f726365 HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"PUT /r?cmd=unbundle&heads=666f726365 HTTP/1.1\nHost: h\nContent-Length: 300000", large},
		{"POST /r?cmd=getbundle HTTP/1.1\nHost: h\nX-HgArgs-Post: 300001\nContent-Length: 300000", large},
		{"GET /r?cmd=getbundle&heads=" + someNode + " HTTP/1.1\nHost: h", ""},
		{"HEAD /r?cmd=getbundle HTTP/1.1\nHost: h", ""},
	} {
		t.Run(strings.SplitN(tt.head, " HTTP", 2)[0], func(t *testing.T) {
			l := dial(t, p.vcsd.URL)
			a, closes := l.ask(tt.head, tt.body)
			if a.err != nil || a.code >= 500 {
				t.Fatalf("got %s %q, %v", a.status, a.raw, a.err)
			}
			if closes {
				t.Logf("closed after %s", a.status)
				return
			}
			if next, _ := l.ask("GET /r?cmd=known&nodes= HTTP/1.1\nHost: h", ""); next.code != 200 || len(next.raw) > 0 {
				t.Errorf("after %s: got %s %q, %v", a.status, next.status, next.raw, next.err)
			}
		})
	}
}

// TestPrefix serves below a path.
func TestPrefix(t *testing.T) {
	t.Parallel()
	p := servePair(t, tree(t), "web.prefix=/scm/hg/")
	p.stock.URL, p.vcsd.URL = origin(p.stock.URL), origin(p.vcsd.URL)
	for path, want := range map[string]string{
		"/scm/hg/r?cmd=heads": "", "/scm/hg/r/?cmd=heads": "", "/scm/hg/group/inner?cmd=heads": "", "/scm/hg/r/x?cmd=heads": "",
		"/r?cmd=heads": "404 Not Found", "/scm/r?cmd=heads": "404 Not Found", "/scm/hgx/r?cmd=heads": "404 Not Found", "/scm/hgr?cmd=heads": "404 Not Found",
		"/scm/hg/nosuch?cmd=heads": "404 Not Found", "/?cmd=heads": "404 Not Found", "/scm/hg?cmd=heads": "404 Not Found",
		"/scm/hg/": "", "/scm/hg": "",
	} {
		head := "GET " + path + " HTTP/1.1\nHost: h"
		got, _ := dial(t, p.vcsd.URL).ask(head, "")
		stock, _ := dial(t, p.stock.URL).ask(head, "")
		if want == "" && same(got) != same(stock) || want != "" && got.status != want {
			t.Errorf("%s: got %s, stock says %s, want %q", path, same(got), same(stock), want)
		}
	}
}

// origin takes the path off an address.
func origin(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}
