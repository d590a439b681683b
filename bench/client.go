package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"vcsd/internal/hgtest"
)

// A client is one client of a server, on a connection of its own. It belongs to
// one goroutine.
type client struct {
	url       string // of the repository
	transport *http.Transport
	body      bytes.Buffer
}

func newClient(url string) *client {
	return &client{url: url, transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1}}
}

// close gives up the connection.
func (c *client) close() { c.transport.CloseIdleConnections() }

// call sends a command and returns the answer, whose status is 200. Its body
// is valid until the next call.
func (c *client) call(ctx context.Context, command string, args hgtest.Args) (*hgtest.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"?cmd="+command, nil)
	if err != nil {
		return nil, err
	}
	return c.do(req, command, args)
}

// post sends a command with a body of a known length.
func (c *client) post(ctx context.Context, command string, args hgtest.Args, body io.Reader, bytes int64) (*hgtest.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"?cmd="+command, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = bytes
	req.Header.Set("Content-Type", "application/mercurial-0.1")
	return c.do(req, command, args)
}

func (c *client) do(req *http.Request, command string, args hgtest.Args) (*hgtest.Answer, error) {
	hgtest.SetArgs(req.Header, args)
	req.Header.Set("X-HgProto-1", hgtest.ProtoV2)
	req.Header.Set("Accept", "application/mercurial-0.1")
	req.Header.Set("User-Agent", "mercurial/proto-1.0 (bench)")
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	defer resp.Body.Close()
	c.body.Reset()
	if resp.ContentLength > 0 {
		c.body.Grow(int(resp.ContentLength) + bytes.MinRead)
	}
	if _, err := c.body.ReadFrom(resp.Body); err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	a := &hgtest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: c.body.Bytes()}
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %.80q", command, a.Status, a.Body)
	}
	return a, nil
}
