package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// newTestLoader returns a Loader that sees only these variables and trusts
// files of this process's user.
func newTestLoader(env map[string]string) *Loader {
	l := NewLoader()
	l.Install = ""
	l.Getenv = func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	return l
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// reading is what came of one file: items in order, or an error's text.
type reading struct {
	Items   []Item
	Failure string
}

// hgReads lets the real hg read files called hgrc in several directories.
func hgReads(t *testing.T, dirs []string) []reading {
	t.Helper()
	python := hgPython(t)
	cmd := exec.Command(python, "-c", `
import json, os, sys
from mercurial import config, error
out = []
for d in json.load(sys.stdin):
    os.environb[b'HOME'] = d.encode()
    from mercurial import encoding
    encoding.environ[b'HOME'] = d.encode()
    c = config.config()
    r = {'Items': None, 'Failure': ''}
    try:
        c.read(os.path.join(d, 'hgrc').encode())
        r['Items'] = [dict(Section=s.decode('latin1'), Key=k.decode('latin1'), Value=v.decode('latin1'),
                           Source=c.source(s, k).decode('latin1')) for s in c.sections() for k, v in c.items(s)]
    except error.ConfigError as e:
        r['Failure'] = e.format().decode('latin1').strip()
    out.append(r)
print(json.dumps(out))`)
	cmd.Env = append(os.Environ(), "V=inc")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := json.Marshal(dirs)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var readings []reading
	if err := json.Unmarshal(out, &readings); err != nil {
		t.Fatal(err)
	}
	return readings
}

// hgPython returns the interpreter that runs hg, and so has its modules.
func hgPython(t *testing.T) string {
	t.Helper()
	hg, err := exec.LookPath("hg")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(hg)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(script), "\n")
	python := strings.TrimSpace(strings.TrimPrefix(line, "#!"))
	if out, err := exec.Command(python, "-c", "import mercurial.config").CombinedOutput(); err != nil {
		t.Fatalf("no hg modules to compare with in %q: %v: %s", python, err, out)
	}
	return python
}

func ourReading(dir string) reading {
	l := newTestLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "hgrc"), "HOME": dir, "V": "inc"})
	c, err := l.System()
	if err != nil {
		return reading{Failure: strings.TrimSpace(err.Error())}
	}
	var r reading
	for _, section := range c.Sections() {
		r.Items = append(r.Items, c.Items(section)...)
	}
	return r
}

func TestAgainstHg(t *testing.T) {
	tests := []struct {
		name string
		text string
		inc  string // what the file "inc" holds
	}{
		{name: "plain", text: "[a]\nx = 1\ny=2\n\n[b]\nx=3\n[a]\nx=4\n"},
		{name: "continuation", text: "[a]\nx = 1\n  2\n# in between\n\t3  \n\n 4\n"},
		{name: "continuation of nothing", text: "[a]\nx =\n  2\n"},
		{name: "comment that is indented", text: "[a]\nx = 1\n  # text\n"},
		{name: "blank line ends a value", text: "[a]\nx = 1\n   \ny = 2\n"},
		{name: "leading white space", text: "[a]\n\n x = 1\n"},
		{name: "leading tab", text: "[a]\n\n\tx = 1\n"},
		{name: "no equals sign", text: "[a]\nfoo\n"},
		{name: "no name", text: "[a]\n= foo\n"},
		{name: "empty value", text: "[a]\nfoo=\nbar =  \n"},
		{name: "equals sign in a value", text: "[a]\nfoo = a = b\n"},
		{name: "name with spaces", text: "[a]\nfoo bar  = x\n"},
		{name: "section with a comment", text: "[a] # x\ny=1\n[b]]\nz=1\n[c]x]\nq=2\n"},
		{name: "section in a section", text: "[a[b]\n"},
		{name: "empty section", text: "[]\n"},
		{name: "key before any section", text: "x=1\n"},
		{name: "byte order mark", text: "\xef\xbb\xbf[a]\nx=1\n"},
		{name: "other line ends", text: "[a]\r\nx=1\r\n  2\r\ny=3\rz=4\n"},
		{name: "no newline at the end", text: "[a]\nx=1"},
		{name: "form feed", text: "[a]\nx=1\f\v\n\fy=2\n"},
		{name: "unset", text: "[a]\nx=1\ny=2\n%unset x\n[b]\n%unset y\n%unset\n"},
		{name: "unset and set", text: "[a]\nx=1\n%unset x\nx=2\n%unset y z\n"},
		{name: "unset that is an item", text: "[a]\n%unset x=1\n"},
		{name: "include", text: "[a]\nx=1\n%include inc\ny=2\n", inc: "[a]\nx=5\ny=5\n[q]\nr=s\n"},
		{name: "include that unsets", text: "[a]\nx=1\n%include inc\n", inc: "[a]\n%unset x\n"},
		{name: "include with variable", text: "%include $V\n%include ${V}x\n", inc: "[a]\nx=1\n"},
		{name: "include from home", text: "%include ~/inc\n", inc: "[a]\nx=1\n"},
		{name: "include of nothing", text: "[a]\n%include nosuch\nx=1\n"},
		{name: "include of a directory", text: "[a]\n%include .\n"},
		{name: "include with a fault", text: "[a]\n%include inc\n", inc: "[a]\nfault\n"},
		{name: "include that is indented", text: "[a]\nx=1\n %include inc\n", inc: "[a]\ny=1\n"},
		{name: "include with nothing", text: "[a]\n%include \n"},
		{name: "semicolon", text: "; x\n[a]\n;y=1\nx=1;2\n"},
	}
	var names, texts, dirs []string
	for i, tt := range tests {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		writeFiles(t, dir, map[string]string{"hgrc": tt.text, "inc": tt.inc})
		names, texts, dirs = append(names, tt.name), append(texts, tt.text), append(dirs, dir)
	}
	for i, want := range hgReads(t, dirs) {
		checkReading(t, names[i], texts[i], ourReading(dirs[i]), want)
	}
}

// TestRandomAgainstHg puts fragments together that mean something to a parser.
func TestRandomAgainstHg(t *testing.T) {
	fragments := []string{"[a]", "[", "]", "b", "=", " ", "\t", "\n", "\n", "\n", "#", ";", "%unset ", "%include inc",
		"\r", "x", " = y\n", "\n[c]\n", "\nk = v\n", "\n  more\n"}
	rng := rand.New(rand.NewPCG(1, 2))
	var texts, dirs []string
	for i := range 500 {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(fragments[rng.IntN(len(fragments))])
		}
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		writeFiles(t, dir, map[string]string{"hgrc": b.String(), "inc": "[a]\nb=from inc\n"})
		texts, dirs = append(texts, b.String()), append(dirs, dir)
	}
	for i, want := range hgReads(t, dirs) {
		checkReading(t, "random", texts[i], ourReading(dirs[i]), want)
	}
}

func checkReading(t *testing.T, name, text string, got, want reading) {
	t.Helper()
	if got.Failure != want.Failure {
		t.Errorf("%s: error for %q = %q, want %q", name, text, got.Failure, want.Failure)
	}
	if !slices.Equal(got.Items, want.Items) {
		t.Errorf("%s: items of %q\n got %v\nwant %v", name, text, got.Items, want.Items)
	}
}

func TestIncludeLoop(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string // in the error
	}{
		{"of itself", map[string]string{"hgrc": "%include hgrc\n"}, "cannot include hgrc (too many files, or a loop)"},
		{"of each other twice", map[string]string{"hgrc": "%include b\n%include b\n", "b": "%include hgrc\n%include hgrc\n"}, "or a loop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFiles(t, dir, tt.files)
			_, err := newTestLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "hgrc")}).System()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestParseListAgainstHg(t *testing.T) {
	python := hgPython(t)
	inputs := []string{
		"", " ", ",", "a", "a b", "a,b", "a, b ,, c", `"John Doe, PhD", brian, betty`, `foo"bar baz"`,
		`"a"`, `""`, `"" x`, `"`, `" a`, `"a b" "c`, `\"a b\"`, `a\" b`, `"a \" b" c`, `"a"b`, `"a""b"`, "a\nb\tc", `x "`, `"x" "`,
	}
	const alphabet = "ab\"\",  \\\n\t"
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		inputs = append(inputs, b.String())
	}
	in, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `
import json, sys
from mercurial.utils import stringutil
print(json.dumps([[w.decode() for w in stringutil.parselist(s.encode())] for s in json.load(sys.stdin)]))`)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want [][]string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, s := range inputs {
		if got := ParseList(s); !slices.Equal(got, want[i]) {
			t.Errorf("ParseList(%q) = %q, want %q", s, got, want[i])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("[a]\nx = 1\n  2\n%unset y\n%include inc\n"))
	f.Add([]byte("\xef\xbb\xbf[a[b]]\r\n;\n%include"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &parser{
			expand: func(s string) string { return s },
			read:   func(string) ([]byte, error) { return nil, fs.ErrNotExist },
		}
		var fault *Error
		if err := p.data("hgrc", data, 0); err != nil && (!errors.As(err, &fault) || fault.Location == "") {
			t.Errorf("error without a place: %v", err)
		}
		for _, o := range p.ops {
			if header := o.value == "" && !o.unset && o.section != ""; o.key == "" && !header || o.source == "" {
				t.Errorf("op %+v of %q", o, data)
			}
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add(`a, "b c" \"d`)
	f.Fuzz(func(t *testing.T, s string) {
		total := 0
		for _, w := range ParseList(s) {
			total += len(w)
		}
		if total > len(s) {
			t.Errorf("ParseList(%q) has %d bytes", s, total)
		}
	})
}
