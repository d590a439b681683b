package hgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the vcsd command of this test binary.
var built struct {
	dir  string // set by Main before any test runs
	once sync.Once
	err  error
}

// Main runs the tests of a package that starts vcsd: call it from TestMain. It
// removes the command that was built for them.
func Main(m *testing.M) {
	dir, err := os.MkdirTemp("", "vcsd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Vcsd returns the path of the vcsd command: $VCSD if that is set, else built
// once per test binary, with the race detector if the tests have it.
func Vcsd(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("VCSD"); path != "" {
		return path
	}
	if built.dir == "" {
		t.Fatal("hgtest.Vcsd needs hgtest.Main in TestMain")
	}
	path := filepath.Join(built.dir, "vcsd")
	built.once.Do(func() { built.err = build(t, path) })
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}

// VcsdWith builds the command with a build tag, and returns its path.
func VcsdWith(t testing.TB, tag string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vcsd")
	if err := build(t, path, "-tags", tag); err != nil {
		t.Fatal(err)
	}
	return path
}

func build(t testing.TB, path string, flags ...string) error {
	out, err := Go(t, append(append([]string{"build", "-o", path}, flags...), "./cmd/vcsd")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build vcsd: %w\n%s", err, out)
	}
	return nil
}

// Go returns a go command in the module's directory: build or test, which uses
// the race detector if the tests do.
func Go(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	if raceEnabled {
		args = append([]string{args[0], "-race"}, args[1:]...)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = moduleRoot(t)
	return cmd
}
