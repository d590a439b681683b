package differential

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

// serverSettings are keys that change what a repository is served like, as
// lines of its hgrc.
var serverSettings = []string{
	"",
	"[server]\nbundle1 = no", "[server]\nbundle1.pull = no", "[server]\nbundle1gd = no", "[server]\nbundle1gd.pull = no\nbundle1 = yes", "[server]\nbundle1.push = no",
	"[server]\nbundle1gd = yes\nbundle1 = no",
	"[server]\ndisablefullbundle = yes",
	"[server]\nuncompressed = yes", "[server]\nuncompressed = yes\npreferuncompressed = yes", "[server]\nuncompressed = yes\nbundle2.stream = no",
	"[server]\nuncompressed = yes\n[experimental]\nbundle2.stream = no",
	"[server]\ncompressionengines = zlib", "[server]\ncompressionengines = none, zlib",
	"[server]\nconcurrent-push-mode = strict",
	"[server]\nmaxhttpheaderlen = 2000",
	"[server]\nvalidate = yes\nstreamunbundle = yes\nbookmarks-pushkey-compat = no\npullbundle = yes",
	"[phases]\npublish = no",
	"[experimental]\nhttppostargs = yes", "[experimental]\nevolution = all", "[experimental]\nevolution.exchange = no\nevolution.createmarkers = yes",
	"[experimental]\nchangegroup3 = yes",
}

// TestServerSettings compares what the keys of an hgrc do to the answers.
func TestServerSettings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	h := hgtest.New(t)
	for i, rc := range serverSettings {
		r := h.In(filepath.Join(root, fmt.Sprint("r", i)))
		h.Run("init", r.Dir)
		if i == 0 {
			r.Commit("one", map[string]string{"f": "1\n"})
		} else {
			r.Run("pull", "-q", filepath.Join(root, "r0"))
			r.Run("phase", "-p", "tip")
		}
		r.Write(".hg/hgrc", rc+"\n")
	}
	h.In(filepath.Join(root, "r0")).Run("phase", "-p", "tip")
	p := servePair(t, root)
	caps := "bundlecaps=HG20%2Cbundle2%3DHG20%250Achangegroup%253D01%252C02"
	for i, rc := range serverSettings {
		for _, q := range []struct{ head, body string }{
			{"GET /REPO?cmd=capabilities", ""},
			{"GET /REPO?cmd=listkeys&namespace=phases", ""},
			{"GET /REPO?cmd=getbundle&common=" + strings.Repeat("0", 40), ""},
			{"GET /REPO?cmd=getbundle&" + caps, ""},
			{"GET /REPO?cmd=getbundle&" + caps + "\nX-HgProto-1: 0.1 0.2 comp=zstd,zlib,none,bzip2", ""},
			{"POST /REPO?cmd=unbundle&heads=666f726365\nContent-Length: 18", "HG10UN" + strings.Repeat("\x00", 12)},
			{"POST /REPO?cmd=pushkey&namespace=bookmarks&key=b&old=&new=" + strings.Repeat("1", 40) + "\nContent-Length: 0", ""},
		} {
			first, rest, _ := strings.Cut(strings.Replace(q.head, "REPO", fmt.Sprint("r", i), 1), "\n")
			head := strings.TrimSuffix(first+" HTTP/1.1\nHost: h\n"+rest, "\n")
			got, _ := dial(t, p.vcsd.URL).ask(head, q.body)
			want, _ := dial(t, p.stock.URL).ask(head, q.body)
			if settled(got) != settled(want) {
				t.Errorf("%q, %s:\n got %s\nwant %s", rc, first, settled(got), settled(want))
			}
		}
	}
}

// settled renders an answer, compressed ones by what they say and not how.
func settled(a answer) string {
	data, err := (&hgtest.Answer{Status: a.code, Header: http.Header{"Content-Type": {a.mediaType}}, Body: a.raw}).Payload()
	if err != nil {
		return fmt.Sprint(a.status, " ", err)
	}
	if a.code >= 400 {
		return fmt.Sprintf("%s %.200q", a.status, data)
	}
	// vcsd doesn't fetch from where a client says.
	data = bytes.Replace(data, []byte("%0Aremote-changegroup%3Dhttp%2Chttps"), nil, 1)
	engine := ""
	if a.mediaType == "application/mercurial-0.2" && len(a.raw) > 0 {
		engine = string(a.raw[1 : 1+a.raw[0]])
	}
	return fmt.Sprintf("%s %s %s %q", a.status, a.mediaType, engine, data)
}
