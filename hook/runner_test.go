package hook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vcsd/config"
	"vcsd/hg"
)

// hooks returns a configuration with these items, each as "key=value".
func hooks(items ...string) *config.Config {
	var list []config.Item
	for _, s := range items {
		k, v, _ := strings.Cut(s, "=")
		list = append(list, config.Item{Section: "hooks", Key: k, Value: v, Source: "test:1"})
	}
	return config.New(list...)
}

// run runs the hooks of a point and returns what they print.
func run(t *testing.T, r *Runner, call Call) (string, error) {
	t.Helper()
	var out strings.Builder
	err := r.Run(t.Context(), call, &out)
	return out.String(), err
}

func TestWhichHooksRun(t *testing.T) {
	tests := []struct {
		name  string
		items []string
		want  string
	}{
		{"none", nil, ""},
		{"in order of the file", []string{"incoming.b=echo b", "incoming=echo plain", "incoming.a=echo a"}, "b\nplain\na\n"},
		{"the highest priority first", []string{"incoming.a=echo a", "incoming.b=echo b", "incoming.c=echo c", "priority.incoming.b=1", "priority.incoming.a=-1"}, "b\nc\na\n"},
		{"an empty one is none", []string{"incoming.a=echo a", "incoming.b=echo b", "incoming.a="}, "b\n"},
		{"set again it comes last", []string{"incoming.a=echo 1", "incoming.b=echo b", "incoming.a=echo 2"}, "b\n2\n"},
		{"other points", []string{"incomingx=echo x", "changegroup.incoming=echo c", "incoming.x.y=echo y", "pre-serve=echo s"}, "y\n"},
		{"options are no hooks", []string{"incoming.a=echo $HGPLAIN.", "incoming.a:run-with-plain=no", "tonative.incoming.a=yes"}, ".\n"},
		{"plain by default", []string{"incoming.a=echo $HGPLAIN."}, "1.\n"},
		{"plain as the server", []string{"incoming.a=echo $HGPLAIN.", "incoming.a:run-with-plain=auto"}, ".\n"},
		{"the shell's negation", []string{"incoming.a=! false && echo yes"}, "yes\n"},
		{"after a failure the next", []string{"incoming.a=echo a; exit 2", "incoming.b=echo b"}, "a\nwarning: incoming.a hook exited with status 2\nb\n"},
		{"output in order and untouched", []string{`incoming.a=echo 1; echo 2 >&2; echo 3; printf '\377 \000 x'`}, "1\n2\n3\n\xff \x00 x"},
		{"the shell's failure", []string{"incoming.a=no-such-command-here 2>/dev/null"}, "warning: incoming.a hook exited with status 127\n"},
	}
	for _, tt := range tests {
		r := New(hooks(tt.items...), t.TempDir(), Options{Environ: []string{"PATH=" + os.Getenv("PATH")}})
		if faults := r.Faults(Incoming); faults != nil {
			t.Errorf("%s: %v", tt.name, faults)
		}
		got, err := run(t, r, Call{Point: Incoming})
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
		if has := r.Has(Incoming); has != (tt.want != "") {
			t.Errorf("%s: Has = %v", tt.name, has)
		}
	}
}

func TestVeto(t *testing.T) {
	r := New(hooks("pretxnclose.a=echo a", "pretxnclose.b=echo b; exit 7", "pretxnclose.c=echo c"), t.TempDir(), Options{})
	out, err := run(t, r, Call{Point: PreTxnClose})
	var veto *Veto
	var abort *hg.Abort
	const want = "pretxnclose.b hook exited with status 7"
	if !errors.As(err, &veto) || !errors.As(err, &abort) || abort.Message != want || err.Error() != want || out != "a\nb\n" {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

func TestHooksThatCannotRun(t *testing.T) {
	conf := hooks("pretxnclose.py=python:mod.hook", "changegroup.notify=python:hgext.notify.hook", "pretxnopen.acl=python:hgext.acl.hook",
		"incoming.a=true", "priority.incoming.a=high", "pretxnclose.b=true", "pretxnclose.b:run-with-plain=perhaps")
	native := func(context.Context, Call, io.Writer) error { return nil }
	r := New(conf, t.TempDir(), Options{Native: map[string]Native{"hgext.acl.hook": native}})
	tests := []struct {
		points []Point
		want   []string // each part of the sentence
	}{
		{PushPoints(), []string{"pretxnclose.py", "test:1", "run-with-plain"}},
		{[]Point{PreTxnOpen}, nil},
		{ReadPoints(), nil},
		{[]Point{PreTxnClose}, []string{"the hook pretxnclose.py is in Python, which this server can't run (test:1)"}},
		{[]Point{Changegroup, Incoming}, nil},
	}
	for _, tt := range tests {
		err := r.Check(tt.points...)
		if (err != nil) != (tt.want != nil) {
			t.Errorf("Check(%v): %v", tt.points, err)
		}
		for _, s := range tt.want {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("Check(%v): %q lacks %q", tt.points, err, s)
			}
		}
	}
	if faults := r.Faults(Changegroup, Incoming); len(faults) != 2 || !strings.Contains(faults[1], "priority.incoming.a") {
		t.Errorf("faults %q", faults)
	}
	var veto *Veto
	if _, err := run(t, r, Call{Point: PreTxnClose}); !errors.As(err, &veto) || veto.Hook != "pretxnclose.py" {
		t.Errorf("a hook that can't be run passed: %v", err)
	}
	if out, err := run(t, r, Call{Point: Changegroup}); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(t, r, Call{Point: Incoming}); err != nil || !strings.HasPrefix(out, "warning: config error: hooks.priority.incoming.a is not a valid integer") {
		t.Errorf("%q, %v", out, err)
	}
}

// What this process has in place of a hook in Python is run among the others,
// and its refusal is told as hg tells that of an exception.
func TestNative(t *testing.T) {
	var calls []Call
	native := func(_ context.Context, call Call, out io.Writer) error {
		calls = append(calls, call)
		io.WriteString(out, "looked\n")
		return hg.Abortf("acl: no")
	}
	r := New(hooks("pretxnchangegroup.a=echo a", "pretxnchangegroup.acl=python: hgext.acl.hook", "pretxnchangegroup.b=echo b", "incoming.acl=python:hgext.acl.hook"),
		t.TempDir(), Options{Native: map[string]Native{"hgext.acl.hook": native}})
	out, err := run(t, r, Call{Point: PreTxnChangegroup, User: "jo"})
	var abort *hg.Abort
	if !errors.As(err, &abort) || abort.Message != "acl: no" || out != "a\nlooked\nerror: pretxnchangegroup.acl hook failed: acl: no\n" {
		t.Errorf("%q, %v", out, err)
	}
	if len(calls) != 1 || calls[0].User != "jo" {
		t.Errorf("calls %v", calls)
	}
	if out, err := run(t, r, Call{Point: Incoming}); err != nil || out != "looked\nerror: incoming.acl hook failed: acl: no\n" {
		t.Errorf("%q, %v", out, err)
	}
	if !r.NeedsView(PreTxnChangegroup) || r.NeedsView(Incoming) || r.NeedsView(PreTxnClose) {
		t.Error("views are needed where no command looks at one, or the other way round")
	}
}

// What stands in the file of an owner who isn't trusted is not run, and where
// it would guard something it refuses, as in hg.
func TestUntrusted(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"site": "[hooks]\npretxnclose.same = echo same\npretxnclose.site = echo site\nincoming.ours = echo ours\nchangegroup.empty = echo ours\n",
		"hgrc": "[hooks]\npretxnclose.site = echo changed\npretxnclose.same = echo same\nincoming.new = echo new\nchangegroup.empty =\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := config.NewLoader()
	l.UID, l.UserName, l.GroupName = -2, func(int) string { return "" }, func(int) string { return "" }
	site, err := l.WebConf(config.New(), filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := l.Repository(site, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	r := New(conf, dir, Options{})
	out, err := run(t, r, Call{Point: PreTxnClose})
	var abort *hg.Abort
	if !errors.As(err, &abort) || abort.Message != "untrusted hook pretxnclose.site not executed" || abort.Hint != "see 'hg help config.trusted'" || out != "same\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(t, r, Call{Point: Incoming}); err != nil || out != "warning: untrusted hook incoming.new not executed\nours\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := run(t, r, Call{Point: Changegroup}); err != nil || out != "warning: untrusted hook changegroup.empty not executed\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestEnvironment(t *testing.T) {
	root, view := t.TempDir(), t.TempDir()
	r := New(hooks("pretxnclose.x=env | LC_ALL=C sort; pwd", "incoming=env | LC_ALL=C sort; pwd"), root, Options{
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HGRCPATH=/rc", "HG_NODE=stale", "NOTIFY_SOCKET=/s", "LISTEN_FDS=3", "PWD=/", "LANG=C"},
		HG:      "/opt/hg",
	})
	long := strings.Repeat("x", 200<<10)
	tests := []struct {
		name string
		call Call
		want []string
	}{
		{
			"with a view", Call{Point: PreTxnClose, Pending: view, Vars: Vars{"TXNID": "TXN:1", "USERVAR_A=B": "1", "NUL": "a\x00b", "VALUES": long}},
			[]string{"HG=/opt/hg", "HGPLAIN=1", "HGRCPATH=/rc", "HG_HOOKNAME=pretxnclose.x", "HG_HOOKTYPE=pretxnclose", "HG_PENDING=" + view,
				"HG_TXNID=TXN:1", "LANG=C", "PATH=" + os.Getenv("PATH"), "PWD=" + view, "VCSD_ROOT=" + root, view},
		},
		{
			"without", Call{Point: Incoming},
			[]string{"HG=/opt/hg", "HGPLAIN=1", "HGRCPATH=/rc", "HG_HOOKNAME=incoming", "HG_HOOKTYPE=incoming",
				"LANG=C", "PATH=" + os.Getenv("PATH"), "PWD=" + root, "VCSD_ROOT=" + root, root},
		},
	}
	for _, tt := range tests {
		out, err := run(t, r, tt.call)
		got := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(s string) bool {
			return strings.HasPrefix(s, "_=") || strings.HasPrefix(s, "SHLVL=") || strings.HasPrefix(s, "OLDPWD=")
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v\n%q\nwant\n%q", tt.name, err, got, tt.want)
		}
	}
}

func TestVarsOfOddValues(t *testing.T) {
	tests := []struct {
		values map[string]string
		want   string
	}{
		{nil, "{}"},
		{map[string]string{"b": "2", "a": "1"}, "{'a': '1', 'b': '2'}"},
		{map[string]string{"it's": "x"}, `{"it's": 'x'}`},
		{map[string]string{`it's "so"`: "\\"}, `{'it\'s "so"': '\\'}`},
		{map[string]string{"\xc3\xa4\n\t\x7f": "\r\x00"}, `{'\xc3\xa4\n\t\x7f': '\r\x00'}`},
	}
	for _, tt := range tests {
		if got := Values("x", tt.values)["VALUES"]; got != tt.want {
			t.Errorf("Values(%q) = %s, want %s", tt.values, got, tt.want)
		}
	}
}

// fifo returns a named pipe whose reading end ends when all that had it open
// for writing are gone.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// ended reads from a named pipe until all writers are gone.
func ended(name string) <-chan string {
	done := make(chan string, 1)
	go func() {
		b, err := os.ReadFile(name)
		if err != nil {
			b = []byte(err.Error())
		}
		done <- string(b)
	}()
	return done
}

// What takes too long is killed with all its children.
func TestTimeout(t *testing.T) {
	name := fifo(t)
	r := New(hooks("pretxnclose.slow=echo begun; exec 3>'"+name+"'; sh -c 'sleep 1000' & sleep 1000; true"), t.TempDir(), Options{Timeout: 300 * time.Millisecond})
	gone := ended(name)
	out, err := run(t, r, Call{Point: PreTxnClose})
	var veto *Veto
	const want = "pretxnclose.slow hook was killed after 300ms"
	if !errors.As(err, &veto) || err.Error() != want || out != "begun\n" {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	<-gone
}

// A client that goes away takes its hook along, which then did not fail.
func TestCancel(t *testing.T) {
	name := fifo(t)
	for _, p := range []Point{PreTxnClose, Incoming} {
		r := New(hooks(string(p)+".slow=exec 3>'"+name+"'; echo running; sleep 1000"), t.TempDir(), Options{})
		gone := ended(name)
		ctx, cancel := context.WithCancel(t.Context())
		out, w := io.Pipe()
		go func() {
			_, _ = out.Read(make([]byte, 100)) // until it runs
			cancel()
		}()
		err := r.Run(ctx, Call{Point: p}, w)
		var veto *Veto
		if !errors.Is(err, context.Canceled) || errors.As(err, &veto) {
			t.Errorf("%s: %v", p, err)
		}
		<-gone
	}
}

// A child in the background doesn't keep the push waiting.
func TestBackgroundChild(t *testing.T) {
	name := fifo(t)
	r := New(hooks("pretxnclose.bg=(read x <'"+name+"'; echo late) & echo done"), t.TempDir(), Options{})
	out, err := run(t, r, Call{Point: PreTxnClose})
	if err != nil || out != "done\n" {
		t.Errorf("%q, %v", out, err)
	}
	// It still lives.
	if err := os.WriteFile(name, []byte("go\n"), 0); err != nil {
		t.Error(err)
	}
}

func TestLimit(t *testing.T) {
	limit := NewLimit(1)
	name := fifo(t)
	dir := t.TempDir()
	blocked := New(hooks("incoming.a=echo in; cat '"+name+"'"), dir, Options{Limit: limit})
	other := New(hooks("incoming.b=echo b"), dir, Options{Limit: limit})
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(blocked.Run(t.Context(), Call{Point: Incoming}, w), w.Close())
	}()
	buf := make([]byte, 3)
	if _, err := io.ReadFull(out, buf); err != nil || string(buf) != "in\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := other.Run(ctx, Call{Point: Incoming}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("no place was free, but: %v", err)
	}
	select {
	case limit.places <- struct{}{}:
		t.Error("a second hook could run")
	default:
	}
	if err := os.WriteFile(name, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err := errors.Join(err, <-done); err != nil || string(rest) != "x" {
		t.Errorf("%q, %v", rest, err)
	}
	if out, err := run(t, other, Call{Point: Incoming}); err != nil || out != "b\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestOutputIsBounded(t *testing.T) {
	r := New(hooks("incoming.loud=head -c 5000000 /dev/zero; exit 1"), t.TempDir(), Options{MaxOutputBytes: 1000})
	out, err := run(t, r, Call{Point: Incoming})
	want := strings.Repeat("\x00", 1000) + "\n(output of incoming.loud hook cut off after 1000 bytes)\nwarning: incoming.loud hook exited with status 1\n"
	if err != nil || out != want {
		t.Errorf("%d bytes, ending in %q, %v", len(out), out[max(0, len(out)-200):], err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// That nobody reads the output is no reason to stop the hook.
func TestOutputFails(t *testing.T) {
	dir := t.TempDir()
	r := New(hooks("pretxnclose.a=head -c 1000000 /dev/zero; touch ended"), dir, Options{})
	if err := r.Run(t.Context(), Call{Point: PreTxnClose}, brokenWriter{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Error(err)
	}
}

// Hooks get no file of the server but their output.
func TestFilesOfHooks(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // read only
	before := openFiles(t)
	// The fourth is the directory that is listed.
	r := New(hooks("incoming=readlink /proc/self/fd/0; exec ls /proc/self/fd"), t.TempDir(), Options{})
	out, err := run(t, r, Call{Point: Incoming})
	if err != nil || out != "/dev/null\n0\n1\n2\n3\n" {
		t.Errorf("%q, %v", out, err)
	}
	for range 20 {
		if _, err := run(t, r, Call{Point: Incoming}); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestBounded(t *testing.T) {
	var b bytes.Buffer
	w := &bounded{w: &b, left: 5}
	for _, s := range []string{"abc", "defg", "h"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("Write(%q) = %d, %v", s, n, err)
		}
	}
	if b.String() != "abcde" || !w.cut {
		t.Errorf("%q, cut %v", b.String(), w.cut)
	}
}
