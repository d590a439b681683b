package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStalledBody: a client that stops sending is told so and lets go of what
// its request holds.
func TestStalledBody(t *testing.T) {
	for _, tt := range []struct{ name, head, want string }{
		{"arguments", "POST /?cmd=lookup HTTP/1.1\r\nX-HgArgs-Post: 50\r\nContent-Length: 50\r\n", "application/hg-error"},
		{"bundle", "POST /?cmd=unbundle&heads=666f726365 HTTP/1.1\r\nContent-Length: 5000\r\n", "abort: malformed data: only 18 bytes were received in 20ms"},
		{"refused bundle", "POST /?cmd=unbundle&heads=zz HTTP/1.1\r\nContent-Length: 5000\r\n", "abort: malformed data"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantAnswer(t, Limits{StallTime: 20 * time.Millisecond}, tt.head+"Host: h\r\n\r\nHG10UN and no more", false, tt.want)
		})
	}
}

// wantAnswer sends a request, and perhaps ends its half of the connection then. The
// answer must contain want, and there must be an error to log.
func wantAnswer(t *testing.T, l Limits, request string, end bool, want string) {
	t.Helper()
	repo := &fakeRepo{readAll: true}
	s := serve(t, func(*http.Request) *Endpoint {
		return &Endpoint{Repo: repo, Pusher: repo, Features: testFeatures(), Limits: l}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	if end {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(answer), want) {
		t.Errorf("got %q, %v, want %q", answer, err, want)
	}
	if err := <-s.errs; err == nil {
		t.Error("no error to log")
	}
}

// TestBrokenBody: a body that is cut or that breaks the rules of HTTP is the
// client's fault, and no bundle that happens to end there.
func TestBrokenBody(t *testing.T) {
	for _, tt := range []struct{ name, head, body, want string }{
		{"chunk length", "Transfer-Encoding: chunked\r\n", "6\r\nHG10UN\r\nzz\r\n", "abort: malformed data: the body"},
		{"chunk without end", "Transfer-Encoding: chunked\r\n", "6\r\nHG10UNabc\r\n", "abort: malformed data: the body"},
		{"cut chunk", "Transfer-Encoding: chunked\r\n", "9\r\nHG10UN", "abort: malformed data: the body"},
		{"cut before the last chunk", "Transfer-Encoding: chunked\r\n", "6\r\nHG10UN\r\n", "abort: malformed data: the body"},
		{"cut", "Content-Length: 10\r\n", "HG10UN", "abort: malformed data: the body"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantAnswer(t, Limits{}, "POST /?cmd=unbundle&heads=666f726365 HTTP/1.1\r\nHost: h\r\n"+tt.head+"\r\n"+tt.body, true, tt.want)
		})
	}
}

// TestSlowBody: a client that sends a byte now and then is no better than one
// that sends none, but what takes long in all may come slowly, and time that
// the server takes for itself doesn't count.
func TestSlowBody(t *testing.T) {
	for _, tt := range []struct {
		name          string
		piece, pieces int
		pause, think  time.Duration
		ok            bool
	}{
		{"drops", 1, 100, 90 * time.Millisecond, 0, false},
		{"a little too slow", 90, 100, 90 * time.Millisecond, 0, false},
		{"fast enough", 101, 100, 90 * time.Millisecond, 0, true},
		{"slow server", 101, 100, 0, 5 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := Limits{StallTime: time.Second, StallBytes: 1010}
				r := httptest.NewRequest("POST", "/", nil)
				body := &slowBody{ResponseWriter: httptest.NewRecorder(), piece: tt.piece, pieces: tt.pieces, pause: tt.pause}
				r.Body = body
				limitStalls(body, r, l)
				p := make([]byte, 500)
				var err error
				for err == nil {
					time.Sleep(tt.think)
					_, err = r.Body.Read(p)
				}
				if (err == io.EOF) != tt.ok {
					t.Errorf("reading ended with %v, want a good end: %v", err, tt.ok)
				}
			})
		})
	}
}

// A slowBody comes in pieces, each after a pause. It is also the writer of the
// answer, whose connection has the deadlines.
type slowBody struct {
	http.ResponseWriter
	piece, pieces int
	pause         time.Duration
	deadline      time.Time
}

func (b *slowBody) SetReadDeadline(t time.Time) error {
	b.deadline = t
	return nil
}

func (b *slowBody) Read([]byte) (int, error) {
	if left := time.Until(b.deadline); b.pause >= left && !b.deadline.IsZero() {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(b.pause)
	if b.pieces == 0 {
		return 0, io.EOF
	}
	b.pieces--
	return b.piece, nil
}

func (b *slowBody) Close() error { return nil }

// TestStalledReader: a client that takes nothing of a stream is cut off.
func TestStalledReader(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(64 << 20); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		write func(s *Stream) error
	}{
		{"bytes", func(s *Stream) error {
			piece := make([]byte, 1<<20)
			for range 64 {
				if _, err := s.Write(piece); err != nil {
					return err
				}
			}
			return nil
		}},
		{"file", func(s *Stream) error {
			_, err := s.ReadFrom(io.NewSectionReader(file, 0, 64<<20))
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
				s.Uncompressed()
				return tt.write(s)
			}}
			s := serve(t, func(*http.Request) *Endpoint {
				return &Endpoint{Repo: repo, Features: testFeatures(), Limits: Limits{StallTime: 50 * time.Millisecond}}
			})
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET /?"+bundle2Query+" HTTP/1.1\r\nX-HgProto-1: 0.2\r\nHost: h\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := <-s.errs; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got error %v, want that the deadline passed", err)
			}
		})
	}
}

// TestStallLimits: what a stream's ReadFrom is given arrives whole, a limited
// beginning too, and the limit counts down.
func TestStallLimits(t *testing.T) {
	text := randomText(3*stallPiece/2 + 7)
	for _, n := range []int64{0, 1, stallPiece, stallPiece + 1, int64(len(text)), int64(len(text)) + 5} {
		limited := &io.LimitedReader{R: strings.NewReader(text), N: n}
		repo := &fakeRepo{getBundle: func(_ GetBundleArgs, s *Stream) error {
			s.Uncompressed()
			_, err := s.ReadFrom(limited)
			return err
		}}
		s := serveRepo(t, repo, testFeatures())
		a := s.do(t, "GET", bundle2Query, http.Header{"X-Hgproto-1": {"0.2"}}, nil)
		if err := <-s.errs; err != nil {
			t.Fatal(err)
		}
		want := text[:min(n, int64(len(text)))]
		if got := strings.TrimPrefix(string(a.body), "\x04none"); got != want || limited.N != n-int64(len(want)) {
			t.Errorf("limit %d: got %d bytes and %d left, want %d and %d", n, len(got), limited.N, len(want), n-int64(len(want)))
		}
	}
}
