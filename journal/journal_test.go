package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/journal"
)

var ctx = context.Background()

func open(t testing.TB, fsys vfs.FS, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(fsys, "j", o)
	mustDo(t, err)
	return j
}

func put(t testing.TB, j *journal.Journal, r *journal.Record) journal.ID {
	t.Helper()
	d, err := j.Put(ctx, r)
	mustDo(t, err)
	return journal.ID{Seq: r.Seq, Digest: d}
}

func TestPutThenGet(t *testing.T) {
	fsys := vfs.NewMem()
	j := open(t, fsys, journal.Options{})
	want := record(1, write(journal.Append, "store/fncache", 0, "data/a.i\n"))
	id := put(t, j, want)
	if again := put(t, j, want); again != id {
		t.Errorf("put again: %v, want %v", again, id)
	}
	for _, after := range []vfs.FS{fsys, fsys.Crash(nil)} {
		got, err := open(t, after, journal.Options{}).Get(1, id.Digest)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Get = %+v, %v; want %+v", got, err, want)
		}
	}
	if got := must(j.List()); !slices.Equal(got, []journal.ID{id}) {
		t.Errorf("List = %v, want %v", got, id)
	}
}

func TestGetFindsDamage(t *testing.T) {
	fsys := vfs.NewMem()
	j := open(t, fsys, journal.Options{})
	id := put(t, j, record(1))
	if _, err := j.Get(2, id.Digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such record: err = %v, want ErrNotExist", err)
	}
	f := must(fsys.OpenWrite("j/" + id.String() + ".rec"))
	must(f.WriteAt([]byte{0xff}, 20))
	var corrupt *journal.CorruptError
	if _, err := j.Get(1, id.Digest); !errors.As(err, &corrupt) {
		t.Errorf("damaged record: err = %v, want a CorruptError", err)
	}
}

func TestRecordSizeLimit(t *testing.T) {
	j := open(t, vfs.NewMem(), journal.Options{MaxRecordBytes: 1000})
	_, err := j.Put(ctx, record(1, write(journal.Append, "store/a", 0, strings.Repeat("x", 1000))))
	if !errors.Is(err, journal.ErrRecordTooLarge) {
		t.Errorf("err = %v, want ErrRecordTooLarge", err)
	}
}

func TestHistoryFollowsThePublishedRecords(t *testing.T) {
	j := open(t, vfs.NewMem(), journal.Options{})
	var want []journal.ID
	for seq := uint64(1); seq <= 5; seq++ {
		r := record(seq)
		if seq > 1 {
			r.Prev = want[seq-2].Digest
		}
		id := put(t, j, r)
		loser := *r
		loser.Node = "loser"
		put(t, j, &loser)
		want = append(want, id)
	}
	if got, err := j.History(2, want[4]); err != nil || !slices.Equal(got, want[2:]) {
		t.Errorf("History(2) = %v, %v; want %v", got, err, want[2:])
	}
	if got, err := j.History(5, want[4]); err != nil || len(got) != 0 {
		t.Errorf("History(5) = %v, %v; want nothing", got, err)
	}
	if _, err := j.History(0, journal.ID{Seq: 9}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unknown tip: err = %v, want ErrNotExist", err)
	}
}

func TestLargeLiteralsGoToASegment(t *testing.T) {
	fsys := vfs.NewMem()
	j := open(t, fsys, journal.Options{MaxInlineBytes: 1000})
	long := strings.Repeat("0123456789", 200)
	r := record(1, write(journal.Append, "store/a", 0, "short", long, "tail"))
	id := put(t, j, r)
	if len(r.Segments()) != 0 {
		t.Error("Put changed its argument")
	}
	got := must(j.Get(1, id.Digest))
	if len(got.Segments()) != 1 {
		t.Fatalf("segments = %v, want one", got.Segments())
	}
	for name, r := range map[string]*journal.Record{"as given": r, "as read": got} {
		target := vfs.NewMem()
		if _, err := j.Apply(r, target, journal.ApplyOptions{}); err != nil {
			t.Fatal(err)
		}
		if have := string(must(vfs.ReadFile(target, "store/a", 1<<20))); have != "short"+long+"tail" {
			t.Errorf("%s: %d bytes, want %d", name, len(have), len(long)+9)
		}
	}
}

func TestAdoptSegment(t *testing.T) {
	content := bytes.Repeat([]byte("segment "), 100000)
	for _, tt := range []struct {
		name string
		wrap func(fs vfs.FS) vfs.FS
	}{
		{"linked", func(fs vfs.FS) vfs.FS { return fs }},
		{"copied", func(fs vfs.FS) vfs.FS { return errfs.FailNth(fs, 0, syscall.EXDEV, errfs.Link) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			j := open(t, tt.wrap(mem), journal.Options{})
			mustDo(t, vfs.WriteAtomic(mem, "spool", content, false))
			name := must(j.AdoptSegment("spool"))
			mustDo(t, mem.Remove("spool"))
			put(t, j, record(1, fromSegment("store/a", 0, name, content)))
			f := must(open(t, mem.Crash(nil), journal.Options{}).OpenSegment(name))
			got := make([]byte, len(content))
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, content) {
				t.Errorf("after a crash the segment is not what was adopted: %v", err)
			}
		})
	}
}

func TestPutRefusesWhatItCantKeep(t *testing.T) {
	fsys := vfs.NewMem()
	j := open(t, fsys, journal.Options{})
	mustDo(t, vfs.WriteAtomic(fsys, "spool", []byte("12345"), false))
	name := must(j.AdoptSegment("spool"))
	other := strings.Repeat("0", 32) + ".seg"
	for _, tt := range []struct {
		name string
		r    *journal.Record
	}{
		{"invalid record", record(0)},
		{"missing segment", record(1, fromSegment("store/a", 0, other, []byte("x")))},
		{"short segment", record(1, fromSegment("store/a", 0, name, []byte("123456")))},
	} {
		if _, err := j.Put(ctx, tt.r); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	if got := must(j.List()); len(got) != 0 {
		t.Errorf("journal holds %v, want nothing", got)
	}
}

// TestPutFailsAtEachOperation checks that no failure goes unnoticed, that what
// Put says is durable is, and that a failed sync ends all writing.
func TestPutFailsAtEachOperation(t *testing.T) {
	boom := errors.New("boom")
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		fsys := errfs.FailNth(mem, n, boom)
		var id journal.ID
		var j *journal.Journal
		err := func() (err error) {
			if j, err = journal.Open(fsys, "j", journal.Options{MaxInlineBytes: 1}); err != nil {
				return err
			}
			r := record(1, write(journal.Append, "store/a", 0, strings.Repeat("a", 999)))
			id.Seq = 1
			id.Digest, err = j.Put(ctx, r)
			return err
		}()
		if !fsys.Fired() {
			mustDo(t, err)
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%s: err = %v, want the fault", fsys.Where(), err)
		}
		var failed *journal.SyncError
		if j != nil && errors.As(err, &failed) != (j.Err() != nil) {
			t.Errorf("%s: err = %v, but the journal says %v", fsys.Where(), err, j.Err())
		}
		if j != nil && j.Err() != nil {
			if _, err := j.Put(ctx, record(1)); !errors.As(err, &failed) {
				t.Errorf("%s: put after a failed sync: err = %v, want a SyncError", fsys.Where(), err)
			}
		}
	}
}

func TestPutCutAtEachOperation(t *testing.T) {
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		fsys := errfs.CutNth(mem, n)
		var done []journal.ID
		_ = func() error {
			j, err := journal.Open(fsys, "j", journal.Options{MaxInlineBytes: 1})
			if err != nil {
				return err
			}
			for seq := uint64(1); seq <= 2; seq++ {
				r := record(seq, write(journal.Append, "store/a", 0, strings.Repeat("a", 999)))
				d, err := j.Put(ctx, r)
				if err != nil {
					return err
				}
				done = append(done, journal.ID{Seq: seq, Digest: d})
			}
			return nil
		}()
		for seed := range uint64(8) {
			checkDurable(t, fmt.Sprintf("%s, seed %d", fsys.Where(), seed), mem.Crash(rng(seed)), done)
		}
		if !fsys.Fired() {
			break
		}
	}
}

// checkDurable checks that the records can be read and applied.
func checkDurable(t *testing.T, when string, fsys vfs.FS, ids []journal.ID) {
	t.Helper()
	j := open(t, fsys, journal.Options{})
	for _, id := range ids {
		r, err := j.Get(id.Seq, id.Digest)
		if err != nil {
			t.Fatalf("%s: record %d: %v", when, id.Seq, err)
		}
		if _, err := j.Apply(r, vfs.NewMem(), journal.ApplyOptions{}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
}

func TestPrune(t *testing.T) {
	fsys := vfs.NewMem()
	now := time.Now()
	j := open(t, fsys, journal.Options{Now: func() time.Time { return now }})
	segment := func() string {
		mustDo(t, vfs.WriteAtomic(fsys, "spool", []byte("12345"), false))
		return must(j.AdoptSegment("spool"))
	}
	shared, first, orphan := segment(), segment(), segment()
	content := []byte("12345")
	put(t, j, record(1, fromSegment("store/a", 0, shared, content), fromSegment("store/b", 0, first, content)))
	second := put(t, j, record(2, fromSegment("store/a", 0, shared, content)))
	tmp := vfs.TempName("j/x.rec")
	mustDo(t, vfs.WriteAtomic(fsys, tmp, nil, false))
	mustDo(t, vfs.WriteAtomic(fsys, "j/foreign", nil, false))

	names := func() (list []string) {
		for _, e := range must(fsys.ReadDir("j")) {
			list = append(list, e.Name())
		}
		return list
	}
	mustDo(t, j.Prune(ctx, 2))
	if got := len(names()); got != 6 {
		t.Errorf("young files: %v, want record 2, three segments, a temporary and a foreign one", names())
	}
	now = now.Add(25 * time.Hour)
	mustDo(t, j.Prune(ctx, 2))
	want := []string{second.String() + ".rec", shared, "foreign"}
	slices.Sort(want)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("old files: %v, want %v (not %v, %v)", got, want, first, orphan)
	}
}

func TestApplied(t *testing.T) {
	fsys := vfs.NewMem()
	if _, ok, err := journal.ReadApplied(fsys, "applied"); ok || err != nil {
		t.Errorf("none: ok = %v, err = %v", ok, err)
	}
	want := journal.ID{Seq: 12, Digest: journal.DigestOf([]byte("x"))}
	mustDo(t, journal.WriteApplied(fsys, "applied", journal.ID{Seq: 11}))
	mustDo(t, journal.WriteApplied(fsys, "applied", want))
	if got, ok, err := journal.ReadApplied(fsys.Crash(nil), "applied"); got != want || !ok || err != nil {
		t.Errorf("after a crash: %v, %v, %v; want %v", got, ok, err, want)
	}
	whole := must(vfs.ReadFile(fsys, "applied", 1000))
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1
		mustDo(t, vfs.WriteAtomic(fsys, "applied", b, false))
		var corrupt *journal.CorruptError
		if _, _, err := journal.ReadApplied(fsys, "applied"); !errors.As(err, &corrupt) {
			t.Errorf("byte %d changed: err = %v, want a CorruptError", i, err)
		}
	}
}
