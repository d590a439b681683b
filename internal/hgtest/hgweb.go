package hgtest

import (
	_ "embed"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed hgweb.py
var hgwebPy string

// hgwebScript writes the program that serves for ServerOptions.Hgweb.
func (s *Server) hgwebScript() string {
	name := filepath.Join(s.home, "hgweb.py")
	writeFile(s.t, name, hgwebPy)
	return name
}

// pythonPath returns the Python that hg is run by, which finds its modules.
func pythonPath(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(hgPath(t))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	interpreter, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(interpreter)
	if !ok || len(words) == 0 || !strings.Contains(words[len(words)-1], "python") {
		t.Fatalf("hg is no script of Python's: %q", line)
	}
	return words[len(words)-1]
}

// User returns the URL at which a server with ServerOptions.Hgweb serves a
// user, who is anonymous if the name is empty, over "http" or as if over
// "https".
func (s *Server) User(scheme, user string) string {
	if user == "" {
		return s.URL + "/" + scheme + "/-"
	}
	return s.URL + "/" + scheme + "/" + url.PathEscape(url.PathEscape(user))
}
