package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
	"vcsd/internal/hgtest"

	"golang.org/x/sync/errgroup"
)

var hookTime = flag.Duration("hook-time", 0, "how long the slow hook takes in the test of pushes beside it; 0 means as long as 40 pushes take")

// A gate is where a hook waits for the test, and the test for the hook.
type gate struct {
	t   *testing.T
	dir string
}

func newGate(t *testing.T) gate { return gate{t, t.TempDir()} }

func (g gate) file(name string) string { return filepath.Join(g.dir, name) }

// wait is what a hook runs to wait at the gate, which the test closes.
func (g gate) wait() string {
	return fmt.Sprintf("touch '%s'; while test -e '%s'; do sleep 0.02; done", g.file("arrived"), g.file("closed"))
}

func (g gate) close() {
	g.t.Helper()
	if err := os.WriteFile(g.file("closed"), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(g.open)
}

func (g gate) open() { _ = os.Remove(g.file("closed")) } // it may be open

// arrived waits until a hook stands at the gate.
func (g gate) arrived() {
	g.t.Helper()
	until(g.t, "a hook at the gate", func() bool { _, err := os.Stat(g.file("arrived")); return err == nil })
	if err := os.Remove(g.file("arrived")); err != nil {
		g.t.Fatal(err)
	}
}

// until waits for what has to come.
func until(t *testing.T, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !there(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// pushVar passes a variable to hooks.
func pushVar(name, value string) hgtest.Part {
	return hgtest.Part{Type: "PUSHVARS", Advisory: []hgtest.Param{{Name: name, Value: value}}}
}

// pushed is what came of a push in the background.
type pushed struct {
	reply hgtest.Reply
	err   error
}

func (s *site) pushBeside(ctx context.Context, parts ...hgtest.Part) <-chan pushed {
	done := make(chan pushed, 1)
	go func() {
		r, err := s.push(ctx, parts...)
		done <- pushed{r, err}
	}()
	return done
}

// TestSlowHookDelaysNobodyElse: while a veto hook holds a push to one branch,
// pushes to another take no longer than before.
func TestSlowHookDelaysNobodyElse(t *testing.T) {
	if hgtest.UseStock() {
		t.Log("stock holds its lock while hooks run")
		return
	}
	g := newGate(t)
	s := newSite(t, "push.pushvars.server=yes", `hooks.pretxnchangegroup.slow=if test -n "$HG_USERVAR_SLOW"; then `+g.wait()+"; fi")
	roots := map[string]*hgtest.Changeset{}
	for _, b := range []string{"slow", "quick"} {
		roots[b] = hgtest.NewChangeset(nil, b, b, map[string]string{b: "root\n"})
		s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(roots[b]))...)
	}
	head := roots["quick"]
	n := 0
	push := func() time.Duration {
		n++
		next := hgtest.NewChangeset(head, "quick", fmt.Sprint(n), map[string]string{"quick": fmt.Sprint(n, "\n")})
		start := time.Now()
		s.mustPush(t, hgtest.PushParts([]hg.Node{head.Node()}, hgtest.ChangegroupOf(next))...)
		head = next
		return time.Since(start)
	}
	pushes := func() (took []time.Duration) {
		for start := time.Now(); len(took) < 40 || time.Since(start) < *hookTime; {
			took = append(took, push())
		}
		return took
	}
	alone := pushes()
	g.close()
	slow := hgtest.NewChangeset(roots["slow"], "slow", "slow push", map[string]string{"slow": "next\n"})
	parts := append([]hgtest.Part{pushVar("slow", "1")}, hgtest.PushParts([]hg.Node{roots["slow"].Node()}, hgtest.ChangegroupOf(slow))...)
	done := s.pushBeside(t.Context(), parts...)
	g.arrived()
	start := time.Now()
	beside := pushes()
	select {
	case r := <-done:
		t.Errorf("the slow push was answered before its hook ended: %+v", r)
	default:
	}
	took := time.Since(start)
	g.open()
	if r := <-done; r.err != nil || r.reply.Return == 0 || r.reply.Error != "" {
		t.Errorf("the slow push: %+v", r)
	}
	a, b := p99(alone), p99(beside)
	t.Logf("p99 of %d pushes %v (median %v), of %d beside a hook of %v %v (median %v)", len(alone), a, median(alone), len(beside), took.Round(time.Millisecond), b, median(beside))
	if b > 3*a+200*time.Millisecond {
		t.Errorf("p99 %v beside a slow hook, %v without", b, a)
	}
	s.Stop()
	s.checkStore(t, []hg.Node{slow.Node(), head.Node()})
}

func p99(ds []time.Duration) time.Duration {
	ds = slices.Sorted(slices.Values(ds))
	return ds[(len(ds)*99-1)/100]
}

func median(ds []time.Duration) time.Duration { return slices.Sorted(slices.Values(ds))[len(ds)/2] }

// TestKillWhileHookRuns: a push whose hook is at work when the server is killed
// leaves nothing, not even what the hook was shown.
func TestKillWhileHookRuns(t *testing.T) {
	g := newGate(t)
	s := newSite(t, "hooks.pretxnclose.slow="+g.wait())
	g.close()
	root := hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})
	parts := hgtest.PushParts(nil, hgtest.ChangegroupOf(root))
	done := s.pushBeside(t.Context(), parts...)
	g.arrived()
	s.Kill()
	if r := <-done; r.err == nil {
		t.Errorf("a killed server answered: %+v", r.reply)
	}
	g.open()
	s.restart()
	if s.Stock {
		return // it has an abandoned transaction
	}
	if heads := s.client.Heads(); len(heads) != 1 || !heads[0].IsNull() {
		t.Errorf("heads %v", heads)
	}
	if left := s.quarantined(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
	s.mustPush(t, parts...)
	s.Stop()
	s.checkStore(t, []hg.Node{root.Node()})
}

// TestHooksSeeWhatIsCommitted: if a bookmark moves while the hooks of a push
// that moves it too are at work, they are asked again.
func TestHooksSeeWhatIsCommitted(t *testing.T) {
	if hgtest.UseStock() {
		t.Log("stock holds its lock while hooks run")
		return
	}
	g := newGate(t)
	log := g.file("log")
	s := newSite(t, "push.pushvars.server=yes",
		"hooks.pretxnclose-bookmark=echo pre $HG_OLDNODE $HG_NODE >>'"+log+`'; if test -n "$HG_USERVAR_SLOW"; then `+g.wait()+"; fi",
		"hooks.txnclose-bookmark=echo post $HG_OLDNODE $HG_NODE >>'"+log+"'", "hooks.txnabort=echo abort >>'"+log+"'")
	var revs []*hgtest.Changeset
	for i := range 3 {
		revs = append(revs, hgtest.NewChangeset(nil, "", fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)}))
	}
	s.mustPush(t, hgtest.PushParts(nil, hgtest.ChangegroupOf(revs...))...)
	move := func(c *hgtest.Changeset, more ...hgtest.Part) <-chan pushed {
		n := c.Node()
		payload := append(append(n[:], 0, 2), "bk"...)
		parts := append(more, hgtest.Part{Type: "replycaps", Payload: []byte(hgtest.ReplyCaps)}, hgtest.Part{Type: "BOOKMARKS", Payload: payload})
		return s.pushBeside(t.Context(), parts...)
	}
	if r := <-move(revs[0]); r.err != nil || r.reply.Error != "" {
		t.Fatalf("%+v", r)
	}
	g.close()
	slow := move(revs[1], pushVar("slow", "1"))
	g.arrived()
	if r := <-move(revs[2]); r.err != nil || r.reply.Error != "" {
		t.Fatalf("%+v", r)
	}
	g.open()
	if r := <-slow; r.err != nil || r.reply.Error != "" {
		t.Fatalf("%+v", r)
	}
	n := func(i int) hg.Node { return revs[i].Node() }
	want := fmt.Sprintf("pre %v\npost %[1]v\npre %[1]v %[2]v\npre %[1]v %[3]v\npost %[1]v %[3]v\nabort\npre %[3]v %[2]v\npost %[3]v %[2]v\n", n(0), n(1), n(2))
	if got, err := os.ReadFile(log); err != nil || string(got) != want {
		t.Errorf("hooks were asked\n%s\nwant\n%s%v", got, want, err)
	}
	if got := s.client.Listkeys("bookmarks")["bk"]; got != n(1).String() {
		t.Errorf("the bookmark is at %s, want %v", got, n(1))
	}
}

// TestHooksOfRepeatedPush: a push that is sent many times, at once and later,
// runs its hooks once.
func TestHooksOfRepeatedPush(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var config []string
	for _, p := range []string{"pretxnopen", "pretxnchangegroup", "pretxnclose", "txnclose", "incoming"} {
		config = append(config, "hooks."+p+"=echo "+p+" >>'"+log+"'")
	}
	s := newSite(t, config...)
	root := hgtest.NewChangeset(nil, "", "root", map[string]string{"f": "root\n"})
	bundle := hgtest.Bundle2(hgtest.PushParts(nil, hgtest.ChangegroupOf(root))...)
	posts := 8
	if s.Stock { // which adds what it has
		posts = 1
	}
	var g errgroup.Group
	for range posts {
		g.Go(func() error {
			r, err := s.post(t.Context(), bundle)
			if err == nil && (r.Return != 1 && r.Return != 2 || r.Error != "") {
				err = fmt.Errorf("reply %+v", r)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if !s.Stock {
		if _, err := s.post(t.Context(), bundle); err != nil {
			t.Error(err)
		}
	}
	const want = "pretxnopen\npretxnchangegroup\npretxnclose\ntxnclose\nincoming\n"
	if got, err := os.ReadFile(log); err != nil || string(got) != want {
		t.Errorf("hooks that ran:\n%s\nwant\n%s%v", got, want, err)
	}
}

var hookScenes = flag.String("hook-scenes", "drafts variables old", "groups of recorded scenes to play")

// previewPath is where vcsd shows hooks a push.
var previewPath = regexp.MustCompile(`ROOT/\.hg/vcsd/quarantine/p-[0-9a-f]+/views/[0-9]+/view/r`)

// TestHooksAreThoseOfStock plays scenes that were recorded with stock hg serve:
// the same hooks at the same points, with the same variables, seeing the same,
// and the same words for the client.
func TestHooksAreThoseOfStock(t *testing.T) {
	testdata := filepath.Join("..", "hook", "testdata")
	out := t.TempDir()
	args := append([]string{filepath.Join(testdata, "record.sh"), out}, strings.Fields(*hookScenes)...)
	cmd := exec.CommandContext(t.Context(), "bash", args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	if !hgtest.UseStock() {
		cmd.Env = append(cmd.Env, "SERVE="+hgtest.Vcsd(t)+" serve")
	}
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	scenes, err := filepath.Glob(filepath.Join(out, "*.txt"))
	if err != nil || len(scenes) < 3 {
		t.Fatalf("%d scenes, %v", len(scenes), err)
	}
	for _, name := range scenes {
		scene := strings.TrimSuffix(filepath.Base(name), ".txt")
		got, want := readScene(t, name), readScene(t, filepath.Join(testdata, "stock", scene+".txt"))
		if !hgtest.UseStock() {
			want = differently(scene, want)
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", scene, got, want)
		}
	}
}

func readScene(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return previewPath.ReplaceAllString(string(b), "ROOT")
}

// pushkeyHook is a hook of stock that runs though the push was refused.
var pushkeyHook = regexp.MustCompile(`(?s)== pushkey\n.*?cwd=ROOT\n`)

// differently makes what is done here of what stock does; see
// doc/design/hooks.md.
func differently(scene, s string) string {
	words := strings.Split(scene, "-")
	is := func(word string) bool { return slices.Contains(words, word) }
	veto := scene[strings.Index(scene, "-")+1:] // where it is one, the hook
	for _, form := range []string{"-bundle1", "-raw", "-part", "-moved"} {
		veto = strings.TrimSuffix(veto, form)
	}
	sentence := veto + ".no hook exited with status 3\n"
	switch {
	case scene == "draft":
		return strings.Replace(s, "sees N2:public N1:public N0:public", "sees N2:draft N1:draft N0:draft", 1)
	case scene == "obsmarkers":
		return strings.Replace(s, "sees N2:public N0:public", "sees N2:draft N0:draft", 1)
	case scene == "obsmarkers-only": // which stock has written by then
		return strings.Replace(s, "HG_NEW_OBSMARKERS=1\n", "HG_NEW_OBSMARKERS=1\nHG_PENDING=ROOT\n", 1)
	case is("raw") && strings.Contains(s, internalError):
		undone := "transaction abort!\nrollback completed\n"
		if veto == "pretxnopen" {
			undone = ""
		}
		return strings.Replace(s, internalError, "0\nsaid by the hook\n"+undone+"pushkey-abort: "+sentence, 1)
	case is("keys"):
		return strings.Replace(s, internalError, "prelistkeys.no hook exited with status 3\n", 1)
	case is("read"):
		return strings.Replace(s, "abort: HTTP Error 500: "+internalError, "abort: remote error:\nprelistkeys.no hook exited with status 3", 1)
	case veto == "pretxnopen" && !is("bundle1"):
		return strings.Replace(s, "remote: ", "remote: said by the hook\nremote: ", 1)
	case is("veto") && is("bundle1") && strings.Contains(s, "remote: said by the hook\n"):
		end := strings.Index(s, "== ")
		return s[:end] + "remote: abort: " + sentence + s[end:]
	case is("pretxnclose"):
		return pushkeyHook.ReplaceAllString(s, "")
	}
	return s
}

// internalError is all that stock says of a veto where it doesn't expect one.
const internalError = "Internal Server Error"
