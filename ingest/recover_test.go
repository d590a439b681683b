package ingest

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/store"
	"vcsd/wire"
	"vcsd/wire/obsmarker"
)

// publishOnly pushes, and the process dies before anything is linked: at the
// first change of a file of the store.
func publishOnly(t *testing.T, n *node, bundle []byte) {
	t.Helper()
	real := n.fs
	for k := 0; ; k++ {
		tip := n.tipSeq()
		before := storeContent(t, real)
		fsys := errfs.CutNth(real, k, errfs.Changes...)
		n.fs = fsys
		if err := n.open(); err == nil {
			_, _ = n.try(bundle)
			_ = n.stop()
		}
		n.fs = real
		if m, ok := real.(*vfs.Mem); ok {
			m.Kill()
		}
		if n.tipSeq() > tip {
			if after := storeContent(t, real); len(after) != len(before) || after["store/00changelog.i"] != before["store/00changelog.i"] {
				t.Fatalf("operation %d: something was linked", k)
			}
			return
		}
		if !fsys.Fired() {
			t.Fatal("no operation leaves the push published and not linked")
		}
	}
}

// tipSeq returns the published seq.
func (n *node) tipSeq() uint64 {
	n.t.Helper()
	c := n.cluster.Client(refsOptions)
	defer c.Close()
	tip, _, err := c.Tip(n.t.Context(), "repo")
	if err != nil {
		n.t.Fatal(err)
	}
	return tip.Seq
}

// The records of a process that was killed are synced before the checkpoint of
// the next one passes them: a power cut after that loses nothing.
func TestPowerCutAfterKill(t *testing.T) {
	c := chain(nil, "", "c", 4)
	n := newNode(t)
	n.push(pushOf(c[0]))
	n.close()
	mem := n.fs.(*vfs.Mem)
	// The first process answers, and is killed while it syncs the store.
	killed := &badSync{FS: mem, answered: make(chan struct{}), err: errfs.ErrPowerCut}
	n.fs = killed
	n.mustOpen()
	n.push(pushOf(c[1]))
	close(killed.answered)
	if err := n.stop(); !errors.Is(err, errfs.ErrPowerCut) {
		t.Fatalf("stop: %v, want a checkpoint that ended in a sync", err)
	}
	mem.Kill()
	n.fs = mem
	n.mustOpen()
	n.push(pushOf(c[2]))
	n.close() // with a checkpoint

	n.fs, n.boot = mem.Crash(nil), "boot-2"
	n.mustOpen()
	n.push(pushOf(c[3]))
	if !n.has(c[1].Node(), c[2].Node()) {
		t.Error("a push that was acknowledged is gone")
	}
	toDisk(t, n.fs).Verify()
}

// A badSync is the file system of a process none of whose syncs of a file of the
// store succeeds. They begin once its push is answered.
type badSync struct {
	vfs.FS
	answered chan struct{}
	err      error // of each
	lost     bool  // they lose what they were to save
}

func (b *badSync) Open(name string) (vfs.File, error) {
	f, err := b.FS.Open(name)
	if err != nil || !strings.HasPrefix(name, "store/") {
		return f, err
	}
	return &neverSynced{f, b}, nil
}

type neverSynced struct {
	vfs.File
	fs *badSync
}

func (f *neverSynced) Sync() error {
	<-f.fs.answered
	if f.fs.lost {
		f.File.(interface{ FailSync() }).FailSync()
	}
	return f.fs.err
}

// So are those of another process that still lives.
func TestPowerCutWithTwoProcesses(t *testing.T) {
	c := chain(nil, "", "c", 4)
	n := newNode(t)
	m := n.another()
	n.push(pushOf(c[0]))
	m.push(pushOf(c[1]))
	n.push(pushOf(c[2]))
	mem := n.fs.(*vfs.Mem)
	n.close()
	crashed := mem.Crash(nil)
	m.close()
	o := &node{t: t, fs: crashed, cluster: n.cluster, publishing: true, boot: "boot-2"}
	o.mustOpen()
	defer o.close()
	o.push(pushOf(c[3]))
	if v := o.view(); v.Len() != 4 {
		t.Errorf("%d changesets, want 4", v.Len())
	}
	toDisk(t, crashed).Verify()
}

// A sync that fails stops the process that saw it; another one that lives writes
// again what that one had linked, goes on, and loses nothing to a power cut.
func TestFailedSyncWithTwoProcesses(t *testing.T) {
	c := chain(nil, "", "c", 4)
	n := newNode(t)
	m := n.another()
	n.push(pushOf(c[0]))
	m.push(pushOf(c[1]))
	n.close()
	mem := n.fs.(*vfs.Mem)
	bad := &badSync{FS: mem, answered: make(chan struct{}), err: errDisk, lost: true}
	n.fs = bad
	n.mustOpen()
	n.push(pushOf(c[2]))
	close(bad.answered)
	if err := n.stop(); !errors.Is(err, errDisk) {
		t.Fatalf("stop: %v, want a sync that failed", err)
	}
	if there, err := vfs.Exists(mem, unsyncedFile); !there || err != nil {
		t.Fatalf("%s: %v, %v, want it to stand", unsyncedFile, there, err)
	}
	// The changelog was written, so that m can't tell whether it was rewritten.
	var raced *hg.PushRaced
	if _, err := m.try(pushOf(c[3])); err != nil && !errors.As(err, &raced) {
		t.Fatal(err)
	}
	m.push(pushOf(c[3]))
	m.close()
	if there, err := vfs.Exists(mem, unsyncedFile); there || err != nil {
		t.Fatalf("%s: %v, %v, want it gone", unsyncedFile, there, err)
	}
	want := storeContent(t, mem)
	crashed := mem.Crash(nil)
	if got := storeContent(t, crashed); !maps.Equal(got, want) {
		t.Error("the store differs after a power cut")
	}
	toDisk(t, crashed).Verify()
}

// A local hg that commits after a crash, before the last push was linked, is a
// conflict: pushes are refused with reads going on, until its changes are gone.
func TestLocalChangeAfterCrash(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init")
	n := &node{t: t, fs: vfs.NewOS(filepath.Join(h.Dir, ".hg")), cluster: newMemory(), publishing: true, boot: "boot-1"}
	defer func() { _ = n.stop() }()
	c := chain(nil, "", "c", 3)
	n.mustOpen()
	n.push(pushOf(c[0]))
	n.close()
	publishOnly(t, n, pushOf(c[1]))

	// The lock of the dead process names this one, which lives.
	os.Remove(filepath.Join(h.Dir, ".hg", "store", "lock"))
	h.Run("update", "-q", "tip")
	if err := os.WriteFile(filepath.Join(h.Dir, "local"), []byte("local\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.Run("commit", "-q", "-A", "-m", "local", "-u", "x")
	h.Verify()

	err := n.open()
	message, _, known := wire.Explain(err)
	if err == nil || !known || !strings.Contains(message, "takes no pushes") {
		t.Fatalf("open after a local commit: %v, told as %q", err, message)
	}
	if !strings.Contains(Cause(errAs(err)).Error(), "strip") {
		t.Errorf("the log is not told what to do: %v", Cause(errAs(err)))
	}
	h.Verify() // nothing was written

	h.With("extensions.strip=").Run("strip", "-q", "-r", "desc(local)")
	n.mustOpen()
	if !n.has(c[1].Node()) {
		t.Error("the push is not there after the strip")
	}
	n.push(pushOf(c[2]))
	h.Verify()
}

// errAs finds the error with a cause.
func errAs(err error) error {
	var h *hiddenError
	errors.As(err, &h)
	return h
}

func TestLostRefs(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c[0]))
	n.close()
	old := n.cluster
	n.cluster = newMemory()
	if err := n.open(); Cause(err) == nil || !strings.Contains(Cause(err).Error(), RestoreCommand) {
		t.Fatalf("opened with another coordination service: %v", err)
	}
	// Another history that happens to be as long.
	other := newNode(t)
	other.push(pushOf(chain(nil, "", "other", 1)...))
	n.cluster = other.cluster
	if err := n.open(); err == nil {
		t.Fatal("opened with the tip of another repository")
	}
	n.cluster = old
	n.mustOpen()
	n.push(pushOf(c[1]))
}

// A process that fails once to link a record, or anything else, goes on with
// the next push.
func TestLinkFailsOnce(t *testing.T) {
	c := chain(nil, "", "c", 3)
	for k := 0; ; k++ {
		n := newNode(t)
		n.push(pushOf(c[0]))
		n.close()
		fsys := errfs.FailNth(n.fs, k, errDisk, errfs.Write, errfs.Create, errfs.Rename)
		real := n.fs
		n.fs = fsys
		if err := n.open(); err != nil {
			n.fs = real
			continue
		}
		for _, c := range c[1:] {
			for range 2 {
				fired := fsys.Fired()
				_, err := n.try(pushOf(c))
				if err != nil && (fired || !fsys.Fired()) || err == nil && !n.has(c.Node()) {
					t.Errorf("%s: push in the same process: %v", fsys.Where(), err)
				}
			}
		}
		_ = n.stop()
		n.fs = real
		if !fsys.Fired() {
			break
		}
	}
}

// What a local hg wrote is in no record. A sync of it that failed is made up for
// all the same: the pushes on top of it don't hang in the air after a power cut.
func TestFailedSyncOfLocalChange(t *testing.T) {
	c := chain(nil, "", "c", 5)
	n := newNode(t)
	n.publishing = false
	n.push(pushOf(c...))
	n.push(markerPush(c[4].Node()))
	n.close()
	mem := n.fs.(*vfs.Mem)
	bad := &badSync{FS: mem, answered: make(chan struct{}), err: errDisk, lost: true}
	n.fs = bad
	n.mustOpen()
	close(bad.answered)
	// More than a page, which what is pushed afterwards would write again.
	var local []byte
	for i := range 1000 {
		var err error
		if local, err = obsmarker.AppendV1(local, &obsmarker.Marker{Prec: hg.Node{1, byte(i >> 8), byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := mem.OpenWrite(store.ObsStorePath)
	if err != nil {
		t.Fatal(err)
	}
	// As hg does: without a sync.
	if _, err := f.WriteAt(local, int64(len(readAll(t, mem, store.ObsStorePath)))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.try(markerPush(c[2].Node())); err == nil {
		t.Fatal("pushed though the local change could not be synced")
	}
	_ = n.stop()

	n.fs = mem
	n.mustOpen()
	n.push(markerPush(c[2].Node()))
	n.close()
	want := storeContent(t, mem)
	if got := storeContent(t, mem.Crash(nil)); !maps.Equal(got, want) {
		t.Error("the store differs after a power cut")
	}
}

// A witness is the file system of a process, and sees to it that nothing of the
// store is synced but while unsyncedFile stands.
type witness struct {
	vfs.FS
	t     *testing.T
	syncs atomic.Int32
}

func (w *witness) Open(name string) (vfs.File, error) {
	f, err := w.FS.Open(name)
	if err != nil || !strings.HasPrefix(name, "store/") {
		return f, err
	}
	return &witnessed{f, w, name}, nil
}

type witnessed struct {
	vfs.File
	w    *witness
	name string
}

func (f *witnessed) Sync() error {
	f.w.syncs.Add(1)
	if there, err := vfs.Exists(f.w.FS, unsyncedFile); !there || err != nil {
		f.w.t.Errorf("%s is synced, and %s does not stand: %v", f.name, unsyncedFile, err)
	}
	return f.File.Sync()
}

func TestSyncsAreAnnounced(t *testing.T) {
	for _, c := range crashCases() {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.publishing = c.name != "phases only" && c.name != "markers only"
			w := &witness{FS: n.fs, t: t}
			for _, b := range append(c.before, c.push, c.after) {
				n.close()
				n.fs = w
				n.mustOpen()
				n.push(b)
			}
			n.close()
			if w.syncs.Load() == 0 {
				t.Error("nothing was synced")
			}
		})
	}
}

// A process that ends doesn't wait for long while another one syncs.
func TestCloseBesideSync(t *testing.T) {
	n := newNode(t)
	lock, err := n.fs.Lock(syncLock)
	if err != nil {
		t.Fatal(err)
	}
	n.push(pushOf(chain(nil, "", "c", 1)...))
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	select {
	case err = <-stopped:
	case <-time.After(30 * closeWait):
		t.Errorf("not stopped after %v", 30*closeWait)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want a checkpoint that was not moved", err)
	}
}

// What hg rollback looks for doesn't come back with a power cut after the
// checkpoint: it would take away what was pushed since.
func TestUndoStaysAway(t *testing.T) {
	n := newNode(t)
	first := hgtest.NewChangeset(nil, "", "first", map[string]string{"f": "1\n"})
	n.push(pushOf(first))
	n.close()
	files := []string{undoFile, "store/undo.phaseroots", "undo.desc"}
	for _, name := range files {
		writeFile(t, n.fs, name, "0\n")
	}
	n.mustOpen()
	n.push(pushOf(hgtest.NewChangeset(first, "", "second", map[string]string{"f": "2\n"})))
	n.close()
	crashed := n.fs.(*vfs.Mem).Crash(nil)
	for _, name := range files {
		if there, err := vfs.Exists(crashed, name); there || err != nil {
			t.Errorf("%s is there after a power cut: %v, %v", name, there, err)
		}
	}
}
