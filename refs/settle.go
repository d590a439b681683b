package refs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Each transaction that publishes also puts a key of this Client's own, the
// witness, and compares its revision. That decides an outcome that nobody
// told, whatever other nodes published since:
//
//   - The witness still has the revision that the transaction compared: it has
//     not taken place. But it may still be on its way. So the question is
//     itself a transaction that changes the witness if it is unchanged; once
//     that is done, the late one compares in vain.
//   - The witness says "published, digest New": it took place, at the
//     witness's revision.
//   - It says "fenced, digest New": an earlier try of the question, whose
//     answer was lost as well, was done first.
//
// The question may be asked any number of times. Only one publication of a
// Client and repository is at work at a time, so nobody else writes the key.

// witnessState is what is known of the witness key of a repository.
type witnessState struct {
	rev int64 // its mod revision; 0 if it doesn't exist
	// unknown is set after a question got no answer in time.
	unknown bool
	at      time.Time // when it was put; it expires as outcomes do
}

// knowWitness makes the witness's revision known. Usually it is.
func (c *Client) knowWitness(ctx context.Context, repo RepoID, st *repoState, bucket leaseID) error {
	w := &st.witness
	if !w.unknown && (w.rev == 0 || time.Since(w.at) < c.o.Retention/2) {
		return nil
	}
	put := op{kind: opPut, key: c.keys.witness(repo, c.id), value: witness(witnessFenced, Tip{}), lease: bucket}
	return c.retry(ctx, func(ctx context.Context) error {
		res, err := c.kv.txn(ctx, txn{name: "fence", then: []op{put}})
		if err == nil {
			*w = witnessState{rev: res.rev, at: time.Now()}
		}
		return err
	})
}

// settle decides a transaction that got no answer. It returns the revision at
// which it took place, or 0 if it did not and never will.
func (p *publication) settle(ctx context.Context) (int64, error) {
	if missingMeansDone {
		return p.st.witness.rev + 1, nil
	}
	ctx, cancel := p.c.withTime(ctx)
	defer cancel()
	for {
		bucket, err := p.c.buckets.get(ctx)
		if err != nil {
			return 0, err
		}
		var res txnResult
		err = p.c.retry(ctx, func(ctx context.Context) (err error) {
			res, err = p.c.kv.txn(ctx, p.question(bucket))
			return err
		})
		switch {
		case err == nil:
			return p.verdict(res)
		case !errors.Is(err, errNoSession):
			return 0, err
		}
		p.c.buckets.forget(bucket)
	}
}

func (p *publication) question(bucket leaseID) txn {
	key := p.c.keys.witness(p.Repo, p.c.id)
	return txn{
		name:  "settle",
		conds: []cond{{key: key, modRev: p.st.witness.rev}},
		then:  []op{{kind: opPut, key: key, value: witness(witnessFenced, p.New), lease: bucket}},
		els:   []op{{kind: opGet, key: key}, {kind: opGet, key: p.c.keys.tip(p.Repo)}},
	}
}

func (p *publication) verdict(res txnResult) (int64, error) {
	if res.ok {
		p.st.witness = witnessState{rev: res.rev, at: time.Now()}
		return 0, nil
	}
	w, tip := res.items[0], res.items[1]
	switch string(w.value) {
	case string(witness(witnessPublished, p.New)):
		return w.modRev, nil
	case string(witness(witnessFenced, p.New)):
		p.st.witness = witnessState{rev: w.modRev, at: time.Now()}
		return 0, nil
	}
	// The key is gone: the repository was deleted, or a day has passed.
	if t, _, err := itemTip(tip); err != nil || t == p.New {
		return tip.modRev, err
	}
	return 0, fmt.Errorf("witness key holds %x at revision %d", w.value, w.modRev)
}
