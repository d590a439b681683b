package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"github.com/klauspost/compress/zstd"
)

// target is a site with one changeset, and what it looks like while nothing
// was accepted.
type target struct {
	*site
	root  *hgtest.Changeset
	store map[string]string // hash of each file
	heads string
}

func newTarget(t *testing.T) *target {
	t.Helper()
	g := &target{site: newSite(t), root: hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})}
	g.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(g.root))...)
	g.store, g.heads = g.storeFiles(t), fmt.Sprint(g.client.Heads())
	return g
}

// storeFiles returns the hash of each file of the store.
func (s *site) storeFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	top := filepath.Join(s.Repo("r"), ".hg", "store")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, top)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// refuses posts what must be refused: with an answer that stock hg shows as a
// sentence, and without a trace.
func (g *target) refuses(t *testing.T, bundle []byte) {
	t.Helper()
	a, err := g.client.Unbundle(t.Context(), hgtest.Force, bundle)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if msg, ok := refusal(a); !ok {
		t.Errorf("status %d, %v, body %.300q; want a refusal", a.Status, a.Header, a.Body)
	} else if strings.Contains(msg, "internal error") || strings.TrimSpace(msg) == "" {
		t.Errorf("refused with %q, which tells the user nothing", msg)
	} else {
		t.Log(msg)
	}
	g.checkUntouched(t)
}

// refusal returns the sentence that hg shows for a refused push: an error part
// of bundle2, or "0" and what follows it.
func refusal(a *hgtest.Answer) (string, bool) {
	if a.Status != 200 {
		return "", false
	}
	if r, err := hgtest.ParseReply(a); err == nil {
		return r.Reason + string(r.Output), r.Error != ""
	}
	text, ok := strings.CutPrefix(string(a.Body), "0\n")
	if !ok && a.Header.Get("Content-Type") == "application/hg-error" {
		return string(a.Body), true
	}
	return text, ok
}

func (g *target) checkUntouched(t *testing.T) {
	t.Helper()
	if left := g.quarantined(t); len(left) > 0 {
		t.Errorf("left in quarantine: %v", left)
	}
	heads, store := fmt.Sprint(g.client.For(t).Heads()), g.storeFiles(t)
	if heads != g.heads {
		t.Errorf("heads = %v, want %v", heads, g.heads)
	}
	if fmt.Sprint(store) != fmt.Sprint(g.store) {
		t.Errorf("store changed: %v, was %v", store, g.store)
	}
	g.heads, g.store = heads, store // so that one fault is told once
}

// unknownNode is a node that no repository of these tests has.
var unknownNode = hg.Node{0x12, 0x34}

// badChangesets are ways to spoil a changeset upon root.
var badChangesets = []struct {
	name  string
	spoil func(c *hgtest.Changeset)
}{
	{"changelog hash", func(c *hgtest.Changeset) { c.Changelog.Node[3] ^= 1 }},
	{"changelog text", func(c *hgtest.Changeset) { c.Changelog.Delta[len(c.Changelog.Delta)-1] ^= 1 }},
	{"manifest hash", func(c *hgtest.Changeset) { c.Manifest.Node[3] ^= 1 }},
	{"manifest text", func(c *hgtest.Changeset) { c.Manifest.Delta[20] ^= 1 }},
	{"file hash", func(c *hgtest.Changeset) { c.Files[0].Rev.Node[3] ^= 1 }},
	{"file text", func(c *hgtest.Changeset) { c.Files[0].Rev.Delta[12] ^= 1 }},
	{"null node", func(c *hgtest.Changeset) { c.Changelog.Node = hg.NullNode }},
	{"working node", func(c *hgtest.Changeset) { c.Files[0].Rev.Node = hg.WorkingNode }},
	{"missing parent of changeset", func(c *hgtest.Changeset) { c.SetChangelog(unknownNode, "m", []string{"f"}) }},
	{"missing parent of manifest", func(c *hgtest.Changeset) { c.Manifest.P1 = unknownNode }},
	{"missing parent of file", func(c *hgtest.Changeset) { c.Files[0].Rev = relink(unknownNode, "new\n", c) }},
	{"missing base", func(c *hgtest.Changeset) { c.Files[0].Rev.Base = unknownNode }},
	{"link to nothing", func(c *hgtest.Changeset) { c.Manifest.Link = unknownNode }},
	{"changelog linked to another", func(c *hgtest.Changeset) { c.Changelog.Link = unknownNode }},
	{"forgotten file revision", func(c *hgtest.Changeset) { c.Files = nil }},
	{"manifest of nobody", func(c *hgtest.Changeset) {
		c.Manifest = hgtest.NewRev(hg.NullNode, hg.NullNode, []byte("f\x00"+strings.Repeat("0", 40)+"\n"))
		c.SetChangelog(c.Changelog.P1, "m", []string{"f"})
	}},
	{"manifest without order", func(c *hgtest.Changeset) { remanifest(c, "f\x00%[1]s\na\x00%[1]s\n") }},
	{"manifest with a line cut off", func(c *hgtest.Changeset) { remanifest(c, "f\x00%.20[1]s") }},
	{"manifest with a name twice", func(c *hgtest.Changeset) { remanifest(c, "f\x00%[1]s\nf\x00%[1]s\n") }},
	{"delta that ends before it starts", func(c *hgtest.Changeset) { c.Files[0].Rev.Delta = hgtest.Fragment(5, 2, nil) }},
	{"delta beyond its base", func(c *hgtest.Changeset) { c.Files[0].Rev.Delta = hgtest.Fragment(0, 1<<31-1, []byte("x")) }},
	{"delta with a length of 4 GiB", func(c *hgtest.Changeset) {
		c.Files[0].Rev.Delta = append(bytes.Repeat([]byte{0}, 8), 0xff, 0xff, 0xff, 0xff, 'x')
	}},
	{"delta cut off", func(c *hgtest.Changeset) { c.Files[0].Rev.Delta = c.Files[0].Rev.Delta[:7] }},
	{"changelog that is no changeset", func(c *hgtest.Changeset) {
		c.Changelog = hgtest.NewRev(c.Changelog.P1, hg.NullNode, []byte("nonsense"))
		c.Changelog.Link = c.Changelog.Node
		c.Manifest.Link, c.Files[0].Rev.Link = c.Changelog.Node, c.Changelog.Node
	}},
}

func relink(p1 hg.Node, text string, c *hgtest.Changeset) hgtest.Rev {
	r := hgtest.NewRev(p1, hg.NullNode, []byte(text))
	r.Link = c.Node()
	return r
}

// remanifest gives c a manifest in which format's %[1]s is the node of its file.
func remanifest(c *hgtest.Changeset, format string) {
	text := fmt.Sprintf(format, c.Files[0].Rev.Node.String())
	c.Manifest = hgtest.NewRev(c.Manifest.P1, hg.NullNode, []byte(text))
	c.SetChangelog(c.Changelog.P1, "m", []string{"f"})
}

func TestBadChangesets(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	for _, tt := range badChangesets {
		t.Run(tt.name, func(t *testing.T) {
			c := hgtest.NewChangeset(g.root, "", "bad", map[string]string{"f": "text of f with " + tt.name + "\n"})
			tt.spoil(c)
			g.refuses(t, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(c))...))
		})
	}
	g.takesGood(t)
}

// takesGood pushes a good changeset after all the bad ones.
func (g *target) takesGood(t *testing.T) {
	t.Helper()
	good := hgtest.NewChangeset(g.root, "", "good", map[string]string{"f": "good\n"})
	g.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(good))...)
	g.Stop()
	g.checkStore(t, []hg.Node{good.Node()})
}

// unsafePaths would leave the working directory of whoever updates to them, or
// write into its .hg, on one system or another.
var unsafePaths = []string{
	"../x", "a/../../x", "..", "/abs", "a//b", "a/./b", "", ".hg/hgrc", "sub/.hg/hgrc", ".HG/hgrc", "a/.Hg/x",
	"HG~1/hgrc", "hg8b6c~2/hgrc", ".h\u200cg/hgrc", ".hg\ufeff/hgrc", "nul\x00byte",
}

func TestUnsafePaths(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	for _, name := range unsafePaths {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			c := hgtest.NewChangeset(g.root, "", "bad", map[string]string{name: "x\n"})
			g.refuses(t, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(c))...))
		})
	}
	t.Run("file group without a manifest entry", func(t *testing.T) {
		c := hgtest.NewChangeset(g.root, "", "bad", map[string]string{"f": "x\n"})
		c.Files = append(c.Files, hgtest.FileRev{Name: "../../x", Rev: relink(hg.NullNode, "x\n", c)})
		g.refuses(t, hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(c))...))
	})
	g.takesGood(t)
}

// badStreams are bundles that are wrong as streams.
func badStreams(good []byte) []struct {
	name string
	data []byte
} {
	mandatory := hgtest.Bundle2(hgtest.Part{Type: "NONSENSE"})
	part := hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "02"}, {Name: "nonsense", Value: "1"}}}
	return []struct {
		name string
		data []byte
	}{
		{"nothing", []byte{}},
		{"only the magic", []byte("HG20")},
		{"another magic", append([]byte("HG99"), good[4:]...)},
		{"no bundle", []byte("hello, world: this is no bundle at all")},
		{"unknown mandatory part", mandatory},
		{"unknown mandatory parameter of a part", hgtest.Bundle2(part)},
		{"unknown mandatory parameter of the stream", stream("Nonsense=1", good[8:])},
		{"unknown compression", stream("Compression=XX", good[8:])},
		{"unknown version of changegroup", hgtest.Bundle2(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "99"}}})},
		{"remote changegroup", hgtest.Bundle2(hgtest.Part{Type: "REMOTE-CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "url", Value: "http://127.0.0.1:1/"}, {Name: "size", Value: "1"}, {Name: "digests", Value: ""}}})},
		{"stream parameters of 4 GiB", append([]byte("HG20"), 0xff, 0xff, 0xff, 0xff)},
		{"part header of 4 GiB", append([]byte("HG20\x00\x00\x00\x00"), 0xff, 0xff, 0xff, 0xff)},
		{"part header of 1 byte", append([]byte("HG20\x00\x00\x00\x00"), 0, 0, 0, 1, 9)},
		{"payload of 2 GiB", rawPayload([]byte{0x7f, 0xff, 0xff, 0xff})},
		{"payload of negative length", rawPayload([]byte{0x80, 0, 0, 0})},
		{"chunk of 4 GiB", rawChangegroup([]byte{0xff, 0xff, 0xff, 0xff})},
		{"chunk of 2 GiB", rawChangegroup([]byte{0x7f, 0xff, 0xff, 0xff})},
		{"chunk shorter than its length field", rawChangegroup([]byte{0, 0, 0, 2})},
		{"chunk shorter than its header", rawChangegroup([]byte{0, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})},
		{"gzip that is none", append([]byte("HG10GZ"), "nonsense nonsense"...)},
		{"bzip2 that is none", append([]byte("HG10BZ"), "nonsense nonsense"...)},
		{"bundle1 cut off", []byte("HG10UN\x00\x00\x01\x00abc")},
	}
}

func stream(params string, rest []byte) []byte {
	b := append([]byte("HG20"), 0, 0, 0, byte(len(params)))
	return append(append(b, params...), rest...)
}

// rawPayload is a bundle whose one changegroup part has data for its payload,
// framing included.
func rawPayload(data []byte) []byte {
	b := hgtest.Bundle2(hgtest.Part{Type: "CHANGEGROUP", Mandatory: []hgtest.Param{{Name: "version", Value: "02"}}})
	return append(b[:len(b)-8], data...)
}

// rawChangegroup is a bundle whose changegroup starts with data.
func rawChangegroup(data []byte) []byte {
	return hgtest.Bundle2(hgtest.PushParts(nil, append(data, make([]byte, 200)...))...)
}

func TestBadStreams(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	next := hgtest.NewChangeset(g.root, "", "next", map[string]string{"f": "next\n"})
	for _, tt := range badStreams(hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(next))...)) {
		t.Run(tt.name, func(t *testing.T) { g.refuses(t, tt.data) })
	}
	g.checkMemory(t)
	g.takesGood(t)
}

// TestTruncated cuts a push at every boundary of its structure and one byte to
// either side.
func TestTruncated(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	next := hgtest.NewChangeset(g.root, "", "next", map[string]string{"f": "next\n", "g": "new\n"})
	cg := hgtest.ChangegroupOf(next)
	good := hgtest.Bundle2(hgtest.PushParts([]hg.Node{g.root.Node()}, cg)...)
	cuts := map[int]bool{}
	for _, at := range boundaries(good, cg) {
		for _, cut := range []int{at - 1, at, at + 1} {
			cuts[cut] = cut < len(good)
		}
	}
	for cut, inside := range cuts {
		if inside {
			t.Run(fmt.Sprint(cut), func(t *testing.T) { g.refuses(t, good[:cut]) })
		}
	}
	g.takesGood(t)
}

// boundaries returns where fields of a bundle2 stream start, and those of the
// changegroup in it.
func boundaries(bundle, cg []byte) []int {
	at := []int{4, 8}
	word := func(b []byte, i int) int { return int(int32(binary.BigEndian.Uint32(b[i:]))) }
	for i := 8; i < len(bundle)-4; {
		i += 4 + word(bundle, i) // the part's header
		at = append(at, i)
		for n := -1; n != 0; {
			n = word(bundle, i)
			at = append(at, i+4, i+4+n)
			i += 4 + n
		}
	}
	start := bytes.Index(bundle, cg)
	for i := 0; i < len(cg); {
		i += max(4, word(cg, i))
		at = append(at, start+i)
	}
	return at
}

// TestCompressionBomb sends a gigabyte of zeros in a few kilobytes: as the
// payload of a part the server ignores, and as one revision.
func TestCompressionBomb(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	chunk := append([]byte{0, 0, 0x80, 0}, make([]byte, 32<<10)...)
	advisory := hgtest.Bundle2(hgtest.Part{Type: "nonsense"})[8:]
	revision := rawPayload(nil)[8:]
	for _, tt := range []struct {
		name       string
		head, tail []byte
	}{
		{"advisory part without an end", advisory[:len(advisory)-8], nil},
		{"chunk of 1 GiB", append(revision, 0, 0, 0, 4, 0x40, 0, 0, 0), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
			if err != nil {
				t.Fatal(err)
			}
			z.Write(tt.head)
			for range 1 << 30 / len(chunk) {
				z.Write(chunk)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			g.refuses(t, stream("Compression=ZS", b.Bytes()))
		})
	}
	g.checkMemory(t)
	g.takesGood(t)
}

// maxServerBytes is what a server may have used at its peak when all it got is
// small or refused. The race detector multiplies memory by five to ten.
const maxServerBytes = 800 << 20

// checkMemory reads the peak of the server's memory.
func (s *site) checkMemory(t *testing.T) {
	t.Helper()
	peak := s.status(t, "VmHWM:")
	t.Logf("peak memory %d MiB", peak>>20)
	if peak > maxServerBytes {
		t.Errorf("peak memory %d MiB, want at most %d", peak>>20, maxServerBytes>>20)
	}
}

// TestClientVanishes cuts the connection in the middle of a body: the
// quarantine is swept and nothing else is there.
func TestClientVanishes(t *testing.T) {
	needVcsd(t)
	g := newTarget(t)
	next := hgtest.NewChangeset(g.root, "", "next", map[string]string{"f": strings.Repeat("next\n", 100_000)})
	bundle := hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(next))...)
	for _, part := range []int{0, 10, len(bundle) / 2, len(bundle) - 1} {
		conn, err := g.beginPush(hgtest.Force, len(bundle))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(bundle[:part]); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		// The server closes its side when it is done with the request.
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %d bytes: %v", part, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		g.checkUntouched(t)
	}
	g.takesGood(t)
}

// beginPush sends the head of a push whose body has so many bytes. The caller
// closes the connection.
func (s *site) beginPush(heads string, bytes int) (net.Conn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "POST /r?cmd=unbundle HTTP/1.1\r\nHost: test\r\nX-HgArg-1: heads=%s\r\nContent-Type: application/mercurial-0.1\r\nContent-Length: %d\r\n\r\n", heads, bytes)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// needVcsd keeps a test from stock hg, which answers some of these requests
// with a traceback and lets others in.
func needVcsd(t *testing.T) {
	t.Helper()
	if hgtest.UseStock() {
		t.Skip("not for stock hg")
	}
}
