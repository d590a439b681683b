package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/wire/bundle2"
	"vcsd/wire/compression"
)

func TestCommand(t *testing.T) {
	tests := []struct {
		query string
		name  string
		ok    bool
	}{
		{"cmd=heads", "heads", true}, {"x=y&cmd=heads", "heads", true}, {"cmd=heads&cmd=log", "log", false},
		{"cmd=log&cmd=heads", "heads", true}, {"cmd=", "", false}, {"", "", false}, {"cmd", "", false}, {"c%6Dd=he%61ds", "heads", true},
		{"cmd=heads;x", "heads;x", false},
	}
	for _, tt := range tests {
		name, ok := Command(httptest.NewRequest("GET", "/r?"+tt.query, nil))
		if name != tt.name || ok != tt.ok {
			t.Errorf("Command(%q) = %q, %v; want %q, %v", tt.query, name, ok, tt.name, tt.ok)
		}
	}
}

func TestReadArgs(t *testing.T) {
	many := http.Header{}
	long := "nodes=" + strings.Repeat("0123456789", 2000)
	for i := 0; i*61 < len(long); i++ {
		many.Set(fmt.Sprintf("X-HgArg-%d", i+1), long[i*61:min(len(long), i*61+61)])
	}
	tests := []struct {
		name   string
		query  string
		header http.Header
		body   string
		want   Args
		err    error
	}{
		{name: "none", query: "cmd=x", want: Args{}},
		{name: "query", query: "cmd=x&a=1&b=%20+c&a=2", want: Args{"a": "1", "b": "  c"}},
		{name: "without value", query: "a&b=&&c", want: Args{"a": "", "b": "", "c": ""}},
		{name: "escapes that are none", query: "a=%&b=%4&c=%zz&d=%41", want: Args{"a": "%", "b": "%4", "c": "%zz", "d": "A"}},
		{name: "semicolon", query: "a=1;b=2", want: Args{"a": "1;b=2"}},
		{name: "headers", header: http.Header{"X-Hgarg-1": {"a=1&b"}, "X-Hgarg-2": {"=%6"}, "X-Hgarg-3": {"1"}}, want: Args{"a": "1", "b": "a"}},
		{name: "gap", header: http.Header{"X-Hgarg-1": {"a=1"}, "X-Hgarg-3": {"2"}}, want: Args{"a": "1"}},
		{name: "many headers", header: many, want: Args{"nodes": long[6:]}},
		{name: "header over query", query: "a=1&b=2", header: http.Header{"X-Hgarg-1": {"a=3"}}, want: Args{"a": "3", "b": "2"}},
		{name: "body", header: http.Header{"X-Hgargs-Post": {"7"}}, body: "a=1&b=2&c=3", want: Args{"a": "1", "b": "2"}},
		{name: "body over headers", header: http.Header{"X-Hgargs-Post": {"3"}, "X-Hgarg-1": {"a=2&b=2"}}, body: "a=1", want: Args{"a": "1"}},
		{name: "body too short", header: http.Header{"X-Hgargs-Post": {"5"}}, body: "a=1", err: hg.ErrMalformed},
		{name: "length of no number", header: http.Header{"X-Hgargs-Post": {"x"}}, body: "a=1", err: hg.ErrMalformed},
		{name: "negative length", header: http.Header{"X-Hgargs-Post": {"-1"}}, body: "a=1", err: hg.ErrMalformed},
		{name: "body too long", header: http.Header{"X-Hgargs-Post": {"100001"}}, body: strings.Repeat("a", 100001), err: hg.ErrTooLarge},
		{name: "headers too long", header: http.Header{"X-Hgarg-1": {strings.Repeat("a", 60000)}, "X-Hgarg-2": {strings.Repeat("a", 60000)}}, err: hg.ErrTooLarge},
		{name: "too many", query: strings.Repeat("a=1&", 5) + "b=1&c=1&d=1&e=1", err: hg.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/?"+tt.query, strings.NewReader(tt.body))
			for k, v := range tt.header {
				r.Header[http.CanonicalHeaderKey(k)] = v
			}
			got, err := readArgs(r, Limits{MaxArgBytes: 100000, MaxArgs: 4}.withDefaults())
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err == nil && !mapsEqual(got, tt.want) {
				t.Errorf("args %q, want %q", got, tt.want)
			}
			if rest, _ := io.ReadAll(r.Body); tt.name == "body" && string(rest) != "&c=3" {
				t.Errorf("rest of the body %q", rest)
			}
		})
	}
}

func TestHeadsArg(t *testing.T) {
	a, b := node("aa"), node("bb")
	hash := HashHeads([]hg.Node{a, b})
	hashed := hexOf("hashed") + " " + hg.Node(hash).String()
	tests := []struct {
		name    string
		arg     string
		current []hg.Node
		raced   bool
	}{
		{"force", hexOf("force"), []hg.Node{a}, false},
		{"list", a.String() + " " + b.String(), []hg.Node{a, b}, false},
		{"list in another order", b.String() + " " + a.String(), []hg.Node{a, b}, false},
		{"list too short", a.String(), []hg.Node{a, b}, true},
		{"list too long", a.String() + " " + b.String(), []hg.Node{a}, true},
		{"same twice", a.String() + " " + a.String(), []hg.Node{a, b}, true},
		{"empty repository", hg.NullNode.String(), []hg.Node{hg.NullNode}, false},
		{"no longer empty", hg.NullNode.String(), []hg.Node{a}, true},
		{"nothing at all", "", []hg.Node{hg.NullNode}, true},
		{"hashed", hashed, []hg.Node{b, a}, false},
		{"hashed and stale", hashed, []hg.Node{b}, true},
	}
	for _, tt := range tests {
		h, err := ParseHeads(tt.arg)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		err = h.Check(tt.current, "unbundling changes")
		var raced *hg.PushRaced
		if errors.As(err, &raced) != tt.raced {
			t.Errorf("%s: %v, want a race: %v", tt.name, err, tt.raced)
		}
		if tt.raced && err.Error() != "repository changed while unbundling changes - please try again" {
			t.Errorf("%s: says %q", tt.name, err)
		}
	}
	for _, arg := range []string{"zz", "aa", hexOf("hashed"), hexOf("hashed") + " aa", hexOf("force") + " " + a.String(), " ", a.String() + "  " + b.String()} {
		if _, err := ParseHeads(arg); !errors.Is(err, hg.ErrMalformed) {
			t.Errorf("ParseHeads(%q): %v, want %v", arg, err, hg.ErrMalformed)
		}
	}
}

func hexOf(s string) string { return fmt.Sprintf("%x", s) }

func TestParseGetBundle(t *testing.T) {
	a, b := node("aa"), node("bb")
	tests := []struct {
		name string
		in   Args
		want GetBundleArgs
	}{
		{"nothing", Args{}, GetBundleArgs{Changegroup: true}},
		{"all", Args{
			"heads": a.String() + " " + b.String(), "common": hg.NullNode.String() + " " + b.String(), "cg": "1",
			"bundlecaps": "HG20,bundle2=HG20%0Achangegroup%3D01%2C02%0Ax%2520y", "listkeys": "phases,bookmarks", "cbattempted": "0",
			"bookmarks": "1", "obsmarkers": "1", "phases": "1", "stream": "1", "unknown": "x",
		}, GetBundleArgs{
			Heads: []hg.Node{a, b}, Common: []hg.Node{b}, Bundle2: true,
			Caps:        map[string][]string{"HG20": nil, "changegroup": {"01", "02"}, "x y": nil},
			BundleCaps:  []string{"HG20", "bundle2=HG20%0Achangegroup%3D01%2C02%0Ax%2520y"},
			ListKeys:    []string{"phases", "bookmarks"},
			Changegroup: true, Bookmarks: true, Obsmarkers: true, Phases: true, Stream: true,
		}},
		{"empty is false", Args{"cg": "", "phases": ""}, GetBundleArgs{}},
		{"anything else is true", Args{"cg": "False"}, GetBundleArgs{Changegroup: true}},
		{"no bundle2", Args{"bundlecaps": "HG10"}, GetBundleArgs{Changegroup: true, BundleCaps: []string{"HG10"}}},
		{"empty lists", Args{"heads": "", "common": "", "listkeys": ""}, GetBundleArgs{Changegroup: true, ListKeys: []string{""}}},
	}
	for _, tt := range tests {
		got, err := parseGetBundle(tt.in)
		if tt.want.Caps == nil {
			tt.want.Caps = map[string][]string{}
		}
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", tt.name, err, got, tt.want)
		}
	}
	for _, name := range []string{"heads", "common"} {
		if _, err := parseGetBundle(Args{name: "zz"}); !errors.Is(err, hg.ErrMalformed) {
			t.Errorf("%s=zz: %v", name, err)
		}
	}
}

func TestAuthorize(t *testing.T) {
	all := []string{"*"}
	tests := []struct {
		name   string
		web    config.Web
		user   string
		method string
		secure bool
		perm   Permission
		want   string // code and reason
	}{
		{"read", config.Web{}, "", "GET", false, Read, ""},
		{"pull", config.Web{AllowPull: true}, "", "GET", false, Pull, ""},
		{"no pull", config.Web{}, "bob", "GET", false, Pull, "401 pull not authorized"},
		{"denied to all", config.Web{AllowPull: true, DenyRead: all}, "bob", "GET", false, Pull, "401 read not authorized"},
		{"denied to others, anonymous", config.Web{DenyRead: []string{"eve"}}, "", "GET", false, Read, "401 read not authorized"},
		{"denied to others", config.Web{DenyRead: []string{"eve"}}, "bob", "GET", false, Read, ""},
		{"denied", config.Web{DenyRead: []string{"eve"}}, "eve", "GET", false, Read, "401 read not authorized"},
		{"denied and allowed", config.Web{DenyRead: []string{"eve"}, AllowRead: all}, "eve", "GET", false, Read, "401 read not authorized"},
		{"allowed to others", config.Web{AllowRead: []string{"bob"}}, "eve", "GET", false, Read, "401 read not authorized"},
		{"allowed to all", config.Web{AllowRead: all}, "", "GET", false, Read, ""},
		{"star among names", config.Web{AllowRead: []string{"*", "bob"}}, "eve", "GET", false, Read, "401 read not authorized"},
		{"push by GET", config.Web{AllowPush: all}, "bob", "GET", true, Push, "405 push requires POST request"},
		{"push without TLS", config.Web{AllowPush: all, PushSSL: true}, "bob", "POST", false, Push, "403 ssl required"},
		{"push with TLS", config.Web{AllowPush: all, PushSSL: true}, "bob", "POST", true, Push, ""},
		{"push, nobody may", config.Web{}, "bob", "POST", true, Push, "401 push not authorized"},
		{"push, others may", config.Web{AllowPush: []string{"bob"}}, "eve", "POST", true, Push, "401 push not authorized"},
		{"push, anonymous", config.Web{AllowPush: []string{"bob"}}, "", "POST", true, Push, "401 push not authorized"},
		{"push, all may", config.Web{AllowPush: all}, "", "POST", true, Push, ""},
		{"push, some may not", config.Web{AllowPush: all, DenyPush: []string{"eve"}}, "", "POST", true, Push, "401 push not authorized"},
		{"push, one may not", config.Web{AllowPush: all, DenyPush: []string{"eve"}}, "eve", "POST", true, Push, "401 push not authorized"},
		{"push needs no pull", config.Web{AllowPush: all}, "bob", "POST", true, Push, ""},
		{"push needs read", config.Web{AllowPush: all, DenyRead: all}, "bob", "POST", true, Push, "401 read not authorized"},
	}
	for _, tt := range tests {
		err := Authorize(&tt.web, tt.user, tt.method, tt.secure, tt.perm)
		got := ""
		var status *StatusError
		if errors.As(err, &status) {
			got = fmt.Sprintf("%d %s", status.Code, status.Reason)
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestEnginesByName(t *testing.T) {
	tests := []struct {
		names []string
		want  []compression.Engine
		err   string
	}{
		{nil, []compression.Engine{compression.Zstd, compression.Zlib}, ""},
		{[]string{"zlib", "bz2", "zlib", "none"}, []compression.Engine{compression.Zlib, compression.Bzip2, compression.None}, ""},
		{[]string{"zlib", "snappy", "bzip2"}, nil, "invalid compression engine defined in server.compressionengines: bzip2, snappy"},
	}
	for _, tt := range tests {
		got, err := EnginesByName(tt.names)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("EnginesByName(%q) = %v, %v; want %v, %q", tt.names, got, err, tt.want, tt.err)
		}
	}
}

// TestOneFormPerError lists what each error is sent as, in a bundle2 reply, in
// the answer to a push without bundle2, and as hg-error.
func TestOneFormPerError(t *testing.T) {
	pushkey := &hg.PushkeyFailed{Namespace: "bookmarks", Key: "k", Old: "o", New: "n", Ret: "0", PartID: "7", Reason: "no"}
	tests := []struct {
		name string
		err  error
		caps bundle2.Caps
		part string
		push string
		text string
	}{
		{"abort", hg.Abortf("no %s", "way"), nil, "error:abort message=no way", "0\nabort: no way\n", "no way\n"},
		{"abort with hint", &hg.Abort{Message: "m", Hint: "h"}, nil, "error:abort message=m hint?=h", "0\nabort: m\n(h)\n", "m\n(h)\n"},
		{"abort inside", fmt.Errorf("part 3: %w", hg.Abortf("m")), nil, "error:abort message=m", "0\nabort: m\n", "m\n"},
		{"raced", fmt.Errorf("x: %w", hg.ErrPushRaced), nil,
			"error:pushraced message=repository changed while pushing - please try again",
			"0\nrepository changed while pushing - please try again\n", "repository changed while pushing - please try again\n"},
		{"unsupported", &hg.UnsupportedContent{PartType: "foo", Params: []string{"a", "b"}}, nil,
			"error:unsupportedcontent parttype=foo params=a\x00b", "0\nabort: missing support for foo - a, b\n", "missing support for foo - a, b\n"},
		{"unsupported stream", &hg.UnsupportedContent{Params: []string{"X"}}, nil,
			"error:unsupportedcontent params=X", "0\nabort: missing support for X\n", "missing support for X\n"},
		{"pushkey", pushkey, nil, "error:pushkey in-reply-to=7 namespace?=bookmarks key?=k new?=n old?=o ret?=0", "0\nabort: no\n", "no\n"},
		{"pushkey, client knows", pushkey, bundle2.Caps{"error": {"pushkey"}},
			"error:pushkey in-reply-to=7 namespace?=bookmarks key?=k new?=n old?=o ret?=0", "0\nabort: no\n", "no\n"},
		{"pushkey, client doesn't know", pushkey, bundle2.Caps{"error": {"abort"}}, "error:abort message=no", "0\nabort: no\n", "no\n"},
		{"unknown revision", &hg.UnknownRevision{Name: "x"}, nil, "error:abort message=unknown revision 'x'",
			"0\nabort: unknown revision 'x'\n", "unknown revision 'x'\n"},
		{"too large", fmt.Errorf("bundle of 9 bytes: %w", hg.ErrTooLarge), nil,
			"error:abort message=bundle of 9 bytes: larger than the server's limit",
			"0\nabort: bundle of 9 bytes: larger than the server's limit\n", "bundle of 9 bytes: larger than the server's limit\n"},
		{"malformed", fmt.Errorf("%w: chunk 3", hg.ErrMalformed), nil, "error:abort message=malformed data: chunk 3",
			"0\nabort: malformed data: chunk 3\n", "malformed data: chunk 3\n"},
		{"read-only", hg.ErrReadOnly, nil, "error:abort message=repository is served read-only",
			"0\nabort: repository is served read-only\n", "repository is served read-only\n"},
		{"unavailable", hg.ErrUnavailable, nil, "error:abort message=pushes are not possible at the moment, try again later",
			"0\nabort: pushes are not possible at the moment, try again later\n", "pushes are not possible at the moment, try again later\n"},
		{"our own", errors.New("open /secret/path: no such file"), nil, "error:abort message=" + internalMessage,
			"0\nabort: " + internalMessage + "\n", internalMessage + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			typ, params := ErrorPart(tt.err, tt.caps)
			for _, p := range params {
				sep := "="
				if !p.Mandatory {
					sep = "?="
				}
				typ += " " + p.Key + sep + p.Value
			}
			if typ != tt.part {
				t.Errorf("part %q, want %q", typ, tt.part)
			}
			if got := string(pushText(tt.err, "")); got != tt.push {
				t.Errorf("answer to a push %q, want %q", got, tt.push)
			}
			if got := string(errorText(tt.err)); got != tt.text {
				t.Errorf("hg-error %q, want %q", got, tt.text)
			}
			if _, _, known := Explain(tt.err); known != (tt.name != "our own") {
				t.Errorf("known = %v", known)
			}
		})
	}
}

func TestLongMessageIsSentWhole(t *testing.T) {
	long := strings.Repeat("ä", 300)
	reply, err := EncodeErrorReply(hg.Abortf("%s", long), nil, "hook said\n")
	if err != nil {
		t.Fatal(err)
	}
	r, err := bundle2.NewReader(strings.NewReader(string(reply)), bundle2.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.NextPart()
	if err != nil || p.Type != "output" || p.Mandatory {
		t.Fatalf("first part %+v, %v", p, err)
	}
	if text, err := p.ReadAll(1 << 20); err != nil || string(text) != "hook said\n"+long+"\n" {
		t.Errorf("output %q, %v", text, err)
	}
	p, err = r.NextPart()
	if err != nil || p.Type != "error:abort" || !p.Mandatory || !strings.HasPrefix(p.Abort().Message, "äää") {
		t.Errorf("second part %+v, %v", p, err)
	}
	if _, err := r.NextPart(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
}

func TestBatchItem(t *testing.T) {
	tests := []struct {
		in   string
		name string
		args Args
		ok   bool
	}{
		{"heads ", "heads", Args{}, true},
		{"known nodes=a", "known", Args{"nodes": "a"}, true},
		{"x a:eb=:c:o:s:e,c=,,", "x", Args{"a=b": ":,;=", "c": ""}, true},
		{"x a=:ce", "x", Args{"a": ":e"}, true},
		{"heads", "", nil, false},
		{"", "", nil, false},
		{"x a", "", nil, false},
		{"x a=b=c", "", nil, false},
	}
	for _, tt := range tests {
		name, args, err := parseBatchItem(tt.in, Limits{}.withDefaults())
		if (err == nil) != tt.ok || name != tt.name || !mapsEqual(args, tt.args) {
			t.Errorf("parseBatchItem(%q) = %q, %q, %v; want %q, %q", tt.in, name, args, err, tt.name, tt.args)
		}
	}
}

func mapsEqual(a, b Args) bool {
	return fmt.Sprint(map[string]string(a)) == fmt.Sprint(map[string]string(b))
}

func TestRefusals(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa"), names: map[string]hg.Node{}}
	deny := func(perm Permission) error {
		if perm == Push {
			return &StatusError{Code: 401, Reason: "push not authorized", Header: http.Header{"Www-Authenticate": {"Basic realm=x"}}}
		}
		return nil
	}
	s := serve(t, func(*http.Request) *Endpoint {
		return &Endpoint{Repo: repo, Features: testFeatures(), Allow: deny, Limits: Limits{MaxBatch: 3}}
	})
	batch := func(cmds string) string { return "cmd=batch&cmds=" + url.QueryEscape(cmds) }
	tests := []struct {
		name   string
		method string
		query  string
		want   string // status, type and body
	}{
		{"unknown command", "GET", "cmd=nosuch", "400 unknown command application/mercurial-0.1 0\nunknown command\n"},
		{"other method", "DELETE", "cmd=heads", "405 method not allowed application/mercurial-0.1 0\nmethod not allowed\n"},
		{"argument missing", "GET", "cmd=lookup", "200 Script output follows application/hg-error malformed data: lookup without the argument \"key\"\n"},
		{"node malformed", "GET", "cmd=known&nodes=zz", "200 Script output follows application/hg-error malformed data: node of 2 digits, want 40\n"},
		{"pair malformed", "GET", "cmd=between&pairs=zz", "200 Script output follows application/hg-error malformed data: node of 2 digits, want 40\n"},
		{"push", "POST", "cmd=unbundle&heads=" + hexOf("force"), "401 push not authorized application/mercurial-0.1 0\npush not authorized\n"},
		{"batch with a push", "POST", batch("heads ;pushkey namespace=a"), "401 push not authorized application/mercurial-0.1 0\npush not authorized\n"},
		{"batch with unknown command", "GET", batch("nosuch "), "200 Script output follows application/hg-error malformed data: unknown command \"nosuch\" in a batch\n"},
		{"batch with a stream", "GET", batch("getbundle "), "200 Script output follows application/hg-error malformed data: command \"getbundle\" in a batch\n"},
		{"batch in a batch", "GET", batch("batch cmds="), "200 Script output follows application/hg-error malformed data: command \"batch\" in a batch\n"},
		{"batch too long", "GET", batch("heads ;heads ;heads ;heads "), "200 Script output follows application/hg-error batch of more than 3 commands: larger than the server's limit\n"},
		{"batch malformed", "GET", batch("heads"), "200 Script output follows application/hg-error malformed data: command \"heads\" in a batch has no arguments\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := s.do(t, tt.method, tt.query, nil, nil)
			<-s.errs
			if got := a.status + " " + a.contentType + " " + string(a.body); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if repo.opened != repo.closed {
		t.Errorf("%d views opened, %d closed", repo.opened, repo.closed)
	}
}

// TestBatchHasOneView makes sure that the answers of a batch belong together.
func TestBatchHasOneView(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa")}
	s := serveRepo(t, repo, testFeatures())
	s.do(t, "GET", "cmd=batch&cmds="+url.QueryEscape("heads ;known nodes=;branchmap ;heads "), nil, nil)
	if err := <-s.errs; err != nil || repo.opened != 1 || repo.closed != 1 {
		t.Errorf("%d views opened, %d closed, %v; want one", repo.opened, repo.closed, err)
	}
}

// The answers of a batch are held until all are there.
func TestBatchIsBounded(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa")}
	one := int64(2*len(repo.heads[0]) + 1)
	for _, tt := range []struct {
		max  int64
		want bool // to be answered
	}{{2*one + 1, true}, {2 * one, false}} {
		s := serve(t, func(*http.Request) *Endpoint {
			return &Endpoint{Repo: repo, Features: testFeatures(), Limits: Limits{MaxBatchBytes: tt.max}}
		})
		s.do(t, "GET", "cmd=batch&cmds="+url.QueryEscape("heads ;heads "), nil, nil)
		if err := <-s.errs; errors.Is(err, hg.ErrTooLarge) == tt.want || (err == nil) != tt.want {
			t.Errorf("two answers of %d bytes, at most %d: %v, want an answer: %v", one, tt.max, err, tt.want)
		}
	}
}

func TestInternalErrorsAreNotTold(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa"), err: errors.New("secret")}
	s := serveRepo(t, repo, testFeatures())
	for _, query := range []string{"cmd=heads", "cmd=lookup&key=x", "cmd=branchmap", "cmd=listkeys&namespace=x", "cmd=clonebundles"} {
		a := s.do(t, "GET", query, nil, nil)
		err := <-s.errs
		if a.contentType != mediaError || string(a.body) != internalMessage+"\n" || err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; Serve returned %v", query, a, err)
		}
	}
}

func TestPeerURL(t *testing.T) {
	got := Peer{Scheme: "https", Host: "::1", User: "Jo Ä@x"}.URL()
	if want := "remote:https:%3A%3A1:Jo%20%C3%84%40x"; got != want {
		t.Errorf("URL = %s, want %s", got, want)
	}
}
