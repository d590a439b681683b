package ingest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"vcsd/refs"
)

const (
	// graceTime is how long who published a record has to link it before
	// somebody else looks after it.
	graceTime = 2 * time.Second

	// The pauses between attempts to catch up, doubled each time.
	firstPause = 50 * time.Millisecond
	lastPause  = 30 * time.Second
)

// keepUp brings the store up to the tip whenever it stays behind, until ctx
// ends: a record could not be linked, a publication took place that nobody knew
// of, or the process that published died. Readers need no push to see it then.
func (p *Pipeline) keepUp(ctx context.Context) {
	defer close(p.keptUp)
	tips := p.refs.WatchTips(ctx, p.id)
	grace := time.NewTimer(graceTime)
	defer grace.Stop()
	var tip refs.Tip
	for {
		select {
		case <-ctx.Done():
			return
		case t, ok := <-tips:
			if !ok {
				return // ctx has ended, or the client was closed
			}
			if tip = t; !p.hasLinked(tip) {
				grace.Reset(graceTime)
			}
		case <-grace.C:
			if !p.hasLinked(tip) {
				p.catchUpSurely(ctx)
			}
		case <-p.behind:
			p.catchUpSurely(ctx)
		}
	}
}

// fallBehind tells keepUp that the store lacks what was published.
func (p *Pipeline) fallBehind() {
	select {
	case p.behind <- struct{}{}:
	default:
	}
}

// hasLinked tells whether the store holds what was published at tip, as far as
// this can be told without a lock.
func (p *Pipeline) hasLinked(tip refs.Tip) bool {
	if p.checkpoint.noted().Seq >= tip.Seq {
		return true
	}
	linked, err := p.readLinked()
	return err == nil && linked.Seq >= tip.Seq
}

// catchUpSurely catches up, again and again until it is done, or can't be.
func (p *Pipeline) catchUpSurely(ctx context.Context) {
	told := false
	for pause := firstPause; p.failure() == nil; pause = min(2*pause, lastPause) {
		err := p.catchUp(ctx, openWait)
		if err == nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrNoAnswer) {
			pause = firstPause // it was waited for already
		} else if !told {
			told = true
			p.log.WarnContext(ctx, "behind the published tip", "error", cmp.Or(Cause(err), err))
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
