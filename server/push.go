package server

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/wire"
	"vcsd/wire/bundle2"
)

// Unbundle implements wire.Pusher.
func (r *repository) Unbundle(ctx context.Context, req wire.UnbundleRequest) (_ wire.PushReply, err error) {
	if r.pipeline == nil {
		return wire.PushReply{}, r.readOnly
	}
	t, err := r.admission.admit(ctx, r.path, sender(req.Peer))
	if err != nil {
		return wire.PushReply{}, err
	}
	defer t.done()
	start := time.Now()
	defer func() { r.counters.pushed(err, time.Since(start)) }()
	reply, err := r.pipeline.Push(ctx, ingest.Request{
		Body: req.Body, Who: who(req.Peer), HeadsArg: fmt.Sprint(req.Heads), Staged: t.staged,
		CheckHeads: func(heads []hg.Node) error { return req.Heads.Check(heads, "uploading changes") },
	})
	if reply == nil {
		return wire.PushReply{}, err
	}
	out := wire.PushReply{Caps: reply.Caps, Output: reply.Output, Result: reply.Ret}
	r.maker.poke(r)
	if err == nil && reply.Bundle2 {
		out.Bundle2, err = encodeReply(reply)
	}
	return out, err
}

// encodeReply writes a bundle2 reply. Without a replycaps part the client
// reads nothing but errors, and gets an empty one.
func encodeReply(reply *ingest.Reply) ([]byte, error) {
	var b bytes.Buffer
	w, err := bundle2.NewWriter(&b, bundle2.WriterOptions{})
	if err != nil {
		return nil, err
	}
	if reply.Caps != nil {
		for _, p := range reply.Parts {
			var params []bundle2.Param
			for _, kv := range p.Params {
				params = append(params, bundle2.Param{Key: kv.Key, Value: kv.Value})
			}
			if _, err := w.WritePart(p.Type, p.Mandatory, p.Payload, params...); err != nil {
				return nil, err
			}
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// Pushkey implements wire.Pusher. It has no body that would need a slot.
func (r *repository) Pushkey(ctx context.Context, req wire.PushkeyRequest) (wire.PushkeyReply, error) {
	if r.pipeline == nil {
		return wire.PushkeyReply{}, r.readOnly
	}
	t, err := r.admission.enter(r.path, sender(req.Peer))
	if err != nil {
		return wire.PushkeyReply{}, err
	}
	defer t.done()
	ok, output, err := r.pipeline.Pushkey(ctx, req.Namespace, req.Key, req.Old, req.New, who(req.Peer))
	return wire.PushkeyReply{OK: ok, Output: output}, err
}

func who(p wire.Peer) ingest.Who {
	return ingest.Who{User: p.User, Remote: p.Host, URL: p.URL(), Time: time.Now().UTC()}
}

// sender tells the shares of an admission apart: by user, or if there is none
// by address.
func sender(p wire.Peer) string {
	if p.User != "" {
		return "user " + p.User
	}
	return "address " + p.Host
}
