package wire

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/wire/compression"
)

// hgEnv is the environment of an hg without configuration.
func hgEnv() []string {
	return append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGENCODING=utf-8", "LC_ALL=C.UTF-8", "no_proxy=127.0.0.1", "HGUSER=u")
}

func needHg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("hg"); err != nil {
		t.Fatal(err)
	}
}

func runHg(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := tryHg(dir, args...)
	if err != nil {
		t.Fatalf("hg %q: %v: %s", args, err, out)
	}
	return out
}

// tryHg returns both outputs.
func tryHg(dir string, args ...string) (string, error) {
	cmd := exec.Command("hg", args...)
	cmd.Dir, cmd.Env = dir, hgEnv()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// makeRepo makes a repository with branches, a merge, a bookmark and a tag.
func makeRepo(t *testing.T, dir string) {
	t.Helper()
	runHg(t, "", "init", dir)
	// Twenty changesets in a line, two branches from there, a merge of them, and
	// one more on a branch whose name needs quoting.
	runHg(t, dir, "debugbuilddag", "+20:t @default +1:a *t @b"+"r +1:b *a/b *b @other +1")
	write(t, filepath.Join(dir, "f"), "x")
	runHg(t, dir, "update", "-q", "tip")
	runHg(t, dir, "branch", "-q", "br \u00e4/x")
	runHg(t, dir, "commit", "-Aqm", "last")
	runHg(t, dir, "bookmark", "-r", "20", "bm")
}

// startHg serves dir and returns its address.
func startHg(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("hg", append([]string{"serve", "-a", "127.0.0.1", "-p", "0", "-A", os.DevNull, "-E", os.DevNull}, args...)...)
	cmd.Env = hgEnv()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	port := regexp.MustCompile(`:(\d+)\)`).FindStringSubmatch(line)
	if err != nil || port == nil {
		t.Fatalf("hg serve said %q, %v", line, err)
	}
	return "http://127.0.0.1:" + port[1]
}

// readRepo makes a fakeRepo that knows what is in dir.
func readRepo(t *testing.T, dir string) *fakeRepo {
	t.Helper()
	f := &fakeRepo{parents: map[hg.Node][2]hg.Node{}, names: map[string]hg.Node{}}
	out := runHg(t, dir, "log", "-T", `{node} {p1node} {p2node}\n`)
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		w := strings.Split(line, " ")
		n := node(w[0])
		f.parents[n] = [2]hg.Node{node(w[1]), node(w[2])}
		f.names[w[0][:12]] = n
	}
	for hex := range strings.FieldsSeq(runHg(t, dir, "log", "-r", "reverse(heads(all()))", "-T", `{node} `)) {
		f.heads = append(f.heads, node(hex))
	}
	out = runHg(t, dir, "heads", "-T", `{node} {branch|urlescape}\n`)
	heads := map[string][]hg.Node{}
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		hex, name, _ := strings.Cut(line, " ")
		name, err := url.PathUnescape(name)
		if err != nil {
			t.Fatal(err)
		}
		heads[name] = append(heads[name], node(hex))
	}
	for name, list := range heads {
		f.branches = append(f.branches, Branch{name, list})
	}
	bm := strings.TrimSpace(runHg(t, dir, "log", "-r", "bm", "-T", "{node}"))
	f.names["bm"] = node(bm)
	f.keys = map[string]map[string]string{
		"bookmarks":  {"bm": bm},
		"namespaces": {"bookmarks": "", "namespaces": "", "phases": ""},
	}
	return f
}

// TestAgainstHgServe sends the same requests to hg serve and to an Endpoint.
func TestAgainstHgServe(t *testing.T) {
	needHg(t)
	dir := filepath.Join(t.TempDir(), "r")
	makeRepo(t, dir)
	write(t, filepath.Join(dir, ".hg/clonebundles.manifest"), "http://x/y BUNDLESPEC=z\n\nodd line")
	repo := readRepo(t, dir)
	features := testFeatures()
	features.CloneBundles = true
	repo.manifest = []byte("http://x/y BUNDLESPEC=z\n\nodd line")
	hgURL := startHg(t, "-R", dir, "--config", "web.push_ssl=no", "--config", "extensions.clonebundles=")
	ours := serve(t, func(r *http.Request) *Endpoint {
		return &Endpoint{Repo: repo, Pusher: repo, Features: features, Allow: func(p Permission) error {
			return Authorize(&config.Web{AllowPull: true}, "", r.Method, TLSState(r) != nil, p)
		}}
	})
	tip, root := repo.heads[0].String(), ""
	for n, p := range repo.parents {
		if p[0].IsNull() {
			root = n.String()
		}
	}
	unknown, null := strings.Repeat("ab", 20), hg.NullNode.String()
	arg := func(s string) http.Header {
		return http.Header{"X-HgArg-1": {s[:len(s)/2]}, "X-HgArg-2": {s[len(s)/2:]}}
	}
	tests := []struct {
		name   string
		method string
		query  string
		header http.Header
		body   string
	}{
		{name: "heads", query: "cmd=heads"},
		{name: "two commands", query: "cmd=nosuch&cmd=heads"},
		{name: "heads by POST", method: "POST", query: "cmd=heads"},
		{name: "heads by PUT", method: "PUT", query: "cmd=heads"},
		{name: "known", query: "cmd=known&nodes=" + tip + "+" + unknown + "+" + root},
		{name: "known in headers", query: "cmd=known", header: arg("nodes=" + tip + "+" + unknown + "%20" + root)},
		{name: "known of nothing", query: "cmd=known&nodes="},
		{name: "known in the body", method: "POST", query: "cmd=known", header: http.Header{"X-HgArgs-Post": {"46"}}, body: "nodes=" + tip},
		{name: "header over query", query: "cmd=lookup&key=bm", header: arg("key=nosuch")},
		{name: "first of two", query: "cmd=lookup&key=bm&key=nosuch"},
		{name: "lookup", query: "cmd=lookup&key=" + tip[:12]},
		{name: "lookup of a bookmark", query: "cmd=lookup&key=bm"},
		{name: "lookup of nothing known", query: "cmd=lookup&key=no%20such"},
		{name: "lookup with a stray percent sign", query: "cmd=lookup&key=a%zz"},
		{name: "listkeys", query: "cmd=listkeys&namespace=namespaces"},
		{name: "listkeys of bookmarks", query: "cmd=listkeys&namespace=bookmarks"},
		{name: "listkeys of an unknown namespace", query: "cmd=listkeys&namespace=x"},
		{name: "between", query: "cmd=between&pairs=" + tip + "-" + root + "+" + tip + "-" + null},
		{name: "between nothing", query: "cmd=between&pairs=" + null + "-" + null},
		{name: "branches", query: "cmd=branches&nodes=" + tip + "+" + root},
		{name: "branches of none", query: "cmd=branches&nodes="},
		{name: "clonebundles", query: "cmd=clonebundles"},
		{name: "protocaps", query: "cmd=protocaps&caps=x"},
		{name: "debugwireargs", query: "cmd=debugwireargs&one=1&two=2&three=3&five=5"},
		{name: "batch", query: "cmd=batch&cmds=" + url.QueryEscape("heads ;known nodes="+tip+";lookup key=a:e:c:s:o;heads x=y")},
		{name: "batch with an empty answer", query: "cmd=batch&cmds=" + url.QueryEscape("known nodes=;listkeys namespace=bookmarks")},
		{name: "push by GET", query: "cmd=pushkey&namespace=bookmarks&key=x&old=&new="},
		{name: "push by PUT", method: "PUT", query: "cmd=unbundle&heads=666f726365", body: "HG20"},
		{name: "push that isn't allowed", method: "POST", query: "cmd=unbundle&heads=666f726365", body: "HG20"},
		{name: "pushkey in a batch", method: "POST", query: "cmd=batch&cmds=" + url.QueryEscape("pushkey namespace=bookmarks,key=x,old=,new=")},
		{name: "hello", query: "cmd=hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = "GET"
			}
			want := request(t, method, hgURL+"/?"+tt.query, tt.header, strings.NewReader(tt.body))
			got := ours.do(t, method, tt.query, tt.header, strings.NewReader(tt.body))
			<-ours.errs
			want.body = withoutRemoteChangegroup(want.body)
			want.length = int64(len(want.body))
			if want.contentType == "" && want.status[0] == '4' {
				want.contentType = mediaType1 // hg serve without --web-conf sends none with errors
			}
			if got.status != want.status || got.contentType != want.contentType || got.length != want.length || !bytes.Equal(got.body, want.body) {
				t.Errorf("%s\n got %v\nwant %v", tt.query, got, want)
			}
		})
	}
	t.Run("branchmap", func(t *testing.T) {
		sorted := func(a answer) string {
			lines := strings.Split(string(a.body), "\n")
			for i, l := range lines {
				name, list, _ := strings.Cut(l, " ")
				words := strings.Split(list, " ")
				slices.Sort(words)
				lines[i] = name + " " + strings.Join(words, " ")
			}
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		}
		want := sorted(request(t, "GET", hgURL+"/?cmd=branchmap", nil, nil))
		if got := sorted(ours.do(t, "GET", "cmd=branchmap", nil, nil)); got != want {
			t.Errorf("branchmap\n got %s\nwant %s", got, want)
		}
	})
	t.Run("path below a repository", func(t *testing.T) {
		want := request(t, "GET", hgURL+"/x?cmd=heads", nil, nil)
		if want.status != "404 Not Found" || string(want.body) != "0\nNot Found\n" || want.contentType != mediaType1 {
			t.Errorf("hg serve says %v, and WriteNotFound doesn't", want)
		}
	})
	t.Run("streams", func(t *testing.T) { compareStreams(t, hgURL, ours, repo) })
}

// compareStreams lets an Endpoint send the same bundles as hg and compares how
// they are packed.
func compareStreams(t *testing.T, hgURL string, ours *testServer, repo *fakeRepo) {
	caps := "cg=1&bundlecaps=HG20%2Cbundle2%3DHG20%250Achangegroup%253D02"
	tests := []struct {
		name, query, proto string
	}{
		{"old client", "cmd=getbundle", ""},
		{"0.1", "cmd=getbundle&" + caps, "0.1"},
		{"0.2 with zstd", "cmd=getbundle&" + caps, "0.1 0.2 comp=zstd,zlib,none,bzip2 partial-pull"},
		{"0.2 with zlib", "cmd=getbundle&" + caps, "0.1 0.2 comp=zlib,none"},
		{"0.2 without comp", "cmd=getbundle&" + caps, "0.1 0.2"},
		{"nothing in common", "cmd=getbundle&" + caps, "0.1 0.2 comp=snappy"},
		{"changegroup", "cmd=changegroup&roots=" + hg.NullNode.String(), "0.1 0.2 comp=zstd"},
		{"changegroupsubset", "cmd=changegroupsubset&bases=" + hg.NullNode.String() + "&heads=" + repo.heads[0].String(), ""},
		{"stream_out", "cmd=stream_out", "0.1 0.2 comp=zstd"},
		{"stream bundle", "cmd=getbundle&stream=1&cg=0&bundlecaps=HG20%2Cbundle2%3DHG20%250Astream%253Dv2", "0.1 0.2 comp=zstd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.proto != "" {
				h.Set("X-HgProto-1", tt.proto)
			}
			want := request(t, "GET", hgURL+"/?"+tt.query, h, nil)
			wantEngine, wantBody := unpack(t, tt.query, want)
			repo.bundle = wantBody
			repo.getBundle = nil
			if strings.Contains(tt.query, "stream=1") {
				repo.getBundle = func(_ GetBundleArgs, s *Stream) error {
					s.Uncompressed()
					_, err := s.Write(wantBody)
					return err
				}
			}
			got := ours.do(t, "GET", tt.query, h, nil)
			if err := <-ours.errs; err != nil {
				t.Fatal(err)
			}
			gotEngine, gotBody := unpack(t, tt.query, got)
			if got.status != want.status || got.contentType != want.contentType || gotEngine != wantEngine || !bytes.Equal(gotBody, wantBody) {
				t.Errorf("got %s %s %s %d bytes, want %s %s %s %d", got.status, got.contentType, gotEngine, len(gotBody),
					want.status, want.contentType, wantEngine, len(wantBody))
			}
		})
	}
}

// unpack takes the media type's frame and the compression away.
func unpack(t *testing.T, query string, a answer) (engine string, body []byte) {
	t.Helper()
	body = a.body
	switch {
	case strings.HasPrefix(query, "cmd=stream_out"):
		return "bare", body
	case a.contentType == mediaType1:
		engine = "zlib"
	case a.contentType == mediaType2:
		n := int(body[0])
		engine, body = string(body[1:1+n]), body[1+n:]
	default:
		t.Fatalf("media type %q, body %q", a.contentType, a.body)
	}
	e, ok := compression.FromWire(engine)
	if !ok {
		t.Fatalf("engine %q", engine)
	}
	r, err := compression.NewReader(e, bytes.NewReader(body), compression.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, err = io.ReadAll(r); err != nil {
		t.Fatalf("%s: %v", engine, err)
	}
	return engine, body
}

func withoutRemoteChangegroup(b []byte) []byte {
	return bytes.Replace(b, []byte("%0Aremote-changegroup%3Dhttp%2Chttps"), nil, 1)
}

// TestCapabilitiesAgainstHgServe configures both sides alike.
func TestCapabilitiesAgainstHgServe(t *testing.T) {
	needHg(t)
	root := t.TempDir()
	tests := []struct {
		name   string
		hgrc   string
		change func(*Features)
	}{
		{"default", "", func(*Features) {}},
		{"nostream", "[server]\nuncompressed = no\n", func(f *Features) { f.StreamOut, f.Bundle2Stream = false, false }},
		{"nostream2", "[server]\nbundle2.stream = no\n", func(f *Features) { f.Bundle2Stream = false }},
		{"prefer", "[server]\npreferuncompressed = yes\n", func(f *Features) { f.StreamPreferred = true }},
		{"post", "[experimental]\nhttppostargs = yes\n", func(f *Features) { f.PostArgs = true }},
		{"cg3", "[experimental]\nchangegroup3 = yes\n", func(f *Features) { f.Changegroups = []string{"01", "02", "03"} }},
		{"obsolete", "[experimental]\nevolution = all\n", func(f *Features) { f.Obsmarkers = true }},
		{"strict", "[server]\nconcurrent-push-mode = strict\n", func(f *Features) { f.CheckRelated = false }},
		{"header", "[server]\nmaxhttpheaderlen = 77\n", func(f *Features) { f.HeaderLen = 77 }},
		{"engines", "[server]\ncompressionengines = none, bz2, zlib\n", func(f *Features) {
			var err error
			if f.Engines, err = EnginesByName([]string{"none", "bz2", "zlib"}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		dir := filepath.Join(root, tt.name)
		runHg(t, "", "init", dir)
		write(t, filepath.Join(dir, ".hg/hgrc"), tt.hgrc)
	}
	conf := filepath.Join(root, "web.conf")
	write(t, conf, "[paths]\n/ = "+root+"/*\n")
	url := startHg(t, "--web-conf", conf)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := withoutRemoteChangegroup(request(t, "GET", url+"/"+tt.name+"?cmd=capabilities", nil, nil).body)
			f := testFeatures()
			tt.change(f)
			if got := f.Capabilities(); got != string(want) {
				t.Errorf("capabilities\n got %s\nwant %s", got, want)
			}
		})
	}
}
