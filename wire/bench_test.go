package wire

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"vcsd/hg"
)

// BenchmarkServe answers what a pull without changes asks for first.
func BenchmarkServe(b *testing.B) {
	for _, n := range []int{1, 100, 20_000} {
		f := &fakeRepo{}
		for i := range n {
			f.heads = append(f.heads, hg.Node{byte(i), byte(i >> 8), byte(i >> 16)})
		}
		known := make([]string, min(n, 100))
		for i := range known {
			known[i] = f.heads[i].String()
		}
		header := http.Header{"X-Hgproto-1": {"0.1 0.2 comp=zstd,zlib,none,bzip2 partial-pull"}}
		header.Set("X-Hgarg-1", "cmds=heads+%3Bknown+nodes%3D"+strings.Join(known, "+"))
		for _, command := range []string{"capabilities", "batch"} {
			b.Run(fmt.Sprintf("command=%s/heads=%d", command, n), func(b *testing.B) {
				r := httptest.NewRequest("GET", "/?cmd="+command, nil)
				r.Header = header
				e := &Endpoint{Repo: f, Pusher: f, Features: testFeatures()}
				w := &discard{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					w.bytes = 0
					if err := e.Serve(w, r); err != nil || w.status != http.StatusOK {
						b.Fatalf("status %d, %v", w.status, err)
					}
				}
				b.SetBytes(w.bytes)
			})
		}
	}
}

// discard is a client that takes everything at once.
type discard struct {
	header http.Header
	status int
	bytes  int64
}

func (d *discard) Header() http.Header    { return d.header }
func (d *discard) WriteHeader(status int) { d.status = status }
func (d *discard) Write(p []byte) (int, error) {
	if d.status == 0 {
		d.status = http.StatusOK
	}
	d.bytes += int64(len(p))
	return len(p), nil
}
func (d *discard) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	d.bytes += n
	return n, err
}
