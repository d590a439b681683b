package hgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
)

// An HG runs hg in a directory, with settings of its own.
type HG struct {
	// Dir is where hg runs; files that Commit writes are relative to it.
	Dir string

	t    testing.TB
	exe  string
	env  []string
	args []string // --config flags
}

// A Result is what a command printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int // exit status; -1 if a signal ended it
}

// Err returns nil if the command succeeded, or else what it said.
func (r Result) Err() error {
	if r.Code == 0 {
		return nil
	}
	return fmt.Errorf("exit status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
}

// New returns an HG in a fresh temporary directory.
func New(t testing.TB) *HG {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	rc := filepath.Join(home, "client.hgrc")
	writeFile(t, rc, clientRC)
	return &HG{Dir: dir, t: t, exe: hgPath(t), env: Env(home, rc)}
}

// For returns h for a subtest.
func (h *HG) For(t testing.TB) *HG {
	c := *h
	c.t = t
	return &c
}

// In returns h moved to dir, which may be relative to h.Dir.
func (h *HG) In(dir string) *HG {
	c := *h
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(h.Dir, dir)
	}
	c.Dir = dir
	return &c
}

// With returns h with further settings, each as section.key=value.
func (h *HG) With(settings ...string) *HG {
	c := *h
	c.args = slices.Clone(h.args)
	for _, s := range settings {
		c.args = append(c.args, "--config", s)
	}
	return &c
}

// Setenv returns h with further environment, each as KEY=value.
func (h *HG) Setenv(env ...string) *HG {
	c := *h
	c.env = append(slices.Clone(h.env), env...)
	return &c
}

// Command returns hg with args, not started.
func (h *HG) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.exe, append(slices.Clone(h.args), args...)...)
	cmd.Dir, cmd.Env = h.Dir, h.env
	return cmd
}

// Try runs hg and returns how it went.
func (h *HG) Try(args ...string) Result {
	var out, errs bytes.Buffer
	cmd := h.Command(context.Background(), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		h.t.Errorf("hg %s: %v", strings.Join(args, " "), err)
	}
	return Result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// Run runs hg, which must succeed, and returns what it printed.
func (h *HG) Run(args ...string) string {
	h.t.Helper()
	r := h.Try(args...)
	if r.Code != 0 {
		h.t.Fatalf("hg %s (in %s): exit status %d\n%s%s", strings.Join(args, " "), h.Dir, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Fail runs hg, which must not succeed, and returns stdout and stderr together.
func (h *HG) Fail(args ...string) string {
	h.t.Helper()
	r := h.Try(args...)
	if r.Code == 0 {
		h.t.Fatalf("hg %s (in %s) succeeded:\n%s", strings.Join(args, " "), h.Dir, r.Stdout)
	}
	return r.Stdout + r.Stderr
}

// Write writes a file below h.Dir.
func (h *HG) Write(name, data string) {
	h.t.Helper()
	writeFile(h.t, filepath.Join(h.Dir, name), data)
}

// Commit writes files, records everything in the working directory, and
// returns the new node. A name with empty text is removed instead.
func (h *HG) Commit(message string, files map[string]string) hg.Node {
	h.t.Helper()
	for name, data := range files {
		if data == "" {
			if err := os.Remove(filepath.Join(h.Dir, name)); err != nil {
				h.t.Fatal(err)
			}
			continue
		}
		h.Write(name, data)
	}
	h.Run("commit", "-q", "-A", "-m", message)
	return h.Node(".")
}

// Node returns the node that a revset of one revision names.
func (h *HG) Node(revset string) hg.Node {
	h.t.Helper()
	nodes := h.Nodes(revset)
	if len(nodes) != 1 {
		h.t.Fatalf("revset %q names %d revisions, want one", revset, len(nodes))
	}
	return nodes[0]
}

// Nodes returns the nodes that a revset names, in its order.
func (h *HG) Nodes(revset string) []hg.Node {
	h.t.Helper()
	var nodes []hg.Node
	for _, line := range strings.Fields(h.Run("log", "-r", revset, "-T", "{node}\n")) {
		n, err := hg.ParseNode(line)
		if err != nil {
			h.t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// Verify runs hg verify, which must find nothing.
func (h *HG) Verify() {
	h.t.Helper()
	r := h.Try("verify")
	if r.Code != 0 || strings.Contains(r.Stdout+r.Stderr, "warning") {
		h.t.Errorf("hg verify in %s: exit status %d\n%s%s", h.Dir, r.Code, r.Stdout, r.Stderr)
	}
}

// describeTemplate says of a changeset all that has to be equal in a clone.
const describeTemplate = "{node} {p1node} {p2node} {phase} {branch} {extras % '{key}={value|stringescape};'} {date|hgdate} {author|stringescape} {desc|stringescape}\n"

// Describe returns everything that stands in a repository and does not depend
// on revision numbers, for comparison: changesets (whose nodes
// vouch for all files) and bookmarks.
func (h *HG) Describe() string {
	h.t.Helper()
	lines := strings.SplitAfter(h.Run("log", "-r", "all()", "-T", describeTemplate), "\n")
	slices.Sort(lines)
	var b strings.Builder
	b.WriteString(strings.Join(lines, ""))
	marks := strings.SplitAfter(h.Run("bookmarks", "-T", "bookmark {bookmark} {node}\n"), "\n")
	slices.Sort(marks)
	for _, m := range marks {
		if strings.HasPrefix(m, "bookmark") {
			b.WriteString(m)
		}
	}
	return b.String()
}

// Environ returns the environment that h gives to hg.
func (h *HG) Environ() []string { return slices.Clone(h.env) }
