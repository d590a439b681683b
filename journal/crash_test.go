package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/journal"
)

// A history is a few records that use every kind of write, and the state of
// the repository after each.
type history struct {
	writes   [][]journal.Write // of record i+1; segments are named by big
	big      []byte
	states   []content // after i records
	original string    // of a file that a clone shares
}

const bigSegment = "big"

func newHistory(t testing.TB) *history {
	revs := revisions(12, 700)
	index := func(n int) string { i, _ := logOf(revs[:n], false); return i }
	data := func(n int) string { _, d := logOf(revs[:n], false); return d }
	inline := func(n int) string { i, _ := logOf(revs[:n], true); return i }
	h := &history{original: index(2), big: bytes.Repeat([]byte("big segment\n"), 3000)}
	b := int64(len(h.big))
	changelog := func(from, to int) journal.Write {
		return write(journal.Append, "store/00changelog.i", int64(from*64), index(to)[from*64:])
	}
	growInline := func(name string, from, to int) journal.Write {
		return write(journal.AppendInline, name, int64(len(inline(from))), inline(to)[len(inline(from)):])
	}
	h.writes = [][]journal.Write{
		{
			growInline("store/data/a/a.i", 0, 3),
			growInline("store/dh/b.i", 0, 2),
			write(journal.Append, "store/fncache", 0, "data/a/a.i\n", "dh/b.i\n"),
			changelog(2, 4),
			write(journal.Replace, "store/phaseroots", 0, "1 "+revs[1].chunk+"\n"),
			write(journal.Replace, "bookmarks", 0, "one\n"),
		},
		{
			growInline("store/data/a/a.i", 3, 6),
			fromSegment("store/data/big.d", 0, bigSegment, h.big),
			write(journal.Append, "store/data/big.i", 0, index(1)),
			changelog(4, 5),
			write(journal.Replace, "bookmarks", 0, "two\n"),
		},
		{
			split("store/data/a/a.i", "store/data/a/a.d", int64(len(inline(6)))),
			write(journal.Append, "store/data/a/a.d", int64(len(data(6))), data(8)[len(data(6)):]),
			write(journal.Append, "store/data/a/a.i", 6*64, index(8)[6*64:]),
			split("store/dh/b.i", "store/dh/other/b.d", int64(len(inline(2)))),
			write(journal.Append, "store/fncache", 18, "data/a/a.d\n"),
			changelog(5, 7),
		},
		{
			write(journal.Append, "store/data/a/a.d", int64(len(data(8))), data(12)[len(data(8)):]),
			write(journal.Append, "store/data/a/a.i", 8*64, index(12)[8*64:]),
			write(journal.Append, "store/dh/other/b.d", int64(len(data(2))), data(3)[len(data(2)):]),
			write(journal.Append, "store/dh/b.i", 2*64, index(3)[2*64:]),
			fromSegment("store/data/big.d", b, bigSegment, h.big),
			changelog(7, 8),
			write(journal.Replace, "bookmarks", 0, "one\n"),
			write(journal.Replace, "store/phaseroots", 0, ""),
		},
	}
	h.play(t)
	return h
}

// play fills in the states.
func (h *history) play(t testing.TB) {
	m := h.setup(t)
	r := newRun(m, h)
	h.states = append(h.states, repoFiles(t, m))
	mustDo(t, r.open())
	for range h.writes {
		mustDo(t, r.commit())
		h.states = append(h.states, repoFiles(t, m))
	}
	last := h.states[len(h.writes)]
	if len(last["repo/.hg/store/data/big.d"]) != 2*len(h.big) || len(last) != 11 {
		t.Fatalf("the history itself is wrong: %d files", len(last))
	}
}

// setup returns a repository before the first record.
func (h *history) setup(t testing.TB) *vfs.Mem {
	m := vfs.NewMem()
	for _, dir := range []string{"repo/.hg/store", "repo/.hg/vcsd/journal", "clone"} {
		mustDo(t, vfs.MkdirAllSync(m, dir))
	}
	mustDo(t, vfs.WriteAtomic(m, "repo/.hg/store/00changelog.i", []byte(h.original), true))
	mustDo(t, m.Link("repo/.hg/store/00changelog.i", "clone/00changelog.i"))
	mustDo(t, m.SyncDir("clone"))
	return m
}

// repoFiles returns what the records govern, and the clone.
func repoFiles(t testing.TB, fsys vfs.FS) content {
	all := files(t, fsys, "")
	for name := range all {
		if strings.HasPrefix(name, "repo/.hg/vcsd/") {
			delete(all, name)
		}
	}
	return all
}

// A run commits the history's records one by one, as a server does.
type run struct {
	h         *history
	fs        vfs.FS
	hg        vfs.FS // fs seen from .hg
	j         *journal.Journal
	touched   *journal.Touched
	published []journal.ID // survives crashes: it is kept elsewhere
}

func newRun(fsys vfs.FS, h *history, published ...journal.ID) *run {
	return &run{h: h, fs: fsys, hg: vfs.Sub(fsys, "repo/.hg"), touched: journal.NewTouched(), published: published}
}

// open opens the journal and applies what may be missing.
func (r *run) open() (err error) {
	if r.j, err = journal.Open(r.hg, "vcsd/journal", journal.Options{}); err != nil {
		return err
	}
	applied, _, err := journal.ReadApplied(r.hg, "vcsd/applied")
	if err != nil || len(r.published) == 0 {
		return err
	}
	missing, err := r.j.History(applied.Seq, r.published[len(r.published)-1])
	if err != nil {
		return err
	}
	for _, id := range missing {
		if err := r.apply(id, true); err != nil {
			return err
		}
	}
	return r.checkpoint()
}

func (r *run) apply(id journal.ID, redo bool) error {
	rec, err := r.j.Get(id.Seq, id.Digest)
	if err != nil {
		return err
	}
	touched, err := r.j.Apply(rec, r.hg, journal.ApplyOptions{Redo: redo})
	r.touched.Merge(touched)
	return err
}

// commit puts the next record, publishes and applies it; every second time a
// checkpoint follows.
func (r *run) commit() error {
	seq := len(r.published) + 1
	rec, err := r.record(seq)
	if err != nil {
		return err
	}
	if err := r.j.Reserve(rec, r.hg); err != nil {
		return err
	}
	d, err := r.j.Put(ctx, rec)
	if err != nil {
		return err
	}
	r.published = append(r.published, journal.ID{Seq: rec.Seq, Digest: d})
	if err := r.apply(r.published[seq-1], false); err != nil || seq%2 == 1 {
		return err
	}
	return r.checkpoint()
}

// record makes record seq, with its segment in the journal.
func (r *run) record(seq int) (*journal.Record, error) {
	rec := record(uint64(seq))
	if seq > 1 {
		rec.Prev = r.published[seq-2].Digest
	}
	for _, w := range r.h.writes[seq-1] {
		if len(w.Parts) == 1 && w.Parts[0].Segment == bigSegment {
			name, err := r.adopt(seq)
			if err != nil {
				return nil, err
			}
			w.Parts = []journal.Part{{Segment: name, Length: w.Length}}
		}
		rec.Writes = append(rec.Writes, w)
	}
	return rec, nil
}

func (r *run) adopt(seq int) (string, error) {
	spool := fmt.Sprintf("vcsd/spool-%d", seq)
	if err := vfs.WriteAtomic(r.hg, spool, r.h.big, false); err != nil {
		return "", err
	}
	name, err := r.j.AdoptSegment(spool)
	return name, errors.Join(err, r.hg.Remove(spool))
}

func (r *run) checkpoint() error {
	if err := journal.SyncTouched(ctx, r.hg, r.touched); err != nil {
		return err
	}
	r.touched = journal.NewTouched()
	return journal.WriteApplied(r.hg, "vcsd/applied", r.published[len(r.published)-1])
}

// all opens and commits what is left of the history.
func (r *run) all() error {
	if err := r.open(); err != nil {
		return err
	}
	for len(r.published) < len(r.h.writes) {
		if err := r.commit(); err != nil {
			return err
		}
	}
	return nil
}

// checkRecovered opens what is left, twice, and checks that the state is that
// after the published records; then it commits the rest.
func (h *history) checkRecovered(t *testing.T, when string, m *vfs.Mem, published []journal.ID) {
	t.Helper()
	for _, time := range []string{"once", "twice"} {
		if err := newRun(m, h, published...).open(); err != nil {
			t.Fatalf("%s: recover %s: %v", when, time, err)
		}
		if d := differ(repoFiles(t, m), h.states[len(published)]); d != "" {
			t.Fatalf("%s: recovered %s: after %d records: %s", when, time, len(published), d)
		}
		// As if the checkpoint had not been reached: everything again.
		if err := m.Remove("repo/.hg/vcsd/applied"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := newRun(m, h, published...).all(); err != nil {
		t.Fatalf("%s: go on: %v", when, err)
	}
	if d := differ(repoFiles(t, m), h.states[len(h.writes)]); d != "" {
		t.Fatalf("%s: at the end: %s", when, d)
	}
}

func TestFailEachOperation(t *testing.T) {
	h := newHistory(t)
	boom := errors.New("boom")
	for n := 0; ; n++ {
		m := h.setup(t)
		fsys := errfs.FailNth(m, n, boom)
		r := newRun(fsys, h)
		err := r.all()
		if !fsys.Fired() {
			mustDo(t, err)
			t.Logf("%d operations", n)
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%s: err = %v, want the fault", fsys.Where(), err)
		}
		h.checkRecovered(t, fsys.Where(), m, r.published)
	}
}

func TestCutPowerAtEachOperation(t *testing.T) {
	h := newHistory(t)
	for n := 0; ; n++ {
		m := h.setup(t)
		fsys := errfs.CutNth(m, n, errfs.Changes...)
		r := newRun(fsys, h)
		err := r.all()
		if !fsys.Fired() {
			mustDo(t, err)
			break
		}
		for seed := range uint64(3) {
			when := fmt.Sprintf("%s, seed %d", fsys.Where(), seed)
			h.checkRecovered(t, when, m.Crash(rng(seed)), r.published)
		}
		h.checkRecovered(t, fsys.Where()+", no luck", m.Crash(nil), r.published)
		// A process that is killed leaves all that it has written.
		h.checkRecovered(t, fsys.Where()+", killed", m, r.published)
	}
}

// TestCutPowerDuringRecovery cuts the power again and again while the last cut
// is being recovered from.
func TestCutPowerDuringRecovery(t *testing.T) {
	h := newHistory(t)
	for seed := range uint64(25) {
		rnd := rng(seed)
		m := h.setup(t)
		var published []journal.ID
		for cuts := range 6 {
			fsys := errfs.CutNth(m, rnd.IntN(100), errfs.Changes...)
			r := newRun(fsys, h, published...)
			if err := r.all(); !fsys.Fired() {
				mustDo(t, err)
			}
			published = r.published
			m = m.Crash(rnd)
			if cuts == 5 {
				h.checkRecovered(t, fmt.Sprintf("seed %d", seed), m, published)
			}
		}
	}
}
