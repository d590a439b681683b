package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/refs"
)

// brokenFS fails to write to the store while it is told to.
type brokenFS struct {
	vfs.FS
	broken atomic.Bool
}

func (b *brokenFS) OpenWrite(name string) (vfs.File, error) { return b.open(name, b.FS.OpenWrite) }
func (b *brokenFS) Create(name string) (vfs.File, error)    { return b.open(name, b.FS.Create) }

func (b *brokenFS) open(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if b.broken.Load() && strings.HasPrefix(name, "store/00") {
		return nil, errDisk
	}
	return open(name)
}

// sees waits until a changeset can be read, without pushing anything.
func (n *node) sees(c hg.Node) {
	n.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !n.has(c); <-tick.C {
		if time.Now().After(end) {
			n.t.Fatal("the store stays behind the tip")
		}
	}
}

// What was published and could not be linked is there as soon as it can be,
// without a push.
func TestLinkFailsForAWhile(t *testing.T) {
	b := &brokenFS{FS: emptyRepo(t)}
	n := &node{t: t, fs: b, cluster: refs.NewMemory(), publishing: true, boot: "boot-1"}
	n.mustOpen()
	defer n.close()
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c[0]))
	b.broken.Store(true)
	var abort *hg.Abort
	if _, err := n.try(pushOf(c[1])); !errors.As(err, &abort) || !strings.Contains(abort.Message, "can't show it yet") {
		t.Fatalf("push that can't be linked: %v", err)
	}
	if n.has(c[1].Node()) {
		t.Fatal("it was linked all the same")
	}
	b.broken.Store(false)
	n.sees(c[1].Node())
}

// So is what was published without anybody's knowledge, also if it takes place
// late.
func TestUnknownOutcomeIsSeen(t *testing.T) {
	s := new(losingStore)
	n := newLosingNodeWith(t, s, Limits{PublishWait: 100 * time.Millisecond})
	c := chain(nil, "", "c", 1)
	publish := make(chan error, 1)
	s.lose = func(p refs.Publication) error {
		s.lose = nil
		s.silent.Store(true)
		p.Leases = nil // they go with the push
		time.AfterFunc(200*time.Millisecond, func() { publish <- s.Store.Publish(context.Background(), p) })
		return refs.ErrUnknownOutcome
	}
	if _, err := n.try(pushOf(c[0])); err == nil {
		t.Fatal("a push of unknown outcome was acknowledged")
	}
	s.silent.Store(false)
	n.sees(c[0].Node())
	if err := <-publish; err != nil {
		t.Error(err)
	}
}

// And what another process published that ended before it could link it.
func TestDeadProcessIsSeen(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c[0]))
	b := &brokenFS{FS: n.fs}
	dead := &node{t: t, fs: b, cluster: n.cluster, publishing: true, boot: n.boot}
	dead.mustOpen()
	b.broken.Store(true)
	if _, err := dead.try(pushOf(c[1])); err == nil {
		t.Fatal("a push that can't be linked was acknowledged")
	}
	dead.close()
	n.sees(c[1].Node())
}

// A push that was staged before another process made the first revisions, or
// split a log, is not told that revisions were removed.
func TestOtherProcessReplacesLogs(t *testing.T) {
	n := newNode(t)
	m := n.another()
	old := n.view()
	first := chain(nil, "", "first", 1)
	m.push(pushOf(first...))
	now := n.view()
	if old.Generation() != now.Generation() {
		t.Error("generation changed with the first revision")
	}
	// Enough for the changelog to outgrow an inline file.
	var more []*hgtest.Changeset
	for i, last := 0, first[0]; i < 80; i++ {
		last = hgtest.NewChangeset(last, "", text(fmt.Sprint(i), 100), map[string]string{"f": fmt.Sprintln(i)})
		more = append(more, last)
	}
	m.push(pushOf(more...))
	split := n.view()
	if _, err := n.fs.Stat("store/00changelog.d"); err != nil {
		t.Fatalf("the changelog was not split: %v", err)
	}
	if split.Len() != 81 || split.Generation() != now.Generation() {
		t.Errorf("%d changesets, generation changed by the split: %v", split.Len(), split.Generation() != now.Generation())
	}
	// As a process does whose predecessor died in a sync.
	const index = "store/00changelog.i"
	f, err := n.fs.OpenWrite(index)
	if err != nil {
		t.Fatal(err)
	}
	before := mustStat(t, n.fs, index)
	if _, err := f.WriteAt(readAll(t, n.fs, index), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if mustStat(t, n.fs, index).ModTime.Equal(before.ModTime) {
		t.Fatal("the file looks as before")
	}
	if again := n.view(); again.Generation() != split.Generation() {
		t.Error("generation changed as the same was written again")
	}
}

func mustStat(t *testing.T, fsys vfs.FS, name string) vfs.Info {
	t.Helper()
	info, err := fsys.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
