package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vcsd/refs"
)

// zombieEnv makes the test binary a process that takes a lease at the endpoint
// it names, and publishes under it for each line of its standard input.
const zombieEnv = "VCSD_TEST_ZOMBIE_ENDPOINT"

func beZombie(endpoint string) error {
	ctx := context.Background()
	c, err := refs.Dial(ctx, refs.Server{Endpoints: []string{endpoint}}, refs.Options{TTL: time.Second})
	if err != nil {
		return err
	}
	l, err := c.Acquire(ctx, "repo", []string{"default"})
	if err != nil {
		return err
	}
	fmt.Println("acquired")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(c.Publish(ctx, refs.Publication{Repo: "repo", New: publishedTip(1), Leases: []*refs.Lease{l}}))
	}
	return c.Close()
}

// TestSleeperLoses stops a process that holds a lease until it has expired and
// another one has it: woken up, it publishes nothing.
func TestSleeperLoses(t *testing.T) {
	m := join(t, tempDir(t))
	p := start(t, zombieEnv+"="+m.Endpoint())
	if line := p.line(t); line != "acquired" {
		t.Fatalf("the other process says %q", line)
	}
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c := client(t, m.Endpoint(), refs.Options{})
	l, err := c.Acquire(t.Context(), "repo", []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(p.in)
	if err := p.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line := p.line(t); !strings.Contains(line, refs.ErrLeaseLost.Error()) {
		t.Errorf("the sleeper's Publish says %q, want %q in it", line, refs.ErrLeaseLost)
	}
	if _, ok, err := c.Tip(t.Context(), "repo"); ok || err != nil {
		t.Errorf("tip exists: %v, %v", ok, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
