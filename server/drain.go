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
	mu      sync.Mutex
	changed chan struct{}            // closed and made anew when one ends; guarded by mu
	silent  map[net.Conn]*time.Timer // without a request so far; guarded by mu
	active  map[net.Conn]bool        // guarded by mu
}

func newConnections() *connections {
	return &connections{changed: make(chan struct{}), silent: make(map[net.Conn]*time.Timer), active: make(map[net.Conn]bool)}
}

// note is for http.Server.ConnState.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.silent[conn] = time.AfterFunc(silentTime, func() { c.forget(conn) })
	case http.StateActive:
		c.speaksLocked(conn)
		c.active[conn] = true
	default:
		c.speaksLocked(conn)
		delete(c.active, conn)
		c.wakeLocked()
	}
}

func (c *connections) speaksLocked(conn net.Conn) {
	if t := c.silent[conn]; t != nil {
		t.Stop()
		delete(c.silent, conn)
	}
}

// forget waits no longer for the first request of a connection.
func (c *connections) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.silent, conn)
	c.wakeLocked()
}

func (c *connections) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// wait returns when there are none any more, and true, or after a time.
func (c *connections) wait(most time.Duration) bool {
	end := time.After(most)
	for {
		c.mu.Lock()
		n, changed := len(c.silent)+len(c.active), c.changed
		c.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-changed:
		case <-end:
			return false
		}
	}
}
