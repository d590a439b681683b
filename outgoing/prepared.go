package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
)

// Prepared are the bundles that were made ahead of one repository. A nil one
// has none. Its methods may be called by several goroutines at once.
type Prepared struct {
	fs vfs.FS // rooted at .hg

	makeMu sync.Mutex // serialises Refresh; taken before mu

	mu      sync.Mutex
	print   vfs.Info    // of the index as read; guarded by mu
	index   *pieceIndex // guarded by mu; not changed once set
	checked time.Time   // when the logs of index were looked at; guarded by mu
	intact  int         // how many of its pieces are of logs still in place; guarded by mu
}

// NewPrepared returns the bundles of a repository whose .hg is the root of fsys.
func NewPrepared(fsys vfs.FS) *Prepared { return &Prepared{fs: fsys} }

// recheck is how long it is taken for granted that filelogs are in place.
const recheck = time.Second

// load returns the index as it is now, without pieces of logs that were
// replaced, and how many pieces there are with them.
func (p *Prepared) load() (_ *pieceIndex, total int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if there, err := vfs.Exists(p.fs, indexName); err != nil || !there {
		return new(pieceIndex), 0, err
	}
	info, err := p.fs.Stat(indexName)
	if err != nil {
		return nil, 0, err
	}
	if p.index == nil || info != p.print {
		if p.index, err = readIndex(p.fs); err != nil {
			return nil, 0, err
		}
		p.print, p.checked = info, time.Time{}
	}
	if time.Since(p.checked) > recheck {
		p.intact = 0
		for p.intact < len(p.index.Pieces) && p.index.Pieces[p.intact].unchanged(p.fs) {
			p.intact++
		}
		p.checked = time.Now()
	}
	ix := *p.index
	ix.Pieces = ix.Pieces[:p.intact]
	return &ix, len(p.index.Pieces), nil
}

// A chain is pieces that follow each other and that a client shall get, open.
type chain struct {
	engine compression.Engine
	pieces []piece
	files  []vfs.File
	bytes  int64  // of all files
	next   uint32 // id of the next part
	tail   *selection
}

func (c *chain) close() (err error) {
	for _, f := range c.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// wasteShare bounds what a client is sent needlessly, because it has it or
// because it is in a piece with what it lacks: one changeset in so many.
const wasteShare = 8

// chainFor returns the pieces to begin an answer with; nil if there are none
// that fit, and have least changesets that the client lacks.
func (p *Prepared) chainFor(q *Pull, sel *selection, heads []hg.Rev, engine compression.Engine, least int) *chain {
	a, view := &q.Args, q.View
	if p == nil || !a.Bundle2 || !a.Changegroup {
		return nil
	}
	if v, err := a.version(); err != nil || v != changegroup.V02 || len(a.Caps["changegroup"]) == 0 {
		return nil
	}
	ix, _, err := p.load()
	// They are a cache: what is wrong with them is no matter of the client's.
	if err != nil || ix.Engine != engine.WireName() {
		return nil
	}
	pieceHeads := ix.sound(view)
	first, last := ix.span(sel, pieceHeads)
	if first > last {
		return nil
	}
	count := 0
	for _, piece := range ix.Pieces[first : last+1] {
		count += piece.Changesets
	}
	tail := newSelection(view, slices.Concat(sel.common, pieceHeads[last]), withoutNull(heads))
	useful := len(sel.revs) - len(tail.revs)
	if useful < least || (count-useful)*wasteShare > count {
		return nil
	}
	if !a.Several && (last > first || len(tail.revs) > 0) {
		return nil
	}
	c := &chain{engine: engine, pieces: ix.Pieces[first : last+1], next: uint32(last+1) * partsOfPiece, tail: tail}
	if err := c.open(p.fs); err != nil {
		return nil
	}
	return c
}

// span returns the first and the last piece that fit what is selected: the
// client has the bases of the first, and wants the heads of the last one. If
// none does, first is greater than last.
func (ix *pieceIndex) span(sel *selection, heads [][]hg.Rev) (first, last int) {
	has := func(r hg.Rev) bool { return r == hg.NullRev || sel.clientHas(r) }
	last = -1
	for last+1 < len(heads) && !slices.ContainsFunc(heads[last+1], func(r hg.Rev) bool { return !sel.sends(r) && !has(r) }) {
		last++
	}
	for first = last; first > 0 && slices.ContainsFunc(heads[first-1], func(r hg.Rev) bool { return !has(r) }); first-- {
	}
	return max(first, 0), last
}

// open opens the files of the pieces.
func (c *chain) open(fsys vfs.FS) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, piece := range c.pieces {
		f, err := fsys.Open(piecesDir + "/" + piece.Name)
		if err != nil {
			return err
		}
		c.files = append(c.files, f)
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size != piece.Bytes {
			return fmt.Errorf("%q has %d bytes, want %d", piece.Name, info.Size, piece.Bytes)
		}
		c.bytes += info.Size
	}
	return nil
}

// writeFiles writes the start of a bundle and the pieces.
func (c *chain) writeFiles(to Sink) error {
	if _, err := to.Write(c.start()); err != nil {
		return err
	}
	for i, f := range c.files {
		// The kernel copies it, where there is nothing but a file.
		var r io.Reader = f
		if osFile := vfs.OSFile(f); osFile != nil {
			r = osFile
		}
		n, err := to.ReadFrom(io.LimitReader(r, c.pieces[i].Bytes))
		if err == nil && n != c.pieces[i].Bytes {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) start() []byte {
	return slices.Concat(c.engine.SpliceHead(), c.engine.Plain(bundle2.Start()))
}

// maxTailBytes is the longest rest of an answer that is made before anything is
// sent, so that the length of the whole is known.
const maxTailBytes = 1 << 20

// answerPrepared writes the pieces of a chain, and what else is in the bundle
// of whole.
func (p *Pulls) answerPrepared(ctx context.Context, q *Pull, whole *bundleWriter, c *chain, level int, to Sink) error {
	rest := *whole
	rest.sel = c.tail
	to.Encoded(c.engine)
	tail := func(ctx context.Context, view *store.View, w io.Writer) error {
		return encoded(func() (compression.Writer, error) { return compression.NewSectionWriter(c.engine, level, true, w) }, func(w io.Writer) (err error) {
			b := rest.on(view)
			if b.out, err = bundle2.NewPartsWriter(w, c.next); err != nil {
				return err
			}
			return b.write(ctx)
		})
	}
	if len(c.tail.revs) < p.least {
		short := &shortBuffer{most: maxTailBytes}
		err := tail(ctx, q.View, short)
		if err == nil {
			to.SetSize(int64(len(c.start())) + c.bytes + int64(short.Len()))
			if err := c.writeFiles(to); err != nil {
				return err
			}
			_, err = to.Write(short.Bytes())
			return err
		}
		if !errors.Is(err, errTooLong) {
			return err
		}
	}
	if err := c.writeFiles(to); err != nil {
		return err
	}
	if len(c.tail.revs) < p.least {
		return tail(ctx, q.View, to)
	}
	what := fmt.Sprintf("after %d", c.next)
	for _, n := range c.pieces[len(c.pieces)-1].Heads {
		what += " " + n.String()
	}
	return p.share(ctx, q, rest.key(what, c.engine, level), to, tail)
}

// shortBuffer takes a certain number of bytes.
type shortBuffer struct {
	bytes.Buffer
	most int
}

var errTooLong = errors.New("longer than is kept in memory")

// Write implements io.Writer.
func (b *shortBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}
