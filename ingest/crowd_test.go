package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/refs"
	"vcsd/store"
)

// crowd runs f for 0 to n-1 at once.
func crowd(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// updating returns a push that says which head it replaces.
func updating(old hg.Node, changesets ...*hgtest.Changeset) []byte {
	return hgtest.Bundle2(hgtest.PushParts([]hg.Node{old}, hgtest.ChangegroupOf(changesets...))...)
}

func TestCrowdOnManyBranches(t *testing.T) {
	n := newNode(t)
	m := n.another()
	base := chain(nil, "", "base", 1)
	n.push(pushOf(base...))
	const pushers, rounds = 64, 2
	tips := make([]*hgtest.Changeset, pushers)
	crowd(pushers, func(i int) {
		at := []*node{n, m}[i%2]
		tip := base[0]
		for range rounds {
			c := chain(tip, fmt.Sprint("branch-", i), fmt.Sprint("c", i, tip.Node().Short()), 1)[0]
			if _, err := at.try(pushOf(c)); err != nil {
				t.Errorf("pusher %d: %v", i, err)
			}
			tip = c
		}
		tips[i] = tip
	})
	v := n.view()
	for i, c := range tips {
		if heads := v.BranchHeadRevs(fmt.Sprint("branch-", i)); len(heads) != 1 || v.Changelog().Node(heads[0]) != c.Node() {
			t.Errorf("heads of branch %d: %v, want the last pushed", i, heads)
		}
	}
	if got := v.Len(); got != 1+pushers*rounds {
		t.Errorf("%d changesets, want %d", got, 1+pushers*rounds)
	}
	toDisk(t, n.fs).Verify()
}

// Of all who push on one head, one wins, and the others are told so.
func TestCrowdOnOneBranch(t *testing.T) {
	n := newNode(t)
	m := n.another()
	tip := chain(nil, "", "base", 1)[0]
	n.push(pushOf(tip))
	const pushers = 64
	for round := range 3 {
		var mu sync.Mutex
		var won []*hgtest.Changeset
		crowd(pushers, func(i int) {
			at := []*node{n, m}[i%2]
			c := chain(tip, "", fmt.Sprint("r", round, "p", i), 1)[0]
			_, err := at.try(updating(tip.Node(), c))
			var raced *hg.PushRaced
			if err != nil && !errors.As(err, &raced) {
				t.Errorf("pusher %d: %v", i, err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, c)
			}
		})
		if len(won) != 1 || !n.has(won[0].Node()) {
			t.Fatalf("%d winners of round %d", len(won), round)
		}
		tip = won[0]
	}
	if v := n.view(); v.Len() != 4 || len(v.HeadRevs()) != 1 {
		t.Errorf("%d changesets, %d heads", v.Len(), len(v.HeadRevs()))
	}
	toDisk(t, n.fs).Verify()
}

// An equal payload is applied once and gets one answer, whether it comes at the
// same time, later, or to another process.
func TestSamePayload(t *testing.T) {
	n := newNode(t)
	m := n.another()
	c := chain(nil, "", "c", 2)
	bundle := hgtest.Bundle2(append(hgtest.PushParts(nil, hgtest.ChangegroupOf(c...)),
		hgtest.Part{Type: "BOOKMARKS", Payload: bookmarkEntry("m", c[1].Node())})...)
	answers := make([]string, 32)
	crowd(len(answers), func(i int) {
		reply, err := []*node{n, m}[i%2].try(bundle)
		if err != nil {
			t.Errorf("push %d: %v", i, err)
			return
		}
		answers[i] = string(encodeParts(t, reply))
	})
	first, again := answers[0], 0
	later := n.push(bundle)
	replayed := string(encodeParts(t, later))
	if last := later.Parts[len(later.Parts)-1]; string(last.Payload) != replayedText {
		t.Errorf("later push ends with %q, want %q", last.Payload, replayedText)
	}
	for i, a := range answers {
		switch a {
		case replayed:
			again++
		case first:
		default:
			if first == replayed {
				first = a
				continue
			}
			t.Errorf("answer %d is another one", i)
		}
	}
	if first == replayed {
		t.Error("nobody was told of the push itself")
	}
	if got := n.view().Len(); got != 2 {
		t.Errorf("%d changesets, want 2", got)
	}
}

func TestBookmarkBackAndForth(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c...))
	a, b := c[0].Node(), c[1].Node()
	n.push(bookmarkPush("m", a))
	for _, to := range []hg.Node{b, a, b, b, a} {
		n.push(bookmarkPush("m", to))
		if got := n.bookmark("m"); got != to {
			t.Fatalf("bookmark is at %s, want %s", got.Short(), to.Short())
		}
	}
	if reply := n.push(bookmarkPush("m", a)); !strings.Contains(string(encodeParts(t, reply)), replayedText) {
		t.Errorf("what holds already is not said to have been published before")
	}
}

// Users don't get each other's answers: each is decided by what it saw.
func TestSamePayloadOfTwoUsers(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)[0]
	n.push(pushOf(base))
	bundle := pushOf(chain(base, "", "c", 1)...)
	errRefused := &hg.PushRaced{Message: "repository changed while uploading changes - please try again"}
	refuse := func([]hg.Node) error { return errRefused }
	crowd(8, func(i int) {
		req := Request{Body: bytes.NewReader(bundle), Who: Who{User: "alice"}, CheckHeads: refuse, HeadsArg: "old"}
		if i%2 == 1 {
			req = Request{Body: bytes.NewReader(bundle), Who: Who{User: "bob"}}
		}
		_, err := n.p.Push(context.Background(), req)
		if i%2 == 1 && err != nil {
			t.Errorf("bob: %v", err)
		}
		// Alice may find that it was published by then.
		if i%2 == 0 && err != nil && !errors.Is(err, errRefused) {
			t.Errorf("alice: %v", err)
		}
	})
	if got := n.view().Len(); got != 2 {
		t.Errorf("%d changesets, want 2", got)
	}
}

// gateBody is a body that calls at its end.
type gateBody struct {
	io.Reader
	atEnd func()
}

func (g *gateBody) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	if err == io.EOF {
		g.atEnd()
	}
	return n, err
}

func TestClientGoesWhileSending(t *testing.T) {
	n := newNode(t)
	bundle := pushOf(chain(nil, "", "c", 1)...)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := n.p.Push(ctx, Request{Body: &gateBody{bytes.NewReader(bundle), cancel}})
	if err == nil {
		t.Error("a push whose client was gone before its end was answered")
	}
	n.close() // waits for what runs
	n.mustOpen()
	if got := n.view().Len(); got != 0 {
		t.Errorf("%d changesets, want none", got)
	}
	n.push(bundle)
}

// A local hg that holds the lock delays pushes; one that gives up waiting, or
// the server's end, takes them back.
func TestStoreIsLocked(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 3)
	n.push(pushOf(c[0]))
	writeLock := func() {
		if err := n.fs.Symlink("elsewhere:1", store.LockName); err != nil {
			t.Fatal(err)
		}
	}
	writeLock()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error)
	go func() {
		_, err := n.p.Push(ctx, Request{Body: bytes.NewReader(pushOf(c[1]))})
		left <- err
	}()
	waiting := make(chan error)
	go func() {
		_, err := n.try(pushOf(c[2]))
		waiting <- err
	}()
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("error of who left = %v, want %v", err, context.Canceled)
	}
	if err := n.fs.Remove(store.LockName); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; !errors.Is(err, hg.ErrMalformed) || !strings.Contains(err.Error(), "unknown parent") {
		t.Errorf("push on what was taken back: %v", err)
	}
	n.push(pushOf(c[1]))

	writeLock()
	go func() {
		_, err := n.try(pushOf(c[2]))
		waiting <- err
	}()
	if err := n.stop(); err != nil {
		t.Errorf("close while a local hg holds the lock: %v", err)
	}
	if err := <-waiting; !errors.Is(err, hg.ErrUnavailable) {
		t.Errorf("error at the server's end = %v, want %v", err, hg.ErrUnavailable)
	}
	// Nothing is to be redone, so that opening doesn't wait for the lock.
	n.mustOpen()
	if !n.has(c[1].Node()) || n.has(c[2].Node()) {
		t.Error("the wrong changesets are there")
	}
	if err := n.fs.Remove(store.LockName); err != nil {
		t.Fatal(err)
	}
	n.push(pushOf(c[2]))
}

// losingStore asks lose before it publishes, as long as there is one. It is set
// before a push, and after that only the sequencer touches it.
type losingStore struct {
	refs.Store
	lose   func(p refs.Publication) error
	silent atomic.Bool // no question is answered
}

var errSecret = fmt.Errorf("%w: dial unix /run/secret.sock: refused", hg.ErrUnavailable)

func (s *losingStore) Tip(ctx context.Context, repo refs.RepoID) (refs.Tip, bool, error) {
	if s.silent.Load() {
		return refs.Tip{}, false, errSecret
	}
	return s.Store.Tip(ctx, repo)
}

func (s *losingStore) Outcome(ctx context.Context, repo refs.RepoID, key [32]byte) ([]byte, bool, error) {
	if s.silent.Load() {
		return nil, false, errSecret
	}
	return s.Store.Outcome(ctx, repo, key)
}

func (s *losingStore) Publish(ctx context.Context, p refs.Publication) error {
	if s.lose != nil {
		if err := s.lose(p); err != nil {
			return err
		}
	}
	return s.Store.Publish(ctx, p)
}

func TestLeaseIsLost(t *testing.T) {
	s := new(losingStore)
	n := newLosingNode(t, s)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c[0]))
	s.lose = func(p refs.Publication) error {
		s.lose = nil
		for _, l := range p.Leases {
			if err := l.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}
		return refs.ErrLeaseLost
	}
	n.push(pushOf(c[1]))
	if !n.has(c[1].Node()) {
		t.Error("the push is not there")
	}
}

// What could not be learnt at first is asked for: the sender hears how it ended.
func TestOutcomeIsUnknown(t *testing.T) {
	for _, published := range []bool{true, false} {
		t.Run(fmt.Sprint("published=", published), func(t *testing.T) {
			s := new(losingStore)
			n := newLosingNode(t, s)
			c := chain(nil, "", "c", 2)
			s.lose = func(p refs.Publication) error {
				s.lose = nil
				return loseAnswer(t, s, p, published)
			}
			for i := range c {
				if reply := n.push(pushOf(c[i])); strings.Contains(string(encodeParts(t, reply)), replayedText) {
					t.Error("the push was published and is answered as one sent again")
				}
			}
			if got := n.view().Len(); got != 2 {
				t.Errorf("%d changesets, want 2", got)
			}
		})
	}
}

// loseAnswer publishes, or doesn't, and says that nobody knows.
func loseAnswer(t *testing.T, s *losingStore, p refs.Publication, published bool) error {
	if published {
		if err := s.Store.Publish(context.Background(), p); err != nil {
			t.Error(err)
		}
	}
	for _, l := range p.Leases {
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	return refs.ErrUnknownOutcome
}

// What can't be learnt in time is said to be unknown, and to push again finds out.
func TestOutcomeStaysUnknown(t *testing.T) {
	for _, published := range []bool{true, false} {
		t.Run(fmt.Sprint("published=", published), func(t *testing.T) {
			s := new(losingStore)
			n := newLosingNodeWith(t, s, Limits{PublishWait: 300 * time.Millisecond})
			c := chain(nil, "", "c", 2)
			s.lose = func(p refs.Publication) error {
				s.lose = nil
				s.silent.Store(true)
				return loseAnswer(t, s, p, published)
			}
			var abort *hg.Abort
			if _, err := n.try(pushOf(c[0])); !errors.As(err, &abort) || !strings.Contains(abort.Message, "not known") {
				t.Fatalf("error = %v", err)
			}
			s.silent.Store(false)
			reply := n.push(pushOf(c[0]))
			if again := strings.Contains(string(encodeParts(t, reply)), replayedText); again != published {
				t.Errorf("answered as one sent again: %v, want %v", again, published)
			}
			n.push(pushOf(c[1]))
			if got := n.view().Len(); got != 2 {
				t.Errorf("%d changesets, want 2", got)
			}
		})
	}
}

// A push that lost against another one of its batch has lost nothing if that one
// could not be published.
func TestLostAgainstNothing(t *testing.T) {
	s := new(losingStore)
	n := newLosingNode(t, s)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c...))
	move := func(to hg.Node) *readyPush {
		ops := []op{checkBookmarks{[]bookmark{{"m", absent}}}, pushkey{namespace: "bookmarks", key: "m", new: to.String()}}
		r := &readyPush{staged: &staged{ops: ops, generation: n.view().Generation()}}
		r.start()
		return r
	}
	first, second := move(c[0].Node()), move(c[1].Node())
	s.lose = func(refs.Publication) error { return fmt.Errorf("%w: no quorum", hg.ErrUnavailable) }
	rest, err := n.p.attempts(context.Background(), []*readyPush{first, second})
	if len(rest) != 1 || rest[0] != first || !errors.Is(err, hg.ErrUnavailable) {
		t.Errorf("%d pushes end with %v", len(rest), err)
	}
	if <-second.done; !errors.Is(second.err, hg.ErrUnavailable) {
		t.Errorf("the other one: %v", second.err)
	}
}

// Pushes wait for a coordination service that is away, and get a sentence if it
// stays away.
func TestRefsAreAway(t *testing.T) {
	s := new(losingStore)
	n := newLosingNodeWith(t, s, Limits{PublishWait: 300 * time.Millisecond})
	c := chain(nil, "", "c", 2)
	s.silent.Store(true)
	_, err := n.try(pushOf(c[0]))
	if !errors.Is(err, hg.ErrUnavailable) || !errors.Is(err, ErrNoAnswer) || strings.Contains(err.Error(), "secret") {
		t.Errorf("error = %v", err)
	}
	s.silent.Store(false)
	n.p.limits.PublishWait = time.Minute
	times := 0
	s.lose = func(refs.Publication) error {
		if times++; times == 3 {
			s.lose = nil
		}
		return errSecret
	}
	n.push(pushOf(c...))
	if times != 3 {
		t.Errorf("published after %d attempts, want 4", times+1)
	}
}

// A repository is opened without the coordination service unless its store may
// be in pieces, and takes pushes once that answers.
func TestOpenWithoutRefs(t *testing.T) {
	for _, tt := range []struct {
		name       string
		checkpoint bool // the store was durable at the end
		boot       string
		whole      bool
	}{
		{"killed", false, "boot-1", true},
		{"restarted", true, "boot-2", true},
		{"power cut", false, "boot-2", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := new(losingStore)
			n := newLosingNode(t, s)
			c := chain(nil, "", "c", 2)
			n.push(pushOf(c[0]))
			n.close()
			if !tt.checkpoint {
				if err := n.fs.Remove(appliedFile); err != nil {
					t.Fatal(err)
				}
			}
			n.boot = tt.boot
			s.silent.Store(true)
			err := n.open()
			var incomplete *IncompleteError
			if errors.As(err, &incomplete) == tt.whole || tt.whole && err != nil {
				t.Fatalf("open: %v, whole: %v", err, tt.whole)
			}
			var abort *hg.Abort
			if err != nil && !errors.As(err, &abort) {
				t.Errorf("clients are told no sentence of %v", err)
			}
			if err == nil && n.view().Len() != 1 {
				t.Errorf("%d changesets, want 1", n.view().Len())
			}
			s.silent.Store(false)
			if err != nil {
				n.mustOpen()
			}
			n.push(pushOf(c[1]))
		})
	}
}

func TestPushkeys(t *testing.T) {
	n := newNode(t)
	c := chain(nil, "", "c", 2)
	n.push(pushOf(c...))
	a, b := c[0].Node().String(), c[1].Node().String()
	var moved [16]bool
	crowd(len(moved), func(i int) {
		ok, _, err := n.p.Pushkey(context.Background(), "bookmarks", fmt.Sprint("m", i/2), "", []string{a, b}[i%2], Who{})
		if err != nil {
			t.Error(err)
		}
		moved[i] = ok
	})
	for i := 0; i < len(moved); i += 2 {
		if moved[i] == moved[i+1] {
			t.Errorf("bookmark m%d: both moves said %v", i/2, moved[i])
		}
	}
}

// A push that can't be numbered does no harm to others in its batch.
func TestUnnumberableAlone(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)[0]
	n.push(pushOf(base))
	good, bad := chain(base, "good", "good", 1), chain(base, "bad", "bad", 1)
	ready := func(c []*hgtest.Changeset) *readyPush {
		dir, err := n.p.quarantine.Receive(t.Context(), bytes.NewReader(pushOf(c...)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Release() })
		st, err := n.p.stage(t.Context(), dir, Request{})
		if err != nil {
			t.Fatal(err)
		}
		r := &readyPush{staged: st, dir: dir, id: journal.Digest(dir.Digest())}
		r.start()
		return r
	}
	g, b := ready(good), ready(bad)
	b.staged.manifest[0].Base = stranger
	n.p.commit(t.Context(), []*readyPush{b, g})
	if <-b.done; b.err == nil {
		t.Error("the bad push was published")
	}
	if <-g.done; g.err != nil {
		t.Errorf("the good push: %v", g.err)
	}
	if !n.has(good[0].Node()) || n.has(bad[0].Node()) {
		t.Error("the wrong changesets are there")
	}
}

// onDisk returns a node whose repository hg made on the disk.
func onDisk(t *testing.T, h *hgtest.HG) *node {
	t.Helper()
	n := &node{t: t, fs: vfs.NewOS(filepath.Join(h.Dir, ".hg")), cluster: refs.NewMemory(), publishing: true, boot: "boot-1"}
	n.mustOpen()
	t.Cleanup(n.close)
	return n
}

// A local hg commits, bookmarks and strips between pushes.
func TestLocalChanges(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init")
	n := onDisk(t, h)
	c := chain(nil, "", "c", 4)
	n.push(pushOf(c[:2]...))
	n.push(bookmarkPush("m", c[0].Node()))

	commit := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		h.Run("commit", "-q", "-A", "-m", name, "-d", "0 0", "-u", "x")
	}
	h.Run("update", "-q", "1")
	commit("local")
	h.Run("bookmark", "-r", "0", "-i", "mine")
	h.Run("bookmark", "-f", "-r", "1", "-i", "m")
	n.push(pushOf(c[2]))
	n.push(bookmarkPush("n", c[2].Node()))
	if n.bookmark("mine") != c[0].Node() || n.bookmark("m") != c[1].Node() || n.bookmark("n") != c[2].Node() {
		t.Error("bookmarks moved by hg are not where hg put them")
	}
	h.Verify()

	h.With("extensions.strip=").Run("strip", "-q", "-r", "desc(local)", "--no-backup")
	commit("second")
	n.push(pushOf(c[3]))
	h.Verify()
	if v := n.view(); v.Len() != 5 || len(v.HeadRevs()) != 2 {
		t.Errorf("%d changesets with %d heads, want 5 with 2", v.Len(), len(v.HeadRevs()))
	}
	n.close()
	n.mustOpen()
	if !n.has(c[3].Node()) {
		t.Error("a push is gone after reopening")
	}
}

// hg clones by hard links; a push must not write into its clones.
func TestLinkedClone(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", "origin")
	o := h.In(filepath.Join(h.Dir, "origin"))
	n := onDisk(t, o)
	c := chain(nil, "", "c", 3)
	n.push(pushOf(c[:2]...))
	h.Run("clone", "-q", "-U", "origin", "clone")
	n.push(pushOf(c[2]))
	clone := h.In(filepath.Join(h.Dir, "clone"))
	clone.Verify()
	o.Verify()
	if got := strings.TrimSpace(clone.Run("log", "-r", "tip", "-T", "{rev}")); got != "1" {
		t.Errorf("tip of the clone is %s, want 1", got)
	}
}

// A mapped changelog that somebody cuts is an error of the push that reads it.
func TestMappingIsCut(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init")
	n := onDisk(t, h)
	var c []*hgtest.Changeset
	var last *hgtest.Changeset
	for i := range 6 { // enough for an index of its own
		last = hgtest.NewChangeset(last, "", text(fmt.Sprint(i), 2000), map[string]string{"f": fmt.Sprint(i)})
		c = append(c, last)
	}
	n.push(pushOf(c...))
	v := n.view()
	name := filepath.Join(h.Dir, ".hg", "store", "00changelog.i")
	saved, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	err = guarded(func() error {
		return fmt.Errorf("read %v", newPending(v).Node(3))
	})
	var fault *vfs.FaultError
	if !errors.As(err, &fault) {
		t.Errorf("reading a cut mapping: %v, want a fault", err)
	}
	_, err = n.try(pushOf(chain(last, "", "next", 1)...))
	if err == nil {
		t.Error("a push on what is gone was accepted")
	}
	if err := os.WriteFile(name, saved, 0o644); err != nil {
		t.Fatal(err)
	}
	n.push(pushOf(chain(last, "", "next", 1)...))
	h.Verify()
}

// Pushes end with their clients wherever they are, and leave nothing.
func TestClientGoesAtEachStage(t *testing.T) {
	n := newNode(t)
	base := chain(nil, "", "base", 1)[0]
	n.push(pushOf(base))
	for i := range 40 {
		ctx, cancel := context.WithCancel(context.Background())
		c := chain(base, "", fmt.Sprint("c", i), 20)
		var steps atomic.Int64
		fsys := &countingFS{FS: n.fs, at: func() {
			if steps.Add(1) == int64(i*3) {
				cancel()
			}
		}}
		n.close()
		real := n.fs
		n.fs = fsys
		n.mustOpen()
		_, err := n.p.Push(ctx, Request{Body: bytes.NewReader(pushOf(c...))})
		cancel()
		n.close() // waits for what runs
		n.fs = real
		n.mustOpen()
		if there := n.has(c[19].Node()); err == nil && !there {
			t.Errorf("step %d: answered, and not there", i*3)
		} else if !there {
			if left := quarantined(t, n.fs); left != nil {
				t.Errorf("step %d: left in quarantine: %q", i*3, left)
			}
		}
	}
}

// countingFS calls at before each file is opened or made.
type countingFS struct {
	vfs.FS
	at func()
}

func (f *countingFS) Open(name string) (vfs.File, error) { f.at(); return f.FS.Open(name) }

func (f *countingFS) Create(name string) (vfs.File, error) { f.at(); return f.FS.Create(name) }
