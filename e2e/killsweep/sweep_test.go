//go:build linux && amd64

package killsweep

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/internal/hgtest"
)

var (
	stride    = flag.Int("stride", 24, "in TestKillSweep, kill at every so many calls; 1 at all of them")
	alone     = flag.Bool("alone", false, "in TestKillSweep, let the server that is killed host etcd in all cases")
	only      = flag.String("case", "", "in TestKillSweep, the one push to kill at")
	listCalls = flag.Bool("calls", false, "in TestKillSweep, print every call that the server was killed at")
)

// TestKillSweep kills the server at the calls of each push in turn. Whatever
// the moment: the next process shows the old state or the new one, the new one
// if the push was acknowledged, and takes the push and another one without any
// help; then the store is, byte for byte, what it is without the kill, and hg
// verify finds nothing.
func TestKillSweep(t *testing.T) {
	if hgtest.UseStock() {
		t.Skip("stock hg needs hg recover after a kill")
	}
	h := hgtest.New(t)
	h.Run("init", "plain")
	verifier := h.In("plain").Session()
	var all tally
	for i, c := range pushCases() {
		if *only != "" && *only != c.name {
			continue
		}
		for _, hosts := range []bool{false, true} {
			// Where etcd is part of what is killed, the start of it makes most of the
			// calls: the first push stands for the others.
			if hosts && i > 0 && !*alone {
				continue
			}
			name := c.name
			if hosts {
				name += ", hosting etcd"
			}
			t.Run(name, func(t *testing.T) {
				s := &sweep{t: t, pushCase: c, hosts: hosts, plain: filepath.Join(h.Dir, "plain"), verifier: verifier}
				s.run(i)
				s.report(t)
				all.add(&s.tally)
			})
		}
	}
	all.report(t)
}

// A tally counts faults and what was found after them.
type tally struct {
	calls, kills, torn          int // calls of a push that wasn't killed
	olds, news, acked, verified int
	kinds                       map[string]int // of kills by call
}

func (a *tally) add(b *tally) {
	a.calls += b.calls
	a.kills += b.kills
	a.torn += b.torn
	a.olds += b.olds
	a.news += b.news
	a.acked += b.acked
	a.verified += b.verified
	for kind, n := range b.kinds {
		a.count(kind, n)
	}
}

func (a *tally) count(kind string, n int) {
	if a.kinds == nil {
		a.kinds = map[string]int{}
	}
	a.kinds[kind] += n
}

func (a *tally) report(t *testing.T) {
	t.Helper()
	lost := "nothing"
	if t.Failed() {
		lost = "SEE ABOVE"
	}
	t.Logf("%d calls; %d kills (%d in the middle of a write): %d left the old state, %d the new one (%d acknowledged); %d hg verify; lost: %s",
		a.calls, a.kills, a.torn, a.olds, a.news, a.acked, a.verified, lost)
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(a.kinds)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", a.kinds[kind], kind))
	}
	t.Logf("by call: %s", strings.Join(kinds, ", "))
}

// A sweep is one push, at all of its calls.
type sweep struct {
	t *testing.T
	pushCase
	tally
	hosts    bool   // the server that is killed hosts etcd
	state    string // of the keeper, who hosts it otherwise
	plain    string // an empty repository
	verifier *hgtest.Session

	want   map[string]string // the store without a kill
	looked int               // wrecks
	wrecks []*wreck          // to be looked at, oldest first
}

// waiting is how many servers wait, started again, for their turn to be looked
// at: meanwhile the leases of the killed ones run out.
const waiting = 12

func (s *sweep) run(offset int) {
	if !s.hosts {
		s.state = s.t.TempDir()
		keeper := s.serve(s.t, s.t.TempDir(), s.state, nil)
		defer keeper.Stop()
	}
	s.kill(never, false)
	for at := offset % *stride; !s.t.Failed(); at += *stride {
		write, fired := s.kill(at, false)
		if !fired {
			break
		}
		if write {
			s.kill(at, true)
		}
	}
	for len(s.wrecks) > 0 && !s.t.Failed() {
		s.lookAtOldest()
	}
	if *stride == 1 && (s.olds == 0 || s.news == 0) {
		s.t.Errorf("%d kills left the old state, %d the new one, want some of both", s.olds, s.news)
	}
}

// never is a call that doesn't come.
const never = -1

// serve starts a server, under a command if there is one.
func (s *sweep) serve(t testing.TB, root, state string, under []string) *hgtest.Server {
	t.Helper()
	srv := hgtest.NewServer(t, hgtest.ServerOptions{
		Root: root, Wrap: under, Args: []string{"--state", state},
		Config: []string{"vcsd.lease-ttl=1"},
		Env:    []string{"GORACE=atexit_sleep_ms=0"},
	})
	if err := srv.TryStart(); err != nil && under == nil {
		t.Fatal(err)
	}
	return srv
}

// A wreck is what a killed server left, in the hands of the next one.
type wreck struct {
	*scope
	at           string // where the server was killed; empty if it was not
	acknowledged bool
	repo         string
	server       *hgtest.Server
	done         bool // the push was there after the restart
}

// kill pushes to a server that is killed at a call, and starts the next one.
// It tells whether the server was killed, and at a write.
func (s *sweep) kill(at int, torn bool) (write, fired bool) {
	sc := newScope(s.t)
	w := &wreck{scope: sc}
	root, state := sc.TempDir(), s.state
	if s.hosts {
		state = sc.TempDir()
	}
	w.repo = filepath.Join(root, "r")
	s.prepare(w, root, state)

	k := newKiller(w, []string{root, state}, at, torn)
	victim := s.serve(w, root, state, k.command(w))
	if victim.URL != "" {
		w.acknowledged = post(w, victim, s.push) == nil
		victim.End()
	}
	count, where := k.wait(w)
	w.at = where
	s.note(at, count, where)
	w.server = s.serve(w, root, state, nil)
	s.lookAtState(w)
	if s.wrecks = append(s.wrecks, w); len(s.wrecks) > waiting || at == never {
		s.lookAtOldest()
	}
	return k.write, where != ""
}

// prepare makes the repository, with what is pushed before.
func (s *sweep) prepare(w *wreck, root, state string) {
	w.must(hgtest.CopyTree(s.plain, w.repo))
	w.must(os.WriteFile(filepath.Join(w.repo, ".hg", "hgrc"), []byte(s.hgrc), 0o644))
	if len(s.before) == 0 {
		return
	}
	maker := s.serve(w, root, state, nil)
	for _, b := range s.before {
		w.must(post(w, maker, b))
	}
	maker.Stop()
}

// note counts a kill.
func (s *sweep) note(at, count int, where string) {
	if at == never {
		s.calls = count
		return
	}
	if where == "" {
		return
	}
	s.kills++
	kind, _, _ := strings.Cut(where, " ")
	if kind == "half" {
		s.torn++
		kind, _, _ = strings.Cut(strings.TrimPrefix(where, "half of "), " ")
	}
	s.count(kind, 1)
	if *listCalls {
		s.t.Logf("%d: %s", at, where)
	}
}

// post pushes; an answer other than success is an error.
func post(t testing.TB, srv *hgtest.Server, bundle []byte) error {
	a, err := srv.Client("r").For(t).Unbundle(t.Context(), hgtest.Force, bundle)
	if err != nil {
		return err
	}
	r, err := hgtest.ParseReply(a)
	if err != nil || r.Error != "" {
		return fmt.Errorf("status %d, reply %+v, %v", a.Status, r, err)
	}
	return nil
}

// lookAtState checks what the next server shows: the old state or the new one.
func (s *sweep) lookAtState(w *wreck) {
	c := w.server.Client("r")
	w.done = s.done(c)
	if w.acknowledged && !w.done {
		w.Errorf("killed at %s: the acknowledged push is gone", w.at)
	}
	if !s.first(c) {
		w.Errorf("killed at %s: what was there before is gone", w.at)
	}
	if w.at == "" {
		return
	}
	if w.acknowledged {
		s.acked++
	}
	if w.done {
		s.news++
	} else {
		s.olds++
	}
}

// lookAtOldest goes on from a wreck: the same push again, another one, and a
// look at the store.
func (s *sweep) lookAtOldest() {
	w := s.wrecks[0]
	s.wrecks = s.wrecks[1:]
	defer w.end()
	if err := post(w, w.server, s.push); err != nil || !s.done(w.server.Client("r")) {
		w.Errorf("killed at %s: push again: %v", w.at, err)
	}
	if err := post(w, w.server, s.after); err != nil {
		w.Errorf("killed at %s: next push: %v", w.at, err)
	}
	w.server.Stop()
	got := content(w, filepath.Join(w.repo, ".hg"))
	if s.want == nil {
		s.want = got
	}
	for _, name := range slices.Sorted(maps.Keys(merged(got, s.want))) {
		if got[name] != s.want[name] {
			w.Errorf("killed at %s: %q has %d bytes, want %d as without a kill", w.at, name, len(got[name]), len(s.want[name]))
		}
	}
	if s.looked++; *stride == 1 || s.looked%4 == 1 {
		s.verified++
		w.verify(s.verifier)
	}
}

func (w *wreck) verify(hg *hgtest.Session) {
	r := hg.Try("verify", "-R", w.repo)
	if r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "warning") {
		w.Errorf("killed at %s: hg verify: exit status %d\n%s%s", w.at, r.Code, r.Stdout, r.Stderr)
	}
}

func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// content returns the files of a repository by their names, and what lies in
// quarantine, but not what vcsd knows of its own work.
func content(w *wreck, dir string) map[string]string {
	files := map[string]string{}
	w.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		own := strings.HasPrefix(name, "vcsd/") && !strings.HasPrefix(name, "vcsd/quarantine/") || strings.HasSuffix(name, "/lock")
		if own || strings.HasPrefix(name, "cache/") {
			return nil
		}
		b, err := os.ReadFile(path)
		files[name] = string(b)
		return err
	}))
	return files
}

// A scope is a testing.TB whose cleanup comes before the end of the test.
type scope struct {
	testing.TB
	undo   []func()
	failed bool // in this scope
}

func newScope(t *testing.T) *scope {
	s := &scope{TB: t}
	t.Cleanup(s.end) // if it comes to that
	return s
}

// Failed tells servers whether to print their logs.
func (s *scope) Failed() bool { return s.failed }

func (s *scope) Errorf(format string, args ...any) {
	s.Helper()
	s.failed = true
	s.TB.Errorf(format, args...)
}

func (s *scope) Fatal(args ...any) {
	s.Helper()
	s.failed = true
	s.TB.Fatal(args...)
}

func (s *scope) Cleanup(f func()) { s.undo = append(s.undo, f) }

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "killsweep-")
	s.must(err)
	s.Cleanup(func() { s.must(os.RemoveAll(dir)) })
	return dir
}

func (s *scope) end() {
	for _, f := range slices.Backward(s.undo) {
		f()
	}
	s.undo = nil
}

func (s *scope) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
