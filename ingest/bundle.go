package ingest

import (
	"context"
	"io"

	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
)

// bundle stages a whole bundle: bundle2, or a bare changegroup behind an
// "HG10" header (hg help internals.bundles). On an error the stager's output
// still tells how the answer is to be written.
func (s *stager) bundle(ctx context.Context, r io.Reader) error {
	format, body, err := compression.OpenBundle(r, s.limits.MaxPushBytes)
	if err != nil {
		return err
	}
	defer body.Close() // read only
	if format == compression.Bundle2 {
		err = s.decodeBundle2(ctx, body)
	} else if err = s.changegroup(ctx, body, changegroup.V01); err == nil {
		s.op(addGroup{group: 0})
	}
	if err != nil {
		return err
	}
	return s.finish(ctx)
}
