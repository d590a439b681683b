package ingest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/revlog"
	"vcsd/store"
)

// literalBytes is up to which size a push's chunks travel inside the commit
// record. A larger segment is linked into the journal beside it.
const literalBytes = 256 << 10

// A numbering gives the revisions of a batch their numbers and offsets, and
// gathers the writes that bring the store up to date. It belongs to the
// sequencer, which holds the store's lock; or it is a preview, which nobody is
// to notice.
type numbering struct {
	preview bool

	p        *Pipeline
	ctx      context.Context
	view     *store.View
	pushes   []*readyPush // by revlog.SegmentID
	segments []string     // names in the journal; empty: literal
	segs     []vfs.File   // the segments, open
	buf      []byte       // for sums

	changelog, manifest *revlog.Planner
	files               map[string]*filePlan
	order               []*filePlan // in order of first use
}

// A filePlan is the part of a numbering that goes to one filelog.
type filePlan struct {
	path    string
	radix   string
	snap    *revlog.Snapshot
	planner *revlog.Planner
}

// record numbers a decided batch. touched are the radixes of the filelogs
// that it appends to. If it fails for one push alone, that is returned as bad.
func (p *Pipeline) record(ctx context.Context, b *decided) (rec *journal.Record, touched []string, bad *readyPush, err error) {
	n := &numbering{p: p, ctx: ctx, view: b.view, preview: b.preview, files: make(map[string]*filePlan)}
	defer n.close()
	n.changelog = revlog.NewPlanner(b.view.Changelog(), n.planOptions(nil))
	n.manifest = revlog.NewPlanner(b.view.Manifest(), n.planOptions(b.view.Manifest()))
	rec = &journal.Record{Seq: b.tip.Seq + 1, Prev: b.tip.Digest, Time: time.Now().UTC(), Node: p.node, Kind: journal.Commit}
	for _, r := range b.pushes {
		first := n.changelog.Len()
		if err := n.add(r); err != nil {
			return nil, nil, r, numberError(r, err)
		}
		rec.Pushes = append(rec.Pushes, r.journalPush(hg.Rev(first), n.changelog.Len()-first))
	}
	if err := n.writes(rec, b.pending); err != nil {
		return nil, nil, nil, err
	}
	rec.ChangelogLen = n.changelog.Len()
	rec.Tip = b.pending.Node(hg.Rev(rec.ChangelogLen - 1))
	for _, f := range n.order {
		touched = append(touched, f.radix)
	}
	return rec, touched, nil, nil
}

// numberError is what the sender of a push is told that refers to revisions
// which were there when it was staged and are gone.
func numberError(r *readyPush, err error) error {
	err = fmt.Errorf("number the push %v: %w", r.id, err)
	var missing *revlog.MissingError
	if errors.As(err, &missing) {
		return &hiddenError{raced("revisions were removed"), err}
	}
	return err
}

func (r *readyPush) journalPush(first hg.Rev, changesets int) journal.Push {
	d := r.decision
	return journal.Push{
		ID: r.id, User: r.who.User, Remote: r.who.Remote, Source: r.who.URL, Time: r.who.Time,
		Heads: d.heads, Bookmarks: d.bookmarkMoves, Phases: d.phases, ObsMarkers: len(d.markers),
		FirstRev: first, Changesets: changesets,
	}
}

func (n *numbering) close() {
	for _, f := range n.segs {
		f.Close() // read only
	}
	for _, f := range n.order {
		f.snap.Close()
	}
}

// add numbers one push.
func (n *numbering) add(r *readyPush) error {
	if len(r.decision.fresh) == 0 {
		return nil
	}
	id := revlog.SegmentID(len(n.pushes))
	n.pushes = append(n.pushes, r)
	f, err := r.dir.OpenSegment()
	if err != nil {
		return err
	}
	n.segs = append(n.segs, f)
	name := ""
	switch {
	case r.staged.seg.size <= literalBytes:
	case n.preview:
		name = previewSegment
	default:
		if name, err = n.p.journal.AdoptSegment(r.dir.SegmentPath()); err != nil {
			return err
		}
	}
	n.segments = append(n.segments, name)
	for _, i := range r.decision.fresh {
		if _, _, err := n.changelog.Add(id, r.staged.changelog[i], hg.Rev(n.changelog.Len())); err != nil {
			return err
		}
	}
	if err := n.addAll(id, n.manifest, r.staged.manifest); err != nil {
		return err
	}
	for _, f := range r.staged.files {
		if err := n.addFile(id, f); err != nil {
			return fmt.Errorf("%q: %w", f.path, err)
		}
	}
	return nil
}

// addAll adds revisions that are linked to changesets numbered already.
func (n *numbering) addAll(id revlog.SegmentID, to *revlog.Planner, revs []revlog.Staged) error {
	for _, st := range revs {
		link, ok := n.changelog.Rev(st.Link)
		if !ok {
			return fmt.Errorf("%s is linked to unknown changeset %s", st.Node.Short(), st.Link.Short())
		}
		if _, _, err := to.Add(id, st, link); err != nil {
			return err
		}
	}
	return nil
}

func (n *numbering) addFile(id revlog.SegmentID, f stagedFile) error {
	if len(f.revs) == 0 {
		return nil
	}
	plan, ok := n.files[f.path]
	if !ok {
		snap, err := n.view.Filelog(n.ctx, f.path)
		if err != nil {
			return err
		}
		plan = &filePlan{path: f.path, radix: n.p.repo.FilelogRadix(f.path), snap: snap}
		plan.planner = revlog.NewPlanner(snap, n.planOptions(snap))
		n.files[f.path] = plan
		n.order = append(n.order, plan)
	}
	return n.addAll(id, plan.planner, f.revs)
}

// planOptions gives a planner access to the segments of the batch. snap is
// the log that it plans for.
func (n *numbering) planOptions(snap *revlog.Snapshot) revlog.PlanOptions {
	o := n.p.repo.PlanOptions()
	o.Chunk = n.chunk
	o.Text = func(id revlog.SegmentID, node hg.Node) ([]byte, error) { return n.text(id, snap, node) }
	return o
}

// chunk returns bytes of a push's segment, for logs that hold them inline.
func (n *numbering) chunk(id revlog.SegmentID, off int64, length int) ([]byte, error) {
	b := make([]byte, length)
	_, err := n.segs[id].ReadAt(b, off)
	return b, err
}

// writes fills the record's writes in an order that local readers can
// survive: what is pointed to before what points to it, and the changelog's
// index last. Phase roots come before the changesets they restrict, so that a
// draft is never seen as public; markers after the changesets that replace
// others; bookmarks after those they point to.
func (n *numbering) writes(rec *journal.Record, after *pending) error {
	entries, err := n.fileWrites(rec)
	if err != nil {
		return err
	}
	if err := n.fncacheWrite(rec, entries); err != nil {
		return err
	}
	if err := n.planWrites(rec, n.manifest); err != nil {
		return err
	}
	if after.movesRoots() {
		n.replace(rec, "store/phaseroots", store.EncodePhaseRoots(after.phaseRoots()))
	}
	if err := n.planWrites(rec, n.changelog); err != nil {
		return err
	}
	if err := n.markersWrite(rec, after); err != nil {
		return err
	}
	if len(after.bookmarks) > 0 {
		n.replace(rec, n.p.repo.BookmarksPath(), store.EncodeBookmarks(after.bookmarksAfter()))
	}
	return nil
}

// fileWrites plans all filelogs and returns what the fncache has to name.
func (n *numbering) fileWrites(rec *journal.Record) (entries []string, err error) {
	for _, f := range n.order {
		plan, err := f.planner.Plan()
		if err != nil {
			return nil, fmt.Errorf("%q: %w", f.path, err)
		}
		if err := n.convert(rec, plan); err != nil {
			return nil, err
		}
		before, after := f.snap.Size(), plan.Size
		if after.Revs > 0 {
			entries = append(entries, "data/"+f.path+".i")
		}
		if !after.Inline && (before.Revs == 0 || before.Inline) {
			entries = append(entries, "data/"+f.path+".d")
		}
	}
	return entries, nil
}

func (n *numbering) planWrites(rec *journal.Record, p *revlog.Planner) error {
	plan, err := p.Plan()
	if err != nil {
		return err
	}
	return n.convert(rec, plan)
}

// fncacheWrite adds names to the fncache that it does not have yet.
func (n *numbering) fncacheWrite(rec *journal.Record, entries []string) error {
	if len(entries) == 0 || !n.p.repo.Requirements().FNCache {
		return nil
	}
	missing, data, off, err := n.p.repo.FNCacheAppend(entries)
	if err != nil || len(data) == 0 {
		return err
	}
	if !n.preview {
		if err := n.p.repo.ExpectFNCache(missing); err != nil {
			return err
		}
	}
	if off < 0 {
		n.replace(rec, "store/fncache", data)
	} else {
		n.append(rec, "store/fncache", off, data)
	}
	return nil
}

// markersWrite adds the markers of the batch to their file.
func (n *numbering) markersWrite(rec *journal.Record, after *pending) error {
	if len(after.markers) == 0 {
		return nil
	}
	data, off, err := n.view.ObsStore().AppendForm(after.markers)
	if err != nil {
		return err
	}
	n.append(rec, store.ObsStorePath, off, data)
	return nil
}

func (n *numbering) append(rec *journal.Record, path string, off int64, data []byte) {
	rec.Writes = append(rec.Writes, journal.Write{
		Path: path, Op: journal.Append, Offset: off, Length: int64(len(data)), Sum: journal.Sum(data), Parts: []journal.Part{{Data: data}},
	})
}

func (n *numbering) replace(rec *journal.Record, path string, data []byte) {
	rec.Writes = append(rec.Writes, journal.Write{
		Path: path, Op: journal.Replace, Length: int64(len(data)), Sum: journal.Sum(data), Parts: []journal.Part{{Data: data}},
	})
}

// convert appends the writes of a log's plan to the record.
func (n *numbering) convert(rec *journal.Record, plan revlog.Plan) error {
	for _, w := range plan.Writes {
		if w.Kind == revlog.Split {
			rec.Writes = append(rec.Writes, journal.Write{
				Path: w.Path, DataPath: w.Data, Op: journal.Split, Length: w.Offset,
			})
			continue
		}
		out := journal.Write{Path: w.Path, Op: journal.Append, Offset: w.Offset, Length: w.Len()}
		if plan.Size.Inline {
			out.Op = journal.AppendInline
		}
		var err error
		if out.Parts, out.Sum, err = n.parts(w.Parts); err != nil {
			return err
		}
		rec.Writes = append(rec.Writes, out)
	}
	return nil
}

// parts turns the parts of a write into those of a record, and sums their
// bytes.
func (n *numbering) parts(ps []revlog.Part) (out []journal.Part, sum uint32, err error) {
	for _, p := range ps {
		if p.Data == nil && n.segments[p.Segment] != "" {
			if sum, err = n.sumSegment(sum, p); err != nil {
				return nil, 0, err
			}
			out = append(out, journal.Part{Segment: n.segments[p.Segment], Offset: p.Offset, Length: p.Length})
			continue
		}
		data := p.Data
		if data == nil {
			if data, err = n.chunk(p.Segment, p.Offset, int(p.Length)); err != nil {
				return nil, 0, err
			}
		}
		sum = crc32.Update(sum, castagnoli, data)
		out = append(out, journal.Part{Data: data})
	}
	return out, sum, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumSegment adds a range of a segment to a checksum.
func (n *numbering) sumSegment(sum uint32, p revlog.Part) (uint32, error) {
	if n.buf == nil {
		n.buf = make([]byte, 1<<20)
	}
	for off, end := p.Offset, p.Offset+p.Length; off < end; {
		b := n.buf[:min(int64(len(n.buf)), end-off)]
		if _, err := n.segs[p.Segment].ReadAt(b, off); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		off += int64(len(b))
	}
	return sum, nil
}
