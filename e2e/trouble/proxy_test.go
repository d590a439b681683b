package trouble

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A frame is one of HTTP/2 (RFC 9113, section 4.1): 9 bytes of header, then the
// payload.
type frame struct {
	raw    []byte
	toEtcd bool
}

const (
	frameHeaderSize = 9
	frameData       = 0
	frameHeaders    = 1
	preface         = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

func readFrame(r io.Reader, toEtcd bool) (frame, error) {
	head := make([]byte, frameHeaderSize)
	if _, err := io.ReadFull(r, head); err != nil {
		return frame{}, err
	}
	n := int(head[0])<<16 | int(binary.BigEndian.Uint16(head[1:]))
	raw := append(head, make([]byte, n)...)
	_, err := io.ReadFull(r, raw[frameHeaderSize:])
	return frame{raw, toEtcd}, err
}

// isMessage tells requests and answers, and what opens and closes them, from
// what keeps a connection alive.
func (f frame) isMessage() bool { return f.raw[3] == frameData || f.raw[3] == frameHeaders }

// isRequest tells whether f asks etcd for something that has all of these keys.
func (f frame) isRequest(keys ...string) bool {
	for _, k := range keys {
		if !strings.Contains(string(f.raw), k) {
			return false
		}
	}
	return f.toEtcd && f.raw[3] == frameData
}

// isPublish tells whether f is the transaction that publishes.
func (f frame) isPublish() bool { return f.isRequest("/tip", "vcsd/1/s/", "/w/") }

// A verdict is what becomes of a frame.
type verdict int

const (
	pass verdict = iota
	cut          // the connection ends instead
	late         // so it does for vcsd; etcd gets the frame after the next answer
	drop         // it vanishes, with all after it in its direction
)

// A proxy stands between vcsd and etcd.
type proxy struct {
	l  net.Listener
	to string // host:port
	wg sync.WaitGroup

	mu      sync.Mutex
	meet    func(frame) verdict // nil: pass; may wait; guarded by mu
	delay   time.Duration       // of each frame; guarded by mu
	refuse  bool                // new connections end at once; guarded by mu
	links   map[*link]bool      // guarded by mu
	pending []func()            // writes of late frames; guarded by mu
}

// A link is a connection through the proxy.
type link struct {
	down, up net.Conn
	late     bool // down has ended, and up is to get one more frame; guarded by proxy.mu
}

func (k *link) close() { k.down.Close(); k.up.Close() }

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, to: strings.TrimPrefix(to, "http://"), links: map[*link]bool{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.setMeet(nil)
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "http://" + p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		down, err := p.l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		if refuse {
			down.Close()
			continue
		}
		up, err := net.Dial("tcp", p.to)
		if err != nil {
			down.Close()
			continue
		}
		k := &link{down: down, up: up}
		p.mu.Lock()
		p.links[k] = true
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(k, down, up, true) })
		p.wg.Go(func() { p.pump(k, up, down, false) })
	}
}

// A due frame is written at a time.
type due struct {
	raw []byte
	at  time.Time
}

// pump passes one direction of a link on.
func (p *proxy) pump(k *link, src, dst net.Conn, toEtcd bool) {
	out := make(chan due, 1024)
	p.wg.Go(func() {
		for d := range out {
			time.Sleep(time.Until(d.at))
			_, _ = dst.Write(d.raw) // who reads from dst learns that it ended
		}
	})
	defer close(out)
	r := bufio.NewReader(src)
	if toEtcd {
		b := make([]byte, len(preface))
		if _, err := io.ReadFull(r, b); err != nil {
			k.close()
			return
		}
		out <- due{b, time.Time{}}
	}
	for {
		f, err := readFrame(r, toEtcd)
		if err != nil {
			if !toEtcd || !p.isLate(k) {
				k.close()
			}
			return
		}
		p.mu.Lock()
		meet, at := p.meet, time.Now().Add(p.delay)
		p.mu.Unlock()
		v := pass
		if meet != nil && f.isMessage() {
			v = meet(f)
		}
		switch v {
		case cut:
			k.close()
			return
		case late:
			p.mu.Lock()
			k.late = true
			p.pending = append(p.pending, func() {
				_, _ = k.up.Write(f.raw) // etcd may have gone
			})
			p.mu.Unlock()
			k.down.Close()
			return
		case drop:
			_, _ = io.Copy(io.Discard, r)
			k.close()
			return
		}
		out <- due{f.raw, at}
		if !toEtcd && f.raw[3] == frameData {
			p.deliver()
		}
	}
}

// isLate tells whether k was cut for a frame that is to come late.
func (p *proxy) isLate(k *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.late
}

// deliver writes what is late.
func (p *proxy) deliver() {
	p.mu.Lock()
	pending := p.pending
	p.pending = nil
	p.mu.Unlock()
	for _, write := range pending {
		write()
	}
}

func (p *proxy) setMeet(f func(frame) verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meet = f
}

func (p *proxy) setDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// setRefuse ends new connections at once, or lets them pass again.
func (p *proxy) setRefuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.links {
		k.close()
		delete(p.links, k)
	}
}
