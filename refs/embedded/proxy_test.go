package embedded_test

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"vcsd/refs"
)

// A proxy stands between a client and etcd, and can swallow what etcd says.
type proxy struct {
	l  net.Listener
	to string
	wg sync.WaitGroup

	mu      sync.Mutex
	swallow bool       // guarded by mu
	conns   []net.Conn // guarded by mu
}

func newProxy(t *testing.T, endpoint string) *proxy {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(tempDir(t), "proxy"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: strings.TrimPrefix(endpoint, "unix://")}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) endpoint() string { return "unix://" + p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("unix", p.to)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { p.copy(out, in, false) })
		p.wg.Go(func() { p.copy(in, out, true) })
	}
}

func (p *proxy) copy(dst, src net.Conn, answers bool) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		swallow := p.swallow && answers
		p.mu.Unlock()
		if swallow {
			continue
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// swallowAnswers makes etcd's answers vanish until cut.
func (p *proxy) swallowAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = true
}

// cut breaks the connections; those that follow are good.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = false
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// TestAnswerSwallowed loses the answer of the transaction that publishes on
// the way back from etcd: Publish finds out that it took place.
func TestAnswerSwallowed(t *testing.T) {
	m := join(t, tempDir(t))
	p := newProxy(t, m.Endpoint())
	var mu sync.Mutex
	sent := 0
	x := client(t, p.endpoint(), refs.Options{Fault: func(r refs.Request) refs.Fault {
		if r.Name == "publish" {
			mu.Lock()
			defer mu.Unlock()
			sent++
			p.swallowAnswers()
		}
		return refs.FaultNone
	}})
	y := client(t, m.Endpoint(), refs.Options{})
	want := publishedTip(1)
	told := make(chan refs.Tip, 1)
	tips := y.WatchTips(t.Context(), "repo")
	go func() {
		told <- <-tips // it took place
		p.cut()
	}()
	publish(t, x, refs.Tip{})
	if got := <-told; got != want {
		t.Errorf("another node was told seq %d, want %d", got.Seq, want.Seq)
	}
	mu.Lock()
	defer mu.Unlock()
	if sent != 1 {
		t.Errorf("sent %d times, want once", sent)
	}
}
