package differential

import (
	"flag"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

var (
	requests = flag.Int("requests", 200, "random requests to compare")
	seed     = flag.Uint64("seed", 1, "seed of histories and requests")
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// A pair is stock hg and vcsd, serving the same directory.
type pair struct {
	t           testing.TB
	root        string
	stock, vcsd *hgtest.Server
	http        *http.Client
}

// servePair starts both. Stream clones are off, or each would send the files
// as they happen to be.
func servePair(t testing.TB, root string, config ...string) *pair {
	t.Helper()
	config = append([]string{"server.uncompressed=no"}, config...)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	return &pair{
		t: t, root: root,
		stock: hgtest.Serve(t, hgtest.ServerOptions{Root: root, Stock: true, Config: config}),
		vcsd:  hgtest.Serve(t, hgtest.ServerOptions{Root: root, Config: config, ByRoot: true}),
		http:  &http.Client{Transport: transport},
	}
}

// A form is where a request carries its arguments.
type form int

const (
	inHeaders form = iota
	inQuery
	inBody
	forms int = iota
)

// A request is one command to a repository.
type request struct {
	repo, command string
	args          hgtest.Args
	form          form
	post          bool
	proto         string // X-HgProto-1; none if empty
}

func (q request) String() string {
	var b strings.Builder
	b.WriteString(q.repo + "?cmd=" + q.command)
	for _, k := range slices.Sorted(maps.Keys(q.args)) {
		b.WriteString(" " + k + "=" + strconv.Quote(q.args[k]))
	}
	b.WriteString(" in " + []string{"headers", "query", "body"}[q.form])
	if q.proto != "" {
		b.WriteString(", proto " + q.proto)
	}
	return b.String()
}

// An answer is what came back, without HTTP's wrapping.
type answer struct {
	status    string // code and text
	code      int
	mediaType string
	raw       []byte
	err       error // the connection was cut
}

// do sends a request to a server.
func (p *pair) do(server string, q request) answer {
	p.t.Helper()
	values := url.Values{}
	for k, v := range q.args {
		values.Set(k, v)
	}
	enc := values.Encode()
	address, method, body := server+"/"+q.repo+"?cmd="+q.command, http.MethodGet, io.Reader(nil)
	if q.form == inQuery && enc != "" {
		address += "&" + enc
	}
	if q.post || q.form == inBody {
		method, body = http.MethodPost, strings.NewReader("")
	}
	if q.form == inBody {
		body = strings.NewReader(enc)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, address, body)
	if err != nil {
		p.t.Fatal(err)
	}
	switch q.form {
	case inHeaders:
		setArgHeaders(req.Header, enc)
	case inBody:
		req.Header.Set("X-HgArgs-Post", strconv.Itoa(len(enc)))
	}
	if q.proto != "" {
		req.Header.Set("X-HgProto-1", q.proto)
	}
	return p.send(req)
}

func (p *pair) send(req *http.Request) answer {
	p.t.Helper()
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.Status, resp.StatusCode, resp.Header.Get("Content-Type"), raw, err}
}

// setArgHeaders splits encoded arguments as the client does.
func setArgHeaders(h http.Header, enc string) {
	const room = 1000
	for i := 1; enc != ""; i++ {
		n := min(len(enc), room)
		h.Set("X-HgArg-"+strconv.Itoa(i), enc[:n])
		enc = enc[n:]
	}
}

// both sends a request to both servers.
func (p *pair) both(q request) (stock, vcsd answer) {
	p.t.Helper()
	if stock = p.do(p.stock.URL, q); stock.err != nil {
		// Stock closes connections without a word; try on a fresh one.
		p.http.CloseIdleConnections()
		stock = p.do(p.stock.URL, q)
	}
	return stock, p.do(p.vcsd.URL, q)
}

// appendHgrc adds settings to the hgrc of a repository.
func appendHgrc(t testing.TB, repo, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(repo, ".hg", "hgrc"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
