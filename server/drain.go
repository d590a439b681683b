package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// A drain is how a server ends.
type drain struct {
	delay   time.Duration // how long it goes on to accept connections
	timeout time.Duration // how long requests in flight get after that
}

// serveUntilDone serves until ctx ends. Then no push is admitted and readiness is
// false; after the delay the socket is closed; what is in flight gets its time.
func (h *handler) serveUntilDone(ctx context.Context, srv *http.Server, l net.Listener, d drain) error {
	busy := newConnections()
	srv.ConnState = busy.note
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	h.notify(isReady)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	h.registry.admit.drain()
	h.notify(isStopping)
	select {
	case err := <-served:
		return err
	case <-time.After(d.delay):
	}
	// Not yet Shutdown, which drops what it finds on a connection that was
	// accepted just before.
	srv.SetKeepAlivesEnabled(false) // and ends those that wait for a request
	if err := l.Close(); err != nil {
		return errors.Join(err, srv.Close())
	}
	<-served
	if !busy.wait(d.timeout) {
		h.log.Warn("requests were cut at the end", "after", d.timeout)
	}
	return srv.Close()
}

// silentTime is how long a connection may have been open without a request before
// it counts as one that brings none.
const silentTime = 5 * time.Second

// connections are those of a server that are worth waiting for: they have a
// request, or may be about to send their first.
type connections struct {
	ended chan struct{} // has room for one

	mu sync.Mutex
	// open tells since when a connection has brought no request; zero: it has
	// one. Guarded by mu.
	open map[net.Conn]time.Time
}

func newConnections() *connections {
	return &connections{ended: make(chan struct{}, 1), open: make(map[net.Conn]time.Time)}
}

// note is for http.Server.ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = time.Now()
	case http.StateActive:
		c.open[conn] = time.Time{}
	default:
		delete(c.open, conn)
		select {
		case c.ended <- struct{}{}:
		default:
		}
	}
}

// busy tells whether there are any, and when to ask again at the latest.
func (c *connections) busy(now time.Time) (busy bool, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again = silentTime
	for _, since := range c.open {
		left := silentTime
		if !since.IsZero() {
			left -= now.Sub(since)
		}
		if left > 0 {
			busy, again = true, min(again, left)
		}
	}
	return busy, again
}

// wait returns when there are none any more, and true, or after a time.
func (c *connections) wait(most time.Duration) bool {
	end := time.After(most)
	for {
		busy, again := c.busy(time.Now())
		if !busy {
			return true
		}
		select {
		case <-c.ended:
		case <-time.After(again):
		case <-end:
			return false
		}
	}
}
