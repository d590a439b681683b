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
	root := moduleRoot(t)
	built.once.Do(func() {
		args := []string{"build", "-o", path}
		if raceEnabled {
			args = append(args, "-race")
		}
		cmd := exec.Command("go", append(args, "./cmd/vcsd")...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build vcsd: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}
