package outgoing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/compression"
)

// MakeOptions tell what bundles to make ahead.
type MakeOptions struct {
	// Engine and Level compress them. Nothing is made for an engine whose
	// streams can't be put together of sections.
	Engine compression.Engine
	Level  int

	// Least is how many changesets have to be new before a piece is made.
	Least int

	// Publishing tells that only public changesets go in; else all that clients
	// see.
	Publishing bool
}

const (
	// tailShare makes large repositories make larger pieces: what is not in
	// one stays below this part of what is.
	tailShare = 64

	// growth is how many times as large as its successor a piece has to be. So
	// there are few pieces, and each changeset is put into a new one only as
	// often as the logarithm of their number tells.
	growth = 2
)

// Refresh makes a new piece, if enough changesets are in none, and removes what
// is not used any more. It returns how many changesets the new piece has, 0 if
// none was made. Other processes that do the same keep it from doing anything.
//
// Order: the piece's file is synced, then the index names it, then old files go.
func (p *Prepared) Refresh(ctx context.Context, view *store.View, o MakeOptions) (made int, err error) {
	p.makeMu.Lock()
	defer p.makeMu.Unlock()
	ix, total, err := p.load()
	if err != nil {
		return 0, err
	}
	if !o.Engine.Splices() {
		return 0, nil
	}
	pl, due := planPiece(ix, total, view, o)
	if !due {
		return 0, nil
	}
	if err := p.fs.MkdirAll(piecesDir); err != nil {
		return 0, err
	}
	lock, err := p.fs.Lock(piecesLock)
	if errors.Is(err, vfs.ErrLocked) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	next := &pieceIndex{Format: pieceFormat, Engine: o.Engine.WireName(), Pieces: slices.Clone(pl.keep)}
	if pl.sel != nil {
		piece, err := p.makePiece(ctx, view, o, pl)
		if err != nil {
			return 0, errors.Join(err, p.sweep(ix))
		}
		next.Pieces = append(next.Pieces, *piece)
		made = piece.Changesets
	}
	if err := next.write(p.fs); err != nil {
		return 0, err
	}
	return made, p.sweep(next)
}

// A piecePlan is what Refresh is going to do.
type piecePlan struct {
	keep  []piece
	sel   *selection // of the new piece; nil if pieces are only dropped
	heads []hg.Rev   // of the new piece and those before it together
}

// planPiece decides whether there is something to do. total is how many pieces
// there are, those that can't be used included.
func planPiece(ix *pieceIndex, total int, view *store.View, o MakeOptions) (pl piecePlan, due bool) {
	if ix.Engine == o.Engine.WireName() {
		pl.keep = ix.Pieces
	}
	bases := ix.sound(view)
	pl.keep = pl.keep[:min(len(pl.keep), len(bases))]
	covered, last := 0, []hg.Rev(nil)
	for i, p := range pl.keep {
		covered, last = covered+p.Changesets, bases[i]
	}
	dropped := len(pl.keep) < total
	least := max(o.Least, covered/tailShare)
	if covered+least > view.Len() {
		return pl, dropped
	}
	heads := offered(view, o.Publishing)
	n := len(dag.Missing(view, last, heads))
	if n == 0 || n < least {
		return pl, dropped
	}
	for len(pl.keep) > 0 && pl.keep[len(pl.keep)-1].Changesets < growth*n {
		n += pl.keep[len(pl.keep)-1].Changesets
		pl.keep = pl.keep[:len(pl.keep)-1]
	}
	if last = nil; len(pl.keep) > 0 {
		last = bases[len(pl.keep)-1]
	}
	pl.sel, pl.heads = newSelection(view, last, heads), heads
	return pl, true
}

// offered returns the heads of what goes into pieces.
func offered(view *store.View, publishing bool) []hg.Rev {
	if !publishing || len(view.NonPublic()) == 0 {
		return view.HeadRevs()
	}
	return dag.Heads(view, func(r hg.Rev) bool { return view.Phase(r) == hg.Public && view.Visible(r) })
}

func (p *Prepared) makePiece(ctx context.Context, view *store.View, o MakeOptions, pl piecePlan) (*piece, error) {
	next := &piece{Changesets: len(pl.sel.revs)}
	if n := len(pl.keep); n > 0 {
		next.Bases = pl.keep[n-1].Heads
	}
	for _, r := range pl.heads {
		next.Heads = append(next.Heads, view.Changelog().Node(r))
	}
	next.Name = next.fileName()
	m := &pieceMaker{fs: p.fs, view: view, engine: o.Engine, level: o.Level, id: uint32(len(pl.keep)) * partsOfPiece}
	tmp := vfs.TempName(piecesDir + "/" + next.Name)
	var err error
	if next.Bytes, err = m.make(ctx, pl.sel, tmp); err != nil {
		return nil, errors.Join(err, p.fs.Remove(tmp))
	}
	next.Logs = m.logs
	return next, p.fs.Rename(tmp, piecesDir+"/"+next.Name)
}

// fileName returns a name that differs from those of other pieces.
func (p *piece) fileName() string {
	h := sha256.New()
	fmt.Fprint(h, p.Bases, p.Heads)
	return hex.EncodeToString(h.Sum(nil)[:8]) + pieceSuffix
}

// sweep removes files that the index doesn't name. Who is sending one goes on.
func (p *Prepared) sweep(ix *pieceIndex) error {
	entries, err := p.fs.ReadDir(piecesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		used := slices.ContainsFunc(ix.Pieces, func(q piece) bool { return q.Name == e.Name() })
		if !used && (strings.HasSuffix(e.Name(), pieceSuffix) || vfs.IsTempName(e.Name())) {
			err = errors.Join(err, p.fs.Remove(piecesDir+"/"+e.Name()))
		}
	}
	return err
}
