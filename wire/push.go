package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
)

// unbundle answers a push.
func (e *Endpoint) unbundle(ctx context.Context, c *call, w http.ResponseWriter, r *http.Request) error {
	body := &sniffer{r: r.Body}
	reply, err := e.push(ctx, c, body, r)
	if err == nil {
		if reply.Bundle2 != nil {
			return writeBytes(w, r, mediaType1, reply.Bundle2)
		}
		return writeBytes(w, r, mediaType1, pushResult(reply))
	}
	// The form of the answer follows that of the bundle, which the server
	// perhaps hasn't looked at yet.
	body.fill(r)
	return errors.Join(err, writeRefusal(w, r, err, reply, body.bundle2()))
}

func writeRefusal(w http.ResponseWriter, r *http.Request, err error, reply PushReply, inBundle2 bool) error {
	switch {
	case errors.Is(err, errBundle2Required):
		return writeBytes(w, r, mediaError, errorText(err))
	case !inBundle2:
		return writeBytes(w, r, mediaType1, pushText(err, reply.Output))
	}
	b, werr := EncodeErrorReply(err, reply.Caps, reply.Output)
	if werr != nil {
		return werr
	}
	return writeBytes(w, r, mediaType1, b)
}

func (e *Endpoint) push(ctx context.Context, c *call, body *sniffer, r *http.Request) (PushReply, error) {
	if err := c.checkArgs(commands["unbundle"]); err != nil {
		return PushReply{}, err
	}
	heads, err := ParseHeads(c.args["heads"])
	if err != nil {
		return PushReply{}, err
	}
	if c.pusher == nil {
		return PushReply{}, hg.ErrReadOnly
	}
	if err := c.checkHeads(ctx, heads); err != nil {
		return PushReply{}, err
	}
	if !c.features.Bundle1Push {
		// A client of bundle1 needs another answer than ours to its push.
		if body.fill(r); !body.bundle2() {
			return PushReply{}, errBundle2Required
		}
	}
	size := r.ContentLength
	if n, err := postArgsLen(r); err == nil && size >= 0 {
		size -= n
	}
	return c.pusher.Unbundle(ctx, UnbundleRequest{Heads: heads, Body: body, Size: size, Peer: c.peer})
}

// checkHeads finds a race before the client has sent its bundle in vain.
func (c *call) checkHeads(ctx context.Context, h HeadsArg) error {
	if h.Force {
		return nil
	}
	v, err := c.view.get(ctx)
	if err != nil {
		return err
	}
	current, err := v.Heads(ctx)
	// The push may take long, and must not hold what a view holds.
	if err := errors.Join(err, c.view.close()); err != nil {
		return err
	}
	return h.Check(current, "preparing changes")
}

// pushResult is the answer to a push of bundle1.
func pushResult(reply PushReply) []byte {
	return fmt.Appendf(nil, "%d\n%s", reply.Result, reply.Output)
}

// A sniffer keeps the first bytes of a bundle, its magic.
type sniffer struct {
	r     io.Reader
	magic []byte
	held  []byte // bytes of magic that no Read has returned yet
}

const magicLen = 4

func (s *sniffer) Read(p []byte) (int, error) {
	if len(s.held) > 0 {
		n := copy(p, s.held)
		s.held = s.held[n:]
		return n, nil
	}
	n, err := s.r.Read(p)
	if missing := magicLen - len(s.magic); missing > 0 {
		s.magic = append(s.magic, p[:min(n, missing)]...)
	}
	return n, err
}

// fill reads the magic if it hasn't been read, unless that would tell the
// client to go on sending.
func (s *sniffer) fill(r *http.Request) {
	if strings.EqualFold(r.Header.Get("Expect"), "100-continue") && len(s.magic) == 0 {
		return
	}
	buf := make([]byte, magicLen-len(s.magic))
	n, _ := io.ReadFull(s.r, buf)
	s.magic = append(s.magic, buf[:n]...)
	s.held = append(s.held, buf[:n]...)
}

func (s *sniffer) bundle2() bool { return string(s.magic) == "HG20" }

// URL names the client as hg does in HG_URL.
func (p Peer) URL() string {
	return "remote:" + p.Scheme + ":" + bundle2.Quote(p.Host) + ":" + bundle2.Quote(p.User)
}
