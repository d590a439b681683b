package store

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCheckPath(t *testing.T) {
	tests := []struct {
		name string
		path string
		ok   bool
	}{
		{"plain", "a/b.txt", true},
		{"device", "aux.txt", true},
		{"device as directory", "nul/com1.js", true},
		{"period at the end", "trail./f.", true},
		{"space at the end", "trail /f ", true},
		{"colon", "a:b", true},
		{"letter and colon", "c:olon", true},
		{"colon component below", "x/c:/y", true},
		{"backslash", `back\slash`, true},
		{"three periods", "a/.../b", true},
		{"two periods before a name", "..two", true},
		{"hg without period", "hg/x", true},
		{"tilde", "HG~x/a", true},
		{"other short name", "GIT~1/a", true},
		{"longer name", ".hgtags", true},
		{"longer name below", "a/.hgsub/b", true},
		{"period and hg apart", ". hg/a", true},
		{"not utf-8", "\xff\xfe/\xe2\x80", true},
		{"ignorable elsewhere", "a\u200cb", true},
		{"control character", "tab\there\x01", true},

		{"as long as hg's", strings.Repeat("x", maxPathBytes), true},

		{"longer than hg's", strings.Repeat("x", maxPathBytes+1), false},
		{"empty", "", false},
		{"absolute", "/etc/passwd", false},
		{"separator at the end", "a/", false},
		{"empty component", "a//b", false},
		{"period", ".", false},
		{"period below", "a/./b", false},
		{"parent", "..", false},
		{"parent first", "../a", false},
		{"parent below", "a/../../b", false},
		{"parent last", "a/..", false},
		{"NUL", "a\x00b", false},
		{"newline", "a\nb", false},
		{"carriage return", "a\rb", false},
		{"hg", ".hg/hgrc", false},
		{"hg alone", ".hg", false},
		{"hg in capitals", ".HG/hgrc", false},
		{"hg with a period", ".hg./hgrc", false},
		{"hg with a space", ".hg /hgrc", false},
		{"hg with a stream", ".hg::$INDEX_ALLOCATION/hgrc", false},
		{"nested hg", "d/.hg/hgrc", false},
		{"nested hg in capitals", "d/.hG", false},
		{"short name", "HG~1/hgrc", false},
		{"short name below", "d/hg~10/hgrc", false},
		{"hashed short name", "hg8b6c~2", false},
		{"ignorable", ".h\u200cg/hgrc", false},
		{"ignorable at the beginning", "\ufeff.hg/hgrc", false},
		{"ignorable within ignorable", ".h\xe2\x80\u200c\x8dg/hgrc", false},
		{"backslash parent", `..\a`, false},
		{"backslash hg", `.hg\hgrc`, false},
		{"backslash nested hg", `a\.HG\hgrc`, false},
		{"backslash short name", `a\HG~1`, false},
		{"backslash first", `\a`, false},
		{"drive", "C:/a", false},
		{"drive with backslash", `C:\a`, false},
	}
	for _, tt := range tests {
		err := CheckPath(tt.path)
		if (err == nil) != tt.ok {
			t.Errorf("%s: CheckPath(%q) = %v, want ok %v", tt.name, tt.path, err, tt.ok)
		}
		var unsafe *UnsafePathError
		if err != nil && (!errors.As(err, &unsafe) || unsafe.Path != tt.path) {
			t.Errorf("%s: error %#v does not name the path", tt.name, err)
		}
	}
}

// strictly tells why a path is refused here although hg on POSIX would take
// it; empty if there is no such reason.
func strictly(path string) string {
	for c := range strings.SplitSeq(path, "/") {
		switch {
		case c == "" || c == ".":
			return "component that is none"
		case strings.Contains(c, `\`):
			return "several components on Windows"
		case strings.ContainsAny(c, ":") || strings.TrimRight(c, ". ") != c:
			return "Windows passes over its end"
		case strings.Contains(c, "\xe2") || strings.Contains(c, "\xef"):
			return "ignorable within ignorable"
		}
	}
	return ""
}

// TestCheckPathAsHg compares with hg's auditor and its check of file names on
// names that are near to those refused.
func TestCheckPathAsHg(t *testing.T) {
	pieces := []string{
		".hg", ".HG", ".hG", ".", "..", "/", "/", "/", "a", "hg", "HG", "~", "1", "23", "x", " ", ":", "C:", `\`, "hg8b6c",
		"\u200c", "\ufeff", "\u206f", "\u2070", "\xe2\x80", "\x00", "\n", "\r", "aux", "i", "\x7f",
	}
	rng := rand.New(rand.NewPCG(3, 3))
	paths := make([]string, 30_000)
	sent := make([]string, len(paths))
	for i := range paths {
		for range 1 + rng.IntN(7) {
			paths[i] += pieces[rng.IntN(len(pieces))]
		}
		sent[i] = latin(paths[i])
	}
	var safe []bool
	askHg(t, `
from mercurial import pathutil, scmutil, error
audit = pathutil.pathauditor(b'/nowhere', realfs=False)
def ok(p):
    if b'\0' in p or not p: return False
    try:
        scmutil.checkfilename(p)
        audit(p)
    except error.Abort:
        return False
    return True
json.dump([ok(dec(p)) for p in ask], sys.stdout)
`, sent, &safe)
	refused := 0
	for i, path := range paths {
		err := CheckPath(path)
		switch {
		case err == nil && !safe[i]:
			t.Errorf("CheckPath takes %q, which hg refuses", path)
		case err != nil && safe[i] && strictly(path) == "":
			t.Errorf("CheckPath refuses %q, which hg takes: %v", path, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < len(paths)/5 || refused > len(paths)*4/5 {
		t.Errorf("%d of %d refused: the corpus is lopsided", refused, len(paths))
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a/b", "../x", ".hg", "a\x00", `a\b`, "HG~1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if CheckPath(path) != nil {
			return
		}
		low := strings.ToLower(path)
		for c := range strings.SplitSeq(low, "/") {
			if c == "" || c == "." || c == ".." || c == ".hg" || strings.ContainsAny(c, "\x00\n\r") {
				t.Errorf("CheckPath takes %q", path)
			}
		}
		if CheckPath([]byte(path)) != nil {
			t.Errorf("string and bytes of %q differ", path)
		}
	})
}

// TestLongestPath compares the limit with what hg's store can name: it raises
// an error for one byte more.
func TestLongestPath(t *testing.T) {
	var named []bool
	askHg(t, `
from mercurial import policy
parsers = policy.importmod('parsers')
def named(n):
    try:
        parsers.pathencode(b'data/' + b'x' * n + b'.i')
    except ValueError:
        return False
    return True
print(json.dumps([named(n) for n in ask]))
`, []int{maxPathBytes, maxPathBytes + 1}, &named)
	if len(named) != 2 || !named[0] || named[1] {
		t.Errorf("hg can name paths of %d and %d bytes: %v, want only the first", maxPathBytes, maxPathBytes+1, named)
	}
}
