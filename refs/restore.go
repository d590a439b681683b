package refs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A State is a repository's tip and the head keys of its branches at one moment.
type State struct {
	Tip   Tip               // zero: it has none
	Heads map[string][]byte // by branch; opaque, read-only
}

// State returns a repository's tip with all of its head keys. What a publication
// leaves to further transactions may be missing among these.
func (c *Client) State(ctx context.Context, repo RepoID) (State, error) {
	if err := checkRepo(repo); err != nil {
		return State{}, err
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	ctx, cancelRead := context.WithTimeout(ctx, c.o.ReadTime)
	defer cancelRead()
	st := State{Heads: make(map[string][]byte)}
	err := c.retry(ctx, func(ctx context.Context) error {
		res, err := c.kv.txn(ctx, txn{name: "state", then: []op{
			{kind: opGet, key: c.keys.tip(repo)}, {kind: opGetPrefix, key: c.keys.heads(repo)},
		}})
		if err != nil {
			return err
		}
		for key, it := range res.listed {
			st.Heads[strings.TrimPrefix(key, c.keys.heads(repo))] = it.value
		}
		st.Tip, _, err = itemTip(res.items[0])
		if err != nil {
			return &refusedError{err}
		}
		return nil
	})
	if err != nil {
		return State{}, fmt.Errorf("read state of %q: %w", repo, err)
	}
	return st, nil
}

// RestoreHeads makes the head keys of a repository what heads says, by branch,
// and removes all others, as long as the tip is the one given; otherwise the
// error is a *TipMovedError, and some may have been set.
func (c *Client) RestoreHeads(ctx context.Context, repo RepoID, tip Tip, heads map[string][]byte) error {
	st, err := c.State(ctx, repo)
	if err != nil {
		return err
	}
	var ops []op
	for _, branch := range slices.Sorted(maps.Keys(heads)) {
		if err := checkBranch(branch); err != nil {
			return err
		}
		if n := len(heads[branch]); n > MaxValueBytes {
			return fmt.Errorf("head key of %q with %d bytes", branch, n)
		}
		if !bytes.Equal(st.Heads[branch], heads[branch]) {
			ops = append(ops, op{kind: opPut, key: c.keys.head(repo, branch), value: heads[branch]})
		}
	}
	for branch := range st.Heads {
		if _, stays := heads[branch]; !stays {
			ops = append(ops, op{kind: opDel, key: c.keys.head(repo, branch)})
		}
	}
	ctx, cancel := c.bound(ctx)
	defer cancel()
	for len(ops) > 0 {
		n := c.fitting(ops)
		if err := c.putHeads(ctx, repo, tip, ops[:n]); err != nil {
			return fmt.Errorf("restore heads of %q: %w", repo, err)
		}
		ops = ops[n:]
	}
	return nil
}

// fitting returns how many of ops fit a transaction; one does.
func (c *Client) fitting(ops []op) int {
	n, size := 0, 0
	for n < len(ops) && n < c.o.MaxTxnOps-1 {
		if size += ops[n].size(); n > 0 && size > c.o.MaxTxnBytes {
			break
		}
		n++
	}
	return n
}

// putHeads does ops if the tip is the one given. It may be repeated.
func (c *Client) putHeads(ctx context.Context, repo RepoID, tip Tip, ops []op) error {
	key := c.keys.tip(repo)
	return c.retry(ctx, func(ctx context.Context) error {
		res, err := c.kv.txn(ctx, txn{
			name: "restore", conds: []cond{{key: key, value: tip.appendTo(nil)}}, then: ops, els: []op{{kind: opGet, key: key}},
		})
		if err != nil || res.ok {
			return err
		}
		now, _, err := itemTip(res.items[0])
		if err == nil {
			err = &TipMovedError{now}
		}
		return &refusedError{err}
	})
}
