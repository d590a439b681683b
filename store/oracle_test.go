package store

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// hgPython returns the interpreter that the installed hg runs in.
func hgPython(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("hg")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	python, ok := strings.CutPrefix(line, "#!")
	if !ok {
		t.Fatal("hg is no script")
	}
	return strings.TrimSpace(python)
}

// askHg runs a script in hg's interpreter with in as JSON on its standard
// input, and reads JSON from its standard output.
func askHg(t testing.TB, script string, in, out any) {
	t.Helper()
	input, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	const prelude = `
import json, sys
from mercurial import demandimport; demandimport.enable()
ask = json.loads(sys.stdin.buffer.read())
def enc(s): return s.decode('latin-1')
def dec(s): return s.encode('latin-1')
`
	cmd := exec.Command(hgPython(t), "-c", prelude+script)
	cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGENCODING=utf-8")
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatalf("%v in %.200q", err, b)
	}
}

// hg runs hg in a directory and returns its output.
func runHg(t testing.TB, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("hg"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("hg", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGENCODING=utf-8", "HGUSER=u")
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("hg %q: %v\n%s", args, err, b)
	}
	return string(b)
}

// latin carries bytes through JSON, one character for each.
func latin(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

func unlatin(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}
