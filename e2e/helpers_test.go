package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// site is a served repository "r" and what a test needs around it.
type site struct {
	*hgtest.Server
	hg     *hgtest.HG // in the root
	client *hgtest.Client
}

// newSite serves an empty repository "r".
func newSite(t *testing.T, config ...string) *site {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init", "r")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: config})
	return &site{s, h, s.Client("r")}
}

// restart starts the server after a kill and follows it to its new port.
func (s *site) restart() {
	s.Start()
	s.client.URL = s.URL + "/r"
}

// push posts a bundle2 push and decodes the answer.
func (s *site) push(ctx context.Context, parts ...hgtest.Part) (hgtest.Reply, error) {
	return s.post(ctx, hgtest.Bundle2(parts...))
}

func (s *site) post(ctx context.Context, bundle []byte) (hgtest.Reply, error) {
	a, err := s.client.Unbundle(ctx, hgtest.Force, bundle)
	if err != nil {
		return hgtest.Reply{}, err
	}
	if a.Status != 200 {
		return hgtest.Reply{}, fmt.Errorf("status %d: %.200q", a.Status, a.Body)
	}
	return hgtest.ParseReply(a)
}

// mustPush pushes what has to be taken.
func (s *site) mustPush(t *testing.T, parts ...hgtest.Part) {
	t.Helper()
	r, err := s.push(t.Context(), parts...)
	if err != nil || r.Return == 0 || r.Error != "" {
		t.Fatalf("push: reply %+v, error %v", r, err)
	}
}

// checkStore verifies the store, after the server was stopped, and that the
// heads there are those of want.
func (s *site) checkStore(t *testing.T, want []hg.Node) {
	t.Helper()
	r := s.hg.In("r")
	r.Verify()
	got := r.Nodes("heads(all())")
	if fmt.Sprint(hgtest.SortedNodes(got)) != fmt.Sprint(hgtest.SortedNodes(want)) {
		t.Errorf("%d heads in the store, want %d:\n got %v\nwant %v", len(got), len(want), got, want)
	}
}

// records counts the commit records of vcsd's journal.
func (s *site) records(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Repo("r"), ".hg", "vcsd", "journal", "*.rec"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// quarantined lists the files that stand in the quarantine, but for locks.
func (s *site) quarantined(t *testing.T) []string {
	t.Helper()
	// A client that went away doesn't wait for what its push leaves to be
	// removed.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		if names := s.inQuarantine(t); len(names) == 0 || time.Now().After(end) {
			return names
		}
	}
}

func (s *site) inQuarantine(t *testing.T) []string {
	t.Helper()
	var names []string
	top := filepath.Join(s.Repo("r"), ".hg", "vcsd", "quarantine")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil
		case err != nil:
			return err
		case !d.IsDir() && !strings.HasSuffix(path, "lock"):
			names = append(names, strings.TrimPrefix(path, top))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// logTime bounds how long a server may take to log what it has done; only one
// that doesn't reaches it.
const logTime = time.Minute

// logged waits until as many lines of what a server printed match a regular
// expression as args, a number and the expression, say.
func logged(s *hgtest.Server, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: logged N REGEXP")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	re, err := regexp.Compile("(?m)^.*" + args[1] + ".*$")
	if err != nil {
		return err
	}
	for end := time.Now().Add(logTime); ; time.Sleep(10 * time.Millisecond) {
		n := len(re.FindAllString(s.Log(), -1))
		if n == want {
			return nil
		}
		if n > want || time.Now().After(end) {
			return fmt.Errorf("%d lines match %q, want %d, in\n%s", n, re, want, s.Log())
		}
	}
}

// startProxy starts a web server that passes requests on to a URL with headers,
// each NAME=VALUE, and returns its own URL.
func startProxy(t testing.TB, to string, headers []string) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		for _, h := range headers {
			name, value, _ := strings.Cut(h, "=")
			r.Out.Header.Set(name, value)
		}
	}})
	t.Cleanup(p.Close)
	return p.URL
}

// checkFingerprint connects to a server, which must show the certificate that
// stands in a file.
func checkFingerprint(t testing.TB, host, file string) {
	t.Helper()
	want, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	// What it is signed by doesn't matter here.
	c, err := tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.ConnectionState().PeerCertificates[0]; !bytes.Equal(got.Raw, want.Certificate[0]) {
		t.Errorf("the server shows certificate %d, want the one in %s", got.SerialNumber, file)
	}
}
