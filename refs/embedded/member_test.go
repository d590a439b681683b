package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"vcsd/refs"
	"vcsd/refs/embedded"
	"vcsd/refs/refstest"
)

// memberEnv makes the test binary a process that is a member at the directory
// it names, until its standard input ends.
const memberEnv = "VCSD_TEST_MEMBER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(memberEnv); dir != "" {
		if err := beMember(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	if endpoint := os.Getenv(zombieEnv); endpoint != "" {
		if err := beZombie(endpoint); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func beMember(dir string) error {
	if err := limitFiles(); err != nil {
		return err
	}
	m, err := embedded.Join(context.Background(), dir, embedded.Options{})
	if err != nil {
		return err
	}
	fmt.Println("hosting:", m.Hosting())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println("hosting:", m.Hosting())
	}
	return m.Close()
}

// tempDir returns a directory with a short name: t.TempDir has the test's.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "refs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func join(t testing.TB, dir string) *embedded.Member {
	t.Helper()
	m, err := embedded.Join(t.Context(), dir, embedded.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close member: %v", err)
		}
	})
	return m
}

func dial(t testing.TB, endpoint string, o refs.Options) *refs.Client {
	t.Helper()
	c, err := refs.Dial(t.Context(), refs.Server{Endpoints: []string{endpoint}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client is dial with the Close at the end of the test.
func client(t testing.TB, endpoint string, o refs.Options) *refs.Client {
	t.Helper()
	c := dial(t, endpoint, o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return c
}

func TestSuite(t *testing.T) {
	m := join(t, tempDir(t))
	refstest.Run(t, refstest.Env{Cluster: func(t *testing.T) func(refs.Options) *refs.Client {
		return func(o refs.Options) *refs.Client { return dial(t, m.Endpoint(), o) }
	}})
}

func TestJoinTwice(t *testing.T) {
	dir := tempDir(t)
	a := join(t, dir)
	b := join(t, dir)
	if !a.Hosting() || b.Hosting() {
		t.Fatalf("hosting: first %v, second %v; want true, false", a.Hosting(), b.Hosting())
	}
	c := client(t, b.Endpoint(), refs.Options{})
	tip := publish(t, c, refs.Tip{})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := publish(t, c, tip); !b.Hosting() {
		t.Errorf("published seq %d, but nobody hosts", got.Seq)
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(tempDir(t), strings.Repeat("long/", 30))
	a := join(t, dir)
	b := join(t, dir)
	publish(t, client(t, b.Endpoint(), refs.Options{}), refs.Tip{})
	if _, err := os.Stat(filepath.Join(dir, "etcd.sock")); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	publish(t, client(t, b.Endpoint(), refs.Options{}), publishedTip(1))
}

func TestJoinFails(t *testing.T) {
	dir := tempDir(t)
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Join(t.Context(), dir, embedded.Options{}); err == nil {
		t.Error("joined where etcd's data can't be")
	}
}

func TestJoinWaitsForContext(t *testing.T) {
	dir := tempDir(t)
	lock := exec.Command("flock", filepath.Join(dir, "etcd.lock"), "sh", "-c", "echo locked; read x")
	in, _ := lock.StdinPipe()
	out, _ := lock.StdoutPipe()
	if err := lock.Start(); err != nil {
		t.Skip(err)
	}
	defer lock.Wait()
	defer in.Close()
	bufio.NewReader(out).ReadString('\n')
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := embedded.Join(ctx, dir, embedded.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("join behind a host that says nothing: %v", err)
	}
}

// publishedTip is what publish publishes at a seq.
func publishedTip(seq uint64) refs.Tip {
	return refs.Tip{Seq: seq, Digest: [32]byte{byte(seq)}, ChangelogLen: int(seq)}
}

func publish(t testing.TB, c *refs.Client, old refs.Tip) refs.Tip {
	t.Helper()
	next := publishedTip(old.Seq + 1)
	l, err := c.Acquire(t.Context(), "repo", []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish(t.Context(), refs.Publication{Repo: "repo", Old: old, New: next, Leases: []*refs.Lease{l}}); err != nil {
		t.Fatal(err)
	}
	return next
}

// A process is a member in another process.
type process struct {
	*exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// start runs the test binary with one more variable in its environment.
func start(t *testing.T, env string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0]), in: w}
	p.Env = append(os.Environ(), env)
	p.Stdin, p.Stderr = r, os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		w.Close()
		_ = p.Wait()
	})
	return p
}

func startMember(t *testing.T, dir string) *process { return start(t, memberEnv+"="+dir) }

// line reads a line of what the process prints.
func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// hosting asks the process whether it hosts; first is for the line that it
// prints by itself.
func (p *process) hosting(t *testing.T, first bool) bool {
	t.Helper()
	if !first {
		fmt.Fprintln(p.in)
	}
	return p.line(t) == "hosting: true"
}

// TestHostKilled kills the process that hosts: this one takes over, with the
// same data, and its clients go on.
func TestHostKilled(t *testing.T) {
	dir := tempDir(t)
	host := startMember(t, dir)
	if !host.hosting(t, true) {
		t.Fatal("the first process doesn't host")
	}
	m := join(t, dir)
	c := client(t, m.Endpoint(), refs.Options{})
	tip := publish(t, c, refs.Tip{})
	l, err := c.Acquire(t.Context(), "repo", []string{"held"})
	if err != nil {
		t.Fatal(err)
	}
	tips := c.WatchTips(t.Context(), "repo")
	if got := <-tips; got != tip {
		t.Fatalf("watched seq %d, want %d", got.Seq, tip.Seq)
	}
	start := time.Now()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	tip = publish(t, c, tip)
	t.Logf("published %v after the host was killed", time.Since(start))
	if !m.Hosting() {
		t.Error("published, but nobody hosts")
	}
	if got := <-tips; got != tip {
		t.Errorf("watched seq %d, want %d", got.Seq, tip.Seq)
	}
	if err := l.Err(); err != nil {
		t.Errorf("lease held across the take-over: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	// And the other way round: this process leaves in order.
	other := startMember(t, dir)
	if other.hosting(t, true) {
		t.Error("two processes host")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for !other.hosting(t, false) { // each question waits for its answer
		if t.Context().Err() != nil {
			t.Fatal("nobody took over")
		}
	}
}
