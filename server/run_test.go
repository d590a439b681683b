package server

import (
	"bytes"
	"strings"
	"testing"
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
		{"serve -d", 1, "", "abort: vcsd stays in the foreground: leave out -d"},
		{"serve --root . --config devel.serverrequirecert=yes", 1, "", "abort: devel.serverrequirecert is not honoured: name the authorities in vcsd.client-ca"},
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

// begins tells whether s begins with prefix; nothing begins with nothing only.
func begins(s, prefix string) bool {
	return strings.HasPrefix(s, prefix) && (prefix != "" || s == "")
}
