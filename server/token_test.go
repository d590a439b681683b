package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/auth"
	"vcsd/internal/vfs"
)

func TestParseExpiry(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	tests := []struct {
		in   string
		want string // local time, or "error"
	}{
		{"", "0001-01-01T00:00:00"},
		{"2030-01-31", "2030-02-01T00:00:00"},
		{"90d", "2030-04-02T03:04:05"},
		{"12h", "2030-01-02T15:04:05"},
		{"0d", "error"}, {"-1d", "error"}, {"-1h", "error"}, {"d", "error"}, {"soon", "error"}, {"2030-02-30", "error"},
	}
	for _, tt := range tests {
		got, err := parseExpiry(tt.in, now)
		s := got.Format("2006-01-02T15:04:05")
		if err != nil {
			s = "error"
		}
		if s != tt.want {
			t.Errorf("parseExpiry(%q) = %s (%v), want %s", tt.in, s, err, tt.want)
		}
	}
}

func TestTokenCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	for _, user := range []string{"ann", "bob"} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), []string{"token", user, "--push", "--repos", "a/**", "--file", file}, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		if user == "ann" { // as an editor may leave it
			chop(t, file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if token := strings.TrimSpace(out.String()); token == "" || strings.Contains(string(b), token) {
			t.Errorf("token %q in %q", token, b)
		}
	}
	if _, err := auth.OpenTokens(vfs.NewOS("/"), file); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// chop takes the last byte off a file.
func chop(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, info.Size()-1); err != nil {
		t.Fatal(err)
	}
}
