package wire

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/wire/compression"
)

const (
	bundle2Query = "cmd=getbundle&bundlecaps=HG20"
	allEngines   = "0.1 0.2 comp=zstd,zlib,none,bzip2"
)

func TestStreamForms(t *testing.T) {
	// Longer than all buffers, or net/http finds out its length by itself.
	text := randomText(300_000)
	tests := []struct {
		name   string
		proto  string
		write  func(*Stream) error
		media  string
		prefix string // of the body; the rest decompresses to text
		engine compression.Engine
		length bool // Content-Length is there
	}{
		{name: "old client", proto: "", media: mediaType1, engine: compression.Zlib},
		{name: "server's first choice", proto: allEngines, media: mediaType2, prefix: "\x04zstd", engine: compression.Zstd},
		{name: "client's only choice", proto: "0.2 comp=zlib", media: mediaType2, prefix: "\x04zlib", engine: compression.Zlib},
		{name: "no choice", proto: "0.2 comp=none", media: mediaType1, engine: compression.Zlib},
		{name: "uncompressed", proto: "0.2 comp=zlib", media: mediaType2, prefix: "\x04none", engine: compression.None,
			write: func(s *Stream) error { s.Uncompressed(); return nil }},
		{name: "uncompressed for an old client", media: mediaType1, engine: compression.Zlib,
			write: func(s *Stream) error { s.Uncompressed(); return nil }},
		{name: "uncompressed, of known size", proto: "0.2", media: mediaType2, prefix: "\x04none", engine: compression.None, length: true,
			write: func(s *Stream) error { s.Uncompressed(); s.SetSize(int64(len(text))); return nil }},
		{name: "size of what will be compressed", proto: allEngines, media: mediaType2, prefix: "\x04zstd", engine: compression.Zstd,
			write: func(s *Stream) error { s.SetSize(int64(len(text))); return nil }},
		{name: "flushed", proto: allEngines, media: mediaType2, prefix: "\x04zstd", engine: compression.Zstd,
			write: (*Stream).Flush},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
				if tt.write != nil {
					if err := tt.write(s); err != nil {
						return err
					}
				}
				_, err := io.WriteString(s, text)
				return err
			}}
			s := serveRepo(t, repo, testFeatures())
			a := s.do(t, "GET", bundle2Query, http.Header{"X-HgProto-1": {tt.proto}}, nil)
			if err := <-s.errs; err != nil {
				t.Fatal(err)
			}
			rest, ok := strings.CutPrefix(string(a.body), tt.prefix)
			if a.contentType != tt.media || !ok || (a.length >= 0) != tt.length {
				t.Errorf("answer %s, %s, %d bytes; want %s, prefix %q and a length: %v", a.status, a.contentType, a.length, tt.media, tt.prefix, tt.length)
			}
			if got := decompress(t, tt.engine, rest); got != text {
				t.Errorf("text of %d bytes differs from that of %d", len(got), len(text))
			}
		})
	}
}

func randomText(n int) string {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

func decompress(t *testing.T, e compression.Engine, data string) string {
	t.Helper()
	r, err := compression.NewReader(e, strings.NewReader(data), compression.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%v: %v", e, err)
	}
	return string(b)
}

// TestEncoded sends data that is compressed already, to those who can read it.
func TestEncoded(t *testing.T) {
	tests := []struct {
		proto  string
		engine compression.Engine
		want   bool
		media  string
	}{
		{allEngines, compression.Zstd, true, mediaType2},
		{allEngines, compression.Bzip2, true, mediaType2},
		{allEngines, compression.None, true, mediaType2},
		{"0.2 comp=zlib", compression.Zstd, false, ""},
		{"0.2 comp=zlib", compression.None, true, mediaType2},
		{"0.2", compression.Zlib, true, mediaType2},
		{"", compression.Zlib, true, mediaType1},
		{"", compression.Zstd, false, ""},
		{"", compression.None, false, ""},
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("as it is"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v for %q", tt.engine, tt.proto), func(t *testing.T) {
			var ok bool
			repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
				if ok = s.Encoded(tt.engine); !ok {
					return nil
				}
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				s.SetSize(8)
				_, err = s.ReadFrom(f)
				return err
			}}
			s := serveRepo(t, repo, testFeatures())
			a := s.do(t, "GET", bundle2Query, http.Header{"X-HgProto-1": {tt.proto}}, nil)
			if err := <-s.errs; err != nil || ok != tt.want {
				t.Fatalf("Encoded = %v, %v; want %v", ok, err, tt.want)
			}
			want := "as it is"
			if tt.media == mediaType2 {
				name := tt.engine.WireName()
				want = string(rune(len(name))) + name + want
			}
			if ok && (a.contentType != tt.media || string(a.body) != want || a.length != int64(len(want))) {
				t.Errorf("answer %v, want %s %q", a, tt.media, want)
			}
		})
	}
}

// The files of a store are sent as they are: their chunks are compressed.
func TestStreamOfFilesIsUncompressed(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa"), getBundle: func(_ GetBundleArgs, s *Stream) error {
		_, err := s.Write([]byte("files"))
		return err
	}}
	s := serveRepo(t, repo, testFeatures())
	a := s.do(t, "GET", bundle2Query+"&cg=0&stream=1", http.Header{"X-HgProto-1": {allEngines}}, nil)
	<-s.errs
	if want := "\x04nonefiles"; a.contentType != mediaType2 || string(a.body) != want {
		t.Errorf("answer %v, want %s with %q", a, mediaType2, want)
	}
}

func TestGetBundleErrors(t *testing.T) {
	no := &hg.Abort{Message: "no", Hint: "hint"}
	tests := []struct {
		name   string
		query  string
		change func(*Features)
		err    error
		media  string
		want   string // in the body
	}{
		{"bundle2", bundle2Query, nil, no, mediaType2, "\x04noneHG20\x00\x00\x00\x00"},
		{"bundle2, the part", bundle2Query, nil, no, mediaType2, "ERROR:ABORT"},
		{"bundle1", "cmd=getbundle", nil, no, mediaError, "no\n(hint)\n"},
		{"bundle1 not allowed", "cmd=getbundle", func(f *Features) { f.Bundle1Pull = false }, nil, mediaError,
			"incompatible Mercurial client; bundle2 required\n(see https://www.mercurial-scm.org/wiki/IncompatibleClient)\n"},
		{"no full pull", bundle2Query + "&heads=" + node("aa").String(), func(f *Features) { f.NoFullPull = true }, nil, mediaType2,
			"server has pull-based clones disabled"},
		{"no full pull, a part", bundle2Query + "&common=" + node("aa").String(), func(f *Features) { f.NoFullPull = true }, nil, mediaType2, "\x04zstd"},
		{"no full pull, a stream", bundle2Query + "&cg=0&heads=" + node("aa").String(), func(f *Features) { f.NoFullPull = true }, nil, mediaType2, "\x04zstd"},
		{"node malformed", bundle2Query + "&heads=zz", nil, nil, mediaError, "malformed data: node of 2 digits, want 40\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			features := testFeatures()
			if tt.change != nil {
				tt.change(features)
			}
			repo := &fakeRepo{heads: nodes("aa"), getBundle: func(_ GetBundleArgs, s *Stream) error {
				s.SetSize(5) // of what is never written
				return tt.err
			}}
			s := serveRepo(t, repo, features)
			a := s.do(t, "GET", tt.query, http.Header{"X-HgProto-1": {allEngines}}, nil)
			<-s.errs
			if a.contentType != tt.media || !bytes.Contains(a.body, []byte(tt.want)) {
				t.Errorf("answer %v, want %s with %q", a, tt.media, tt.want)
			}
			if repo.opened != repo.closed {
				t.Errorf("%d views opened, %d closed", repo.opened, repo.closed)
			}
		})
	}
}

// TestBrokenStreamIsCut makes sure that a client can tell half an answer from
// a whole one.
func TestBrokenStreamIsCut(t *testing.T) {
	for _, size := range []int{1, 1 << 20} {
		repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
			s.Uncompressed()
			if _, err := s.Write(make([]byte, size)); err != nil {
				return err
			}
			return errors.New("disk on fire")
		}}
		s := serveRepo(t, repo, testFeatures())
		resp, err := http.Get(s.url + "/?" + bundle2Query)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%d bytes: the client noticed nothing", size)
		}
		var broken *BrokenError
		if err := <-s.errs; !errors.As(err, &broken) || !strings.Contains(err.Error(), "disk on fire") {
			t.Errorf("Serve returned %v, want a BrokenError", err)
		}
	}
}

func TestStreamOutNotOffered(t *testing.T) {
	features := testFeatures()
	features.StreamOut = false
	s := serveRepo(t, &fakeRepo{}, features)
	a := s.do(t, "GET", "cmd=stream_out", http.Header{"X-HgProto-1": {allEngines}}, nil)
	<-s.errs
	if a.contentType != mediaType1 || string(a.body) != "1\n" {
		t.Errorf("answer %v", a)
	}
}

// TestReasonsOnOneConnection sends several requests down one connection, so
// that a text could come too late or twice.
func TestReasonsOnOneConnection(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa"), getBundle: func(_ GetBundleArgs, s *Stream) error {
		_, err := s.Write([]byte("HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\n"))
		return err
	}}
	s := serve(t, func(r *http.Request) *Endpoint {
		return &Endpoint{Repo: repo, Features: testFeatures(), Allow: func(p Permission) error {
			if r.URL.Query().Get("deny") != "" {
				return &StatusError{Code: 403, Reason: "ssl\r\nrequired"}
			}
			return nil
		}}
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, tt := range []struct{ method, query, want string }{
		{"GET", "cmd=heads", "200 Script output follows"},
		{"GET", "cmd=heads&deny=1", "403 ssl  required"},
		{"HEAD", "cmd=heads", "200 Script output follows"},
		{"GET", "cmd=getbundle", "200 Script output follows"},
		{"GET", "cmd=nosuch", "400 unknown command"},
		{"GET", "cmd=heads", "200 Script output follows"},
	} {
		fmt.Fprintf(c, "%s /?%s HTTP/1.1\r\nHost: x\r\n\r\n", tt.method, tt.query)
		resp, err := http.ReadResponse(r, &http.Request{Method: tt.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		<-s.errs
		if resp.Status != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.query, resp.Status, tt.want)
		}
	}
}

// TestReasonAndSecureOverTLS makes sure that a wrapped connection is still known
// to be a secure one.
func TestReasonAndSecureOverTLS(t *testing.T) {
	ca := httptest.NewTLSServer(nil)
	defer ca.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ConnContext: ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := WriteStatus(w, r, &StatusError{Code: 403, Reason: fmt.Sprint("secure: ", TLSState(r) != nil)}); err != nil {
			t.Error(err)
		}
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ReasonListener(tls.NewListener(l, &tls.Config{Certificates: ca.TLS.Certificates})))
	}()
	defer func() {
		srv.Close()
		<-done
	}()
	resp, err := ca.Client().Get("https://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Status != "403 secure: true" {
		t.Errorf("status %q", resp.Status)
	}
}

func TestLevelThatIsNone(t *testing.T) {
	features := testFeatures()
	features.Levels = map[compression.Engine]int{compression.Zstd: 99}
	s := serveRepo(t, &fakeRepo{bundle: []byte("x")}, features)
	a := s.do(t, "GET", "cmd=getbundle", http.Header{"X-HgProto-1": {allEngines}}, nil)
	if err := <-s.errs; err == nil || a.contentType != mediaError {
		t.Errorf("answer %v, %v; want it refused", a, err)
	}
}

// TestHead: the header alone costs nothing.
func TestHead(t *testing.T) {
	repo := &fakeRepo{heads: nodes("aa"), bundle: []byte("bundle"), getBundle: func(GetBundleArgs, *Stream) error {
		t.Error("the bundle was made")
		return nil
	}}
	s := serveRepo(t, repo, testFeatures())
	for _, tt := range []struct{ query, media string }{
		{bundle2Query, mediaType2},
		{"cmd=getbundle", mediaType2},
		{"cmd=changegroup&roots=" + node("aa").String(), mediaType2},
		{"cmd=stream_out", mediaType1},
	} {
		a := s.do(t, "HEAD", tt.query, http.Header{"X-HgProto-1": {allEngines}}, nil)
		if err := <-s.errs; err != nil || a.status != "200 Script output follows" || a.contentType != tt.media || len(a.body) > 0 {
			t.Errorf("HEAD %s: %v, %v", tt.query, a, err)
		}
	}
	if repo.opened > 0 {
		t.Errorf("%d views were opened", repo.opened)
	}
}

// TestEngine: what Engine announces is what the client gets, encoded by either
// side.
func TestEngine(t *testing.T) {
	tests := []struct {
		proto  string
		engine compression.Engine
		level  int
		ok     bool
	}{
		{allEngines, compression.Zstd, 7, true},
		{"0.2 comp=none", compression.Zlib, 0, false}, // none in common: zlib, in media type 0.1
		{"0.2 comp=zlib", compression.Zlib, 0, true},
		{"", compression.Zlib, 0, true},
	}
	for _, tt := range tests {
		features := testFeatures()
		features.Levels = map[compression.Engine]int{compression.Zstd: 7}
		repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
			e, level, ok := s.Engine()
			if e != tt.engine || level != tt.level || ok != tt.ok {
				t.Errorf("%q: Engine() = %v, %d, %v; want %v, %d, %v", tt.proto, e, level, ok, tt.engine, tt.level, tt.ok)
			}
			if got := s.Encoded(e); got != ok {
				t.Errorf("%q: Encoded(%v) = %v, want %v", tt.proto, e, got, ok)
			}
			return nil
		}}
		s := serveRepo(t, repo, features)
		s.do(t, "GET", bundle2Query, http.Header{"X-HgProto-1": {tt.proto}}, nil)
		<-s.errs
	}
}

// TestPullBundle: one that is ready is sent as it is, to those who ask for the
// rest, and before anything is refused.
func TestPullBundle(t *testing.T) {
	for _, tt := range []struct {
		proto string
		on    bool
		want  string // in the body
	}{
		{allEngines + " partial-pull", true, "\x04noneready"},
		{allEngines + " partial-pull", false, "disabled"},
		{allEngines, true, "disabled"},
	} {
		features := testFeatures()
		features.PullBundles, features.NoFullPull = tt.on, true
		s := serveRepo(t, &fakeRepo{heads: nodes("aa"), pullBundle: "ready"}, features)
		a := s.do(t, "GET", bundle2Query+"&heads="+node("aa").String(), http.Header{"X-HgProto-1": {tt.proto}}, nil)
		<-s.errs
		if !strings.Contains(string(a.body), tt.want) {
			t.Errorf("%q, switched on: %v: answer %v, want %q", tt.proto, tt.on, a, tt.want)
		}
	}
}

// TestErrorAtTheEnd: what was written before an error reaches the client,
// compressed or not, though the answer has no end.
func TestErrorAtTheEnd(t *testing.T) {
	for _, proto := range []string{allEngines, "0.2 comp=none", ""} {
		told := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
			if _, err := s.Write([]byte("this is why")); err != nil {
				return err
			}
			return Answered(errors.New("disk on fire"))
		}}
		ts := serveRepo(t, told, testFeatures())
		ts.do(t, "GET", bundle2Query, http.Header{"X-HgProto-1": {proto}}, nil) // fails if it is cut
		if err := <-ts.errs; err == nil {
			t.Errorf("%q: Serve returned no error to log", proto)
		}
		repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
			if _, err := s.Write([]byte("this is why")); err != nil {
				return err
			}
			return errors.New("disk on fire")
		}}
		s := serveRepo(t, repo, testFeatures())
		req, err := http.NewRequest("GET", s.url+"/?"+bundle2Query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-HgProto-1", proto)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%q: %v", proto, err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		<-s.errs
		if err == nil {
			t.Errorf("%q: the answer ends as a whole one does", proto)
		}
		engine, data := compression.Zlib, b
		if resp.Header.Get("Content-Type") == mediaType2 {
			name := string(b[1 : 1+b[0]])
			engine, _ = compression.FromWire(name)
			data = b[1+b[0]:]
		}
		r, err := compression.NewReader(engine, bytes.NewReader(data), compression.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(r); string(got) != "this is why" {
			t.Errorf("%q: %v: got %q", proto, engine, got)
		}
	}
}
