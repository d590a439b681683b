package embedded_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"vcsd/refs"
	"vcsd/refs/embedded"
)

// limitEnv is the limit of the size of files for a process with memberEnv.
const limitEnv = "VCSD_TEST_FILE_LIMIT"

// limitFiles makes writes beyond the limit of limitEnv fail.
func limitFiles() error {
	limit, err := strconv.ParseUint(os.Getenv(limitEnv), 10, 64)
	if err != nil {
		return nil
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ)
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit})
}

// TestFileLimit fills the database of a host that may only write small files:
// it makes room and goes on.
func TestFileLimit(t *testing.T) {
	const limit = 600 << 10
	t.Setenv(limitEnv, fmt.Sprint(limit))
	dir := tempDir(t)
	host := startMember(t, dir)
	if !host.hosting(t, true) {
		t.Fatal("the process doesn't host")
	}
	m := join(t, dir)
	fillAndGoOn(t, m, 30)
	if !host.hosting(t, false) || m.Hosting() {
		t.Error("the host has given up")
	}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Size() > limit {
			t.Errorf("%s has %d bytes, limit %d", path, info.Size(), limit)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFull does the same where only the database is limited.
func TestFull(t *testing.T) {
	dir := tempDir(t)
	var log strings.Builder
	m, err := embedded.Join(t.Context(), dir, embedded.Options{QuotaBytes: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	fillAndGoOn(t, m, 500)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "embedded etcd was full") {
		t.Errorf("the database was never full: %s", log.String())
	}
}

// fillAndGoOn publishes more than there is room for: it waits, and goes on.
func fillAndGoOn(t *testing.T, m *embedded.Member, n int) {
	t.Helper()
	c := dial(t, m.Endpoint(), refs.Options{})
	defer c.Close() // only lets go
	big := refs.Outcome{Key: [32]byte{1}, Value: make([]byte, 50<<10)}
	tip := refs.Tip{}
	for range n {
		next := publishedTip(tip.Seq + 1)
		if err := c.Publish(t.Context(), refs.Publication{Repo: "repo", Old: tip, New: next, Outcomes: []refs.Outcome{big}}); err != nil {
			t.Fatalf("publish seq %d: %v", next.Seq, err)
		}
		tip = next
	}
}

func TestFileLimitRefused(t *testing.T) {
	used := tempDir(t)
	m := join(t, used)
	publish(t, client(t, m.Endpoint(), refs.Options{}), refs.Tip{})
	tests := []struct {
		name, dir, limit, want string
	}{
		{"too small for anything", tempDir(t), "10000", "limited to 10000 bytes"},
		{"too small for what is there", used, "600000", "limited to 600000 (ulimit -f)"},
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(limitEnv, tt.limit)
			if line := startMember(t, tt.dir).line(t); !strings.HasPrefix(line, "failed:") || !strings.Contains(line, tt.want) {
				t.Errorf("the process says %q, want %q in it", line, tt.want)
			}
		})
	}
}
