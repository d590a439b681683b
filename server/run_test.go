package server

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"vcsd/config"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args   string
		code   int
		stdout string // what it begins with
		stderr string
	}{
		{"--version", 0, "vcsd " + Version + "\n", ""},
		{"version", 0, "vcsd " + Version + "\n", ""},
		{"help", 0, "Usage: vcsd <command>", ""},
		{"help serve", 0, "Usage: vcsd serve", ""},
		{"bogus", 2, "", "vcsd: unexpected argument bogus"},
		{"serve -d", 255, "", "abort: vcsd stays in the foreground: leave out -d"},
		{"serve --root . --config devel.serverexactprotocol=ssl2", 255, "", "abort: invalid value for serverexactprotocol: ssl2\n"},
		{"serve -R none", 255, "", "abort: repository none not found\n"},
		{"serve --root a -R b", 2, "", "vcsd: --repository and --root can't be used together"},
		{"serve --root a --web-conf b", 2, "", "vcsd: --root and --web-conf can't be used together"},
	} {
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), strings.Fields(tt.args), &stdout, &stderr)
		if code != tt.code || !begins(stdout.String(), tt.stdout) || !begins(stderr.String(), tt.stderr) {
			t.Errorf("vcsd %s: %d, stdout %q, stderr %q; want %d, %q, %q",
				tt.args, code, &stdout, &stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

func TestListenError(t *testing.T) {
	l, err := net.Listen("tcp4", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = net.Listen("tcp4", l.Addr().String())
	got := listenError(&config.Web{Address: "localhost", Port: port}, err)
	if want := fmt.Sprintf("cannot start server at 'localhost:%d': Address already in use", port); got.Error() != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// begins tells whether s begins with prefix; nothing begins with nothing only.
func begins(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) && (prefix != "" || s == "")
}
