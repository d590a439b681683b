package outgoing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
)

// Bundles made ahead stand in a directory of their own, relative to .hg: an
// index, and a file for each piece.
//
// A piece has the changesets that are ancestors of its heads and not of the
// heads of the piece before, which are ancestors of its own or among them. Its file is a section of a compressed stream, which
// holds parts of a bundle2: one of type changegroup, and one that receivers
// ignore and that makes room for the seam. So a file is what goes over the wire,
// and a bundle is: the stream's start, the files of pieces that follow each
// other, and a section with all other parts.
const (
	piecesDir  = "vcsd/cache/bundles"
	indexName  = piecesDir + "/index"
	piecesLock = piecesDir + "/lock"

	pieceSuffix = ".piece"

	// pieceFormat changes when pieces of before can't be used any more.
	pieceFormat = 1

	maxIndexBytes = 256 << 20
)

// A piece is one of the bundles made ahead, as the index has it.
type piece struct {
	Name       string    // of its file
	Bytes      int64     // size of its file
	Changesets int       // how many it has
	Bases      []hg.Node // heads of the piece before, empty for the first one
	Heads      []hg.Node
	Logs       []logPrint
}

// A logPrint tells whether a filelog is still the one that a piece was made
// from. Who takes a text out of history (hg censor) replaces the file.
type logPrint struct {
	Radix string
	Inode uint64
}

// A pieceIndex lists the pieces there are, in order. It is not changed once
// read.
type pieceIndex struct {
	Format int
	Engine string // wire name of the pieces' compression
	Pieces []piece
}

// readIndex reads the index; one that is missing, of another format or broken
// has no pieces.
func readIndex(fsys vfs.FS) (*pieceIndex, error) {
	b, err := vfs.ReadFile(fsys, indexName, maxIndexBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return new(pieceIndex), nil
	}
	if err != nil {
		return nil, err
	}
	ix := new(pieceIndex)
	if err := json.Unmarshal(b, ix); err != nil || ix.Format != pieceFormat {
		return new(pieceIndex), nil
	}
	return ix, nil
}

func (ix *pieceIndex) write(fsys vfs.FS) error {
	b, err := json.Marshal(ix)
	if err != nil {
		return err
	}
	return vfs.WriteAtomic(fsys, indexName, b, true)
}

// sound returns how many pieces, from the first one on, hold nothing that
// clients of a View must not see: changesets whose heads are visible are.
// heads holds the revs of each one's heads.
func (ix *pieceIndex) sound(view *store.View) (heads [][]hg.Rev) {
	for i := range ix.Pieces {
		revs := make([]hg.Rev, 0, len(ix.Pieces[i].Heads))
		for _, n := range ix.Pieces[i].Heads {
			r, ok := view.Rev(n)
			if !ok {
				return heads
			}
			revs = append(revs, r)
		}
		heads = append(heads, revs)
	}
	return heads
}

// unchanged tells whether the filelogs that a piece was made from are in place.
func (p *piece) unchanged(fsys vfs.FS) bool {
	for _, l := range p.Logs {
		info, err := fsys.Stat(l.Radix + ".i")
		if err != nil || info.Ino != l.Inode {
			return false
		}
	}
	return true
}

// A pieceMaker writes the file of one piece.
type pieceMaker struct {
	fs     vfs.FS
	view   *store.View
	engine compression.Engine
	level  int
	id     uint32 // of the first part
	logs   []logPrint
}

// partsOfPiece is how many part ids a piece uses up.
const partsOfPiece = 2

// seamPart is a part that receivers ignore. It ends in the zeros that stand
// before a seam, those of the seam, and the end of its payload.
func seamPart(id uint32) (before, after []byte, err error) {
	b, err := bundle2.AppendPart(nil, id, "vcsd:seam", false, make([]byte, compression.SpliceBefore+compression.SpliceZeros))
	cut := len(b) - compression.SpliceZeros - endOfPayloadLen
	return b[:cut], b[cut+compression.SpliceZeros:], err
}

// endOfPayloadLen is the length of the integer that ends a part's payload.
const endOfPayloadLen = 4

// write writes the section to w.
func (m *pieceMaker) write(ctx context.Context, sel *selection, w io.Writer) error {
	section, err := compression.NewSectionWriter(m.engine, m.level, false, w)
	if err != nil {
		return err
	}
	out, err := bundle2.NewPartsWriter(section, m.id)
	if err != nil {
		return err
	}
	if err := m.changegroup(ctx, sel, out); err != nil {
		return err
	}
	before, after, err := seamPart(m.id + 1)
	if err != nil {
		return err
	}
	if _, err := section.Write(before); err != nil {
		return err
	}
	if err := section.Close(); err != nil {
		return err
	}
	_, err = w.Write(slices.Concat(m.engine.Seam(), m.engine.Plain(after)))
	return err
}

func (m *pieceMaker) changegroup(ctx context.Context, sel *selection, out *bundle2.Writer) error {
	part, err := out.Part("changegroup", true, slices.Concat(
		bundle2.Mandatory("version", changegroup.V02.String()),
		bundle2.Advisory("nbchanges", strconv.Itoa(len(sel.revs))))...)
	if err != nil {
		return err
	}
	g := &changegroupWriter{sel: sel, w: changegroup.NewWriter(part, changegroup.V02), version: changegroup.V02}
	var logErr error
	// Before its revisions are read: if the file is replaced meanwhile, the
	// print is that of the old one.
	g.sentFile = func(path string) { logErr = errors.Join(logErr, m.note(path)) }
	if err := errors.Join(g.write(ctx), logErr); err != nil {
		return err
	}
	return part.Close()
}

func (m *pieceMaker) note(path string) error {
	radix := m.view.Repo().FilelogRadix(path)
	info, err := m.fs.Stat(radix + ".i")
	m.logs = append(m.logs, logPrint{radix, info.Ino})
	return err
}

// make writes the file of a piece with what sel selects, and syncs it.
func (m *pieceMaker) make(ctx context.Context, sel *selection, name string) (size int64, err error) {
	f, err := m.fs.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := &roomyWriter{ctx: ctx, fs: m.fs, w: f}
	b := bufio.NewWriterSize(w, 1<<20)
	if err := m.write(ctx, sel, b); err != nil {
		return 0, err
	}
	if err := b.Flush(); err != nil {
		return 0, err
	}
	return w.n, f.Sync()
}

// A roomyWriter writes only as long as there is plenty of room on the disk.
type roomyWriter struct {
	ctx context.Context
	fs  vfs.FS
	w   io.Writer
	n   int64
}

// keepFree is how many bytes of the disk are left to others.
const keepFree = 1 << 30

// Write implements io.Writer.
func (r *roomyWriter) Write(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	free, err := r.fs.Free("")
	if err != nil {
		return 0, err
	}
	if free-int64(len(p)) < keepFree {
		return 0, fmt.Errorf("only %d bytes are free: %w", free, errNoRoom)
	}
	n, err := r.w.Write(p)
	r.n += int64(n)
	return n, err
}

var errNoRoom = errors.New("the disk is too full for bundles made ahead")
