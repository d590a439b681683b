package server

import (
	"context"
	"fmt"

	"vcsd/hg"
)

// The commands between and branches, which clients from before 2010 find out
// with what they lack, walk along first parents. One request may name many
// places to start from.

// maxLineSteps is how many changesets one request may walk over, beside 16 for
// each that there is.
const maxLineSteps = 1 << 20

// A lineWalk goes from changeset to first parent, for one request.
type lineWalk struct {
	v     *view
	steps int // that may still be made
}

func (v *view) lineWalk() *lineWalk { return &lineWalk{v, maxLineSteps + 16*v.Len()} }

// parents returns those of a changeset.
func (w *lineWalk) parents(ctx context.Context, r hg.Rev) (p1, p2 hg.Rev, err error) {
	if w.steps--; w.steps < 0 {
		return 0, 0, fmt.Errorf("walks over more than %d changesets: %w", maxLineSteps+16*w.v.Len(), hg.ErrTooLarge)
	}
	if w.steps%1024 == 0 && ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	p1, p2 = w.v.Parents(r)
	return p1, p2, nil
}

// start returns the rev to begin with.
func (w *lineWalk) start(n hg.Node) (hg.Rev, error) {
	r, ok := w.v.Rev(n)
	if !ok {
		return 0, &hg.UnknownRevision{Name: n.String()}
	}
	return r, nil
}

// Between implements wire.View.
func (v *view) Between(ctx context.Context, pairs [][2]hg.Node) ([][]hg.Node, error) {
	w := v.lineWalk()
	out := make([][]hg.Node, len(pairs))
	for i, pair := range pairs {
		var err error
		if out[i], err = w.between(ctx, pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (w *lineWalk) between(ctx context.Context, top, bottom hg.Node) (nodes []hg.Node, err error) {
	r, err := w.start(top)
	if err != nil {
		return nil, err
	}
	cl, next := w.v.Changelog(), 1
	for dist := 0; r != hg.NullRev && cl.Node(r) != bottom; dist++ {
		if dist == next {
			nodes = append(nodes, cl.Node(r))
			next *= 2
		}
		if r, _, err = w.parents(ctx, r); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// Branches implements wire.View.
func (v *view) Branches(ctx context.Context, nodes []hg.Node) ([][4]hg.Node, error) {
	w := v.lineWalk()
	out := make([][4]hg.Node, len(nodes))
	for i, n := range nodes {
		var err error
		if out[i], err = w.branch(ctx, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// branch returns a node, the first merge or root on its line, and that one's
// parents.
func (w *lineWalk) branch(ctx context.Context, n hg.Node) ([4]hg.Node, error) {
	r, err := w.start(n)
	if err != nil {
		return [4]hg.Node{}, err
	}
	cl := w.v.Changelog()
	for r != hg.NullRev {
		p1, p2, err := w.parents(ctx, r)
		if err != nil {
			return [4]hg.Node{}, err
		}
		if p2 != hg.NullRev || p1 == hg.NullRev {
			return [4]hg.Node{n, cl.Node(r), cl.Node(p1), cl.Node(p2)}, nil
		}
		r = p1
	}
	return [4]hg.Node{n, n, hg.NullNode, hg.NullNode}, nil
}
