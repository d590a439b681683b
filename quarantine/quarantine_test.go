package quarantine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
	"lukechampine.com/blake3"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/quarantine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fsys vfs.FS, o quarantine.Options) *quarantine.Area {
	t.Helper()
	a, err := quarantine.Open(fsys, "q", o)
	mustDo(t, err)
	t.Cleanup(func() { mustDo(t, a.Close()) })
	return a
}

// names returns the files and directories below dir, less the locks.
func names(t testing.TB, fsys vfs.FS, dir string) []string {
	t.Helper()
	var list []string
	for _, e := range must(fsys.ReadDir(dir)) {
		name := path.Join(dir, e.Name())
		if e.Name() != "lock" {
			list = append(list, name)
		}
		if e.IsDir() {
			list = append(list, names(t, fsys, name)...)
		}
	}
	return list
}

func TestReceive(t *testing.T) {
	for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 1 << 20, 1<<20 + 32<<10, 3<<20 + 5} {
		fsys := vfs.NewMem()
		a := open(t, fsys, quarantine.Options{MaxBytes: int64(size), QuotaBytes: int64(size) + 1})
		payload := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		r := iotest.HalfReader(bytes.NewReader(payload))
		if size < 100<<10 {
			r = iotest.OneByteReader(r)
		}
		d, err := a.Receive(ctx, r)
		mustDo(t, err)
		if want := quarantine.Digest(blake3.Sum256(payload)); d.Digest() != want || d.Size() != int64(size) {
			t.Errorf("size %d: digest %v, size %d; want %v", size, d.Digest(), d.Size(), want)
		}
		if path.Base(d.Path()) != d.Digest().String() {
			t.Errorf("size %d: directory %q, want the digest", size, d.Path())
		}
		f := must(d.OpenPayload())
		if got := must(io.ReadAll(f)); !bytes.Equal(got, payload) {
			t.Errorf("size %d: payload differs", size)
		}
		mustDo(t, f.Close())
		mustDo(t, d.Release())
		mustDo(t, d.Release())
		if got := names(t, fsys, "q"); len(got) != 1 || a.Held() != 0 {
			t.Errorf("size %d: after Release %v is left, %d bytes held", size, got, a.Held())
		}
	}
}

func TestReceiveRefuses(t *testing.T) {
	broken := errors.New("connection broke")
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	text := func(n int) io.Reader { return strings.NewReader(strings.Repeat("x", n)) }
	tests := []struct {
		name string
		ctx  context.Context
		r    io.Reader
		want error
	}{
		{"too large", ctx, text(100_001), hg.ErrTooLarge},
		{"endless", ctx, endless{}, hg.ErrTooLarge},
		{"over the quota", ctx, text(90_000), hg.ErrUnavailable},
		{"a broken connection", ctx, io.MultiReader(text(70_000), iotest.ErrReader(broken)), broken},
		{"a cancelled request", cancelled, text(10), context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			a := open(t, fsys, quarantine.Options{MaxBytes: 100_000, QuotaBytes: 120_000})
			other := must(a.Receive(ctx, text(40_000)))
			before := len(names(t, fsys, "q"))
			if _, err := a.Receive(tt.ctx, tt.r); !errors.Is(err, tt.want) {
				t.Errorf("err = %v, want %v", err, tt.want)
			}
			if got := names(t, fsys, "q"); len(got) != before || a.Held() != 40_000 {
				t.Errorf("left: %v, %d bytes held", got, a.Held())
			}
			mustDo(t, other.Release())
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestReceiveFailsAtEachOperation(t *testing.T) {
	boom := errors.New("boom")
	for n := 0; ; n++ {
		mem := vfs.NewMem()
		fsys := errfs.FailNth(mem, n, boom)
		err := useOnce(fsys)
		if !fsys.Fired() {
			mustDo(t, err)
			break
		}
		if !errors.Is(err, boom) {
			t.Errorf("%s: err = %v, want the fault", fsys.Where(), err)
		}
	}
}

func useOnce(fsys vfs.FS) (err error) {
	a, err := quarantine.Open(fsys, "q", quarantine.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	d, err := a.Receive(ctx, strings.NewReader("payload"))
	if err != nil {
		return err
	}
	joined, err := a.Receive(ctx, strings.NewReader("payload"))
	if err != nil {
		return errors.Join(err, d.Release())
	}
	return errors.Join(d.Release(), joined.Release(), a.Sweep(ctx))
}

func TestEqualPayloadsShareADirectory(t *testing.T) {
	fsys := vfs.NewMem()
	a := open(t, fsys, quarantine.Options{})
	first := must(a.Receive(ctx, strings.NewReader("same")))
	second := must(a.Receive(ctx, strings.NewReader("same")))
	other := must(a.Receive(ctx, strings.NewReader("other")))
	if first.Path() != second.Path() || first.Path() == other.Path() {
		t.Errorf("directories %q, %q, %q", first.Path(), second.Path(), other.Path())
	}
	if got := a.Held(); got != 9 {
		t.Errorf("%d bytes held, want 9", got)
	}
	mustDo(t, first.Release())
	if f, err := second.OpenPayload(); err != nil {
		t.Errorf("the second lost its payload: %v", err)
	} else {
		mustDo(t, f.Close())
	}
	mustDo(t, second.Release())
	if _, err := second.OpenPayload(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the last Release: err = %v, want ErrNotExist", err)
	}
	mustDo(t, other.Release())
}

func TestSegments(t *testing.T) {
	fsys := vfs.NewMem()
	a := open(t, fsys, quarantine.Options{QuotaBytes: 100})
	d := must(a.Receive(ctx, strings.NewReader("payload")))
	if _, err := d.OpenSegment(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no segment: err = %v, want ErrNotExist", err)
	}
	f := must(d.CreateSegment())
	must(f.Write([]byte("0123")))
	must(f.WriteAt([]byte("23456"), 2))
	must(f.Write([]byte("45")))
	if got := a.Held(); got != 14 {
		t.Errorf("%d bytes held, want 14", got)
	}
	if _, err := f.WriteAt(make([]byte, 200), 7); !errors.Is(err, hg.ErrUnavailable) {
		t.Errorf("over the quota: err = %v, want ErrUnavailable", err)
	}
	mustDo(t, f.Close())
	if got := string(must(vfs.ReadFile(fsys, d.SegmentPath(), 100))); got != "0123456" {
		t.Errorf("segment = %q, want 0123456", got)
	}
	was := d.SegmentPath()
	mustDo(t, must(d.CreateSegment()).Close())
	if d.SegmentPath() == was {
		t.Error("a second segment has the name of the first")
	}
	mustDo(t, d.Release())
	if got := a.Held(); got != 0 {
		t.Errorf("%d bytes held after Release", got)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": vfs.NewMem(), "os": vfs.NewOS(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			mine, others := open(t, fsys, quarantine.Options{}), open(t, fsys, quarantine.Options{})
			d := must(mine.Receive(ctx, strings.NewReader("mine")))
			e := must(others.Receive(ctx, strings.NewReader("another's")))
			mustDo(t, fsys.MkdirAll("q/p-dead/digest"))
			mustDo(t, vfs.WriteAtomic(fsys, "q/p-dead/digest/payload", []byte("x"), false))
			mustDo(t, fsys.MkdirAll("q/gone-dead/digest"))
			mustDo(t, fsys.MkdirAll("q/foreign"))
			mustDo(t, mine.Sweep(ctx))
			for _, d := range []*quarantine.Dir{d, e} {
				mustDo(t, must(d.OpenPayload()).Close())
				mustDo(t, d.Release())
			}
			for _, left := range []string{"q/p-dead", "q/gone-dead"} {
				if there := must(vfs.Exists(fsys, left)); there {
					t.Errorf("what a dead process left is there: %s", left)
				}
			}
			if there := must(vfs.Exists(fsys, "q/foreign")); !there {
				t.Error("a foreign directory was removed")
			}
		})
	}
}

func TestSweepAfterKill(t *testing.T) {
	fsys := vfs.NewMem()
	dead, err := quarantine.Open(fsys, "q", quarantine.Options{})
	mustDo(t, err)
	must(dead.Receive(ctx, strings.NewReader("lost")))
	fsys.Kill()
	a := open(t, fsys, quarantine.Options{})
	mustDo(t, a.Sweep(ctx))
	if got := names(t, fsys, "q"); len(got) != 1 {
		t.Errorf("left: %v, want the living process's directory", got)
	}
}

func TestManyOpenAndSweep(t *testing.T) {
	fsys := vfs.NewOS(t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				a, err := quarantine.Open(fsys, "q", quarantine.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				d, err := a.Receive(ctx, strings.NewReader("payload"))
				if err == nil {
					err = errors.Join(a.Sweep(ctx), d.Release())
				}
				if err := errors.Join(err, a.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := names(t, fsys, "q"); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestCloseRemovesAll(t *testing.T) {
	fsys := vfs.NewMem()
	a := must(quarantine.Open(fsys, "q", quarantine.Options{}))
	d := must(a.Receive(ctx, strings.NewReader("x")))
	mustDo(t, a.Close())
	mustDo(t, a.Close())
	mustDo(t, d.Release())
	if got := names(t, fsys, "q"); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if _, err := a.Receive(ctx, strings.NewReader("x")); !errors.Is(err, hg.ErrUnavailable) {
		t.Errorf("Receive after Close: err = %v, want ErrUnavailable", err)
	}
}
