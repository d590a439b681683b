package pattern

import (
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// names are those that patterns are tried on.
var names = []string{
	"a", "a.c", "b.c", "c.h", "ab", "abc", "a b", "a-b", "a,b", "a{b", "a}b", "a[b", "a]b", "a^b", "a!b", "a$", "a+b", "a.b", "a|b", "(a)",
	"x/a.c", "x/b.c", "x/y/a.c", "x/y/z/a", "x/y/z/b.h", "xy/a.c", "src/main/DONT", "src/main", "docs/a/b/c", "docs/x", "docsx",
	`a\b`, `a*b`, "a?b", "\xc3\xa9", "\xc3\xa9/a", "x\xe9y", "xéy", "UPPER.C", "Upper/a.c", "0", "9a", "_", "a\vb", "a\tb", ".hgtags", ".a/b", "...",
}

// patterns are tried by hg files and by us; hg has to be asked with a kind.
var patterns = []string{
	"glob:*", "glob:**", "glob:a", "glob:a*", "glob:*.c", "glob:**.c", "glob:**/a.c", "glob:x/**/a.c", "glob:x/*/a.c", "glob:x/**", "glob:x",
	"glob:x/", "glob:./a", "glob:x//a.c", "glob:x/../a", "glob:?", "glob:??", "glob:???", "glob:a?b", "glob:[ab].c", "glob:[!a].c", "glob:[^a]*", "glob:a[^]b",
	"glob:a[!]]b", "glob:a[]]b", "glob:a[[]b", "glob:a[]b", "glob:a[b", "glob:[a-c]*", `glob:a[\]b`, `glob:a\*b`, `glob:a\\b`, `glob:a\`, `glob:a\?b`,
	"glob:{a,b}.c", "glob:{a,x/a}.c", "glob:a{b", "glob:a}b", "glob:a,b", "glob:a{b,c", "glob:{,x/}{a,b}.c", "glob:{a,{b,c}}*", "glob:{}a", "glob:a^b", "glob:a$", "glob:a.b",
	"glob:a|b", "glob:(a)", "glob:\xc3\xa9", "glob:??/a", "glob:x?y", "glob:x??y", "glob:[\xc3]*", "glob:", "glob:.", "glob:***", "glob:**/", "glob:**/**", "glob:*/*",
	"glob:/x/a.c", "glob:../x", "glob:.hg/x", "glob:x/.hg/y", "glob:X/.HG/y", "glob:[[:alpha:]]*", "glob:[a-]*", "glob:[]-a]*", "glob:a[z-a]",
	"glob:UPPER.C", "glob:upper.c", "glob:src/main/**", "glob:.hgtags",
	"rootglob:*.c", "rootglob:x/*", "rootglob:./x/*", "rootglob:", "relglob:*.c", "relglob:a.c", "relglob:y/*", "relglob:**/z/*", "relglob:a?c", "relglob:",
	"path:x", "path:x/y", "path:x/", "path:./x", "path:.", "path:", "path:a", "path:a.c/", "path:/x", "path:src/../x", "path:a$", "path:\xc3\xa9", "path:docs",
	"relpath:x", "relpath:.", "relpath:", "relpath:x/../docs", "relpath:/x", "rootfilesin:x", "rootfilesin:", "rootfilesin:.", "rootfilesin:x/y/z", "rootfilesin:a",
	`re:.*\.c$`, "re:a", "re:^a", "re:a$", `re:x/`, "re:(?i)upper", "re:(?i:u)pper", "re:(?i)é", "re:a|b", "re:(a|b)\\.c", "re:[[]", "re:a[[]b", "re:a[]]b", "re:a[^]]b", "re:[[:alpha:]]",
	"re:a{,1}b", "re:a{1,}", "re:a{b", "re:a{,b", "re:a{1}{2}", "re:a**", "re:a*+", "re:a++b", `re:a\Z`, `re:a\z`, `re:a\A`, `re:\Aa`, `re:\ba\b`, `re:a[\b]`,
	`re:a\sb`, `re:a[\s]b`, `re:a\Sb`, `re:a[\S]b`, `re:\d`, `re:\w+$`, `re:\W`, `re:\x61$`, `re:\x6`, `re:\x{61}`, `re:\141$`, `re:\1`, `re:(a)\1`, `re:\0`, `re:\07`, `re:\Qa\E`, `re:\pL`, `re:\e`,
	`re:a\.b`, `re:a\*b`, `re:a\\b`, `re:a[\\]b`, `re:a[\]]b`, `re:a[\[]b`, `re:\`, "re:(", "re:)", "re:[", "re:]", "re:", "re:.", "re:..$", "re:...$", "re:\xc3", "re:\\\xc3", "re:[\xc3\xa9]+$",
	"re:x(?P<n>/y)", "re:(?P<n>x)(?P<n>y)", "re:(?<n>x)", "re:(?:x)/a", "re:(?U)a", "re:(?-i)a", "re:a(?i)b", "re:(?s).", "re:(?m)^a$", "re:a(?-s:.)b", "re:a{1001}",
	"relre:b", "relre:^b", "relre:/a$", "relre:(?i)UPPER", "relre:(?i)^upper", `relre:\.c$`, "relre:",
}

// lookaround are right for Python and refused here.
var lookaround = []string{`re:(?!a)`, `re:(?=a)b`, `re:(?<=a)b`, `re:(?<!a)b`, `re:(a)\1`, `re:(?P<n>a)(?P=n)`, "re:(?#c)a", "re:(?x)a", "re:a++b", "re:a*+", "re:a{1001}", "re:(?i)é",
	"re:a[\\S]b", "re:a[\\b]"}

// Each pattern matches the names that hg lists, and fails with hg's words.
func TestPatternsAsHG(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", ".")
	var files []string
	for _, n := range names {
		if slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, n+"/") }) {
			continue // a directory
		}
		h.Write(n, "x")
		files = append(files, n)
	}
	h.Run("commit", "-q", "-A", "-m", "all")
	slices.Sort(files)
	s := h.Session()
	for _, p := range patterns {
		r := s.Try("files", "-0", p)
		m, err := Compile([]string{p}, h.Dir)
		if err != nil {
			if slices.Contains(lookaround, p) {
				continue
			}
			want, _, _ := strings.Cut(strings.TrimPrefix(r.Stderr, "abort: "), "\n")
			abort := err.(*hg.Abort)
			if got := abort.Message; !sameFault(got, want) {
				t.Errorf("%q: %q, hg says %q", p, got, want)
			}
			continue
		}
		var got []string
		for _, n := range files {
			if m.Match(n) {
				got = append(got, n)
			}
		}
		want := slices.DeleteFunc(strings.Split(r.Stdout, "\x00"), func(s string) bool { return s == "" })
		slices.Sort(want)
		if strings.HasPrefix(r.Stderr, "abort") || !slices.Equal(got, want) {
			t.Errorf("%q matches\n%q, hg\n%q %s", p, got, want, r.Stderr)
		}
	}
}

// sameFault compares messages; what Python says of an expression follows hg's.
func sameFault(got, want string) bool { return got == want || strings.HasPrefix(want, got+":") }

func TestSeveralPatterns(t *testing.T) {
	long := "re:" + strings.Repeat("x", maxExprBytes)
	half := "re:" + strings.Repeat("x", maxExprBytes*2/3)
	tests := []struct {
		patterns []string
		name     string
		want     string // "yes", "no", or the error
	}{
		{nil, "a", "no"},
		{[]string{"a", "b"}, "b", "yes"},
		{[]string{"a", "b"}, "ab", "no"},
		{[]string{"re:(?i)a", "B"}, "b", "yes"}, // flags of the first hold for all
		{[]string{"a", "re:(?i)b"}, "b", "invalid pattern"},
		{[]string{"re:(?P<n>a)", "re:(?P<n>b)"}, "b", "invalid pattern"},
		{[]string{"re:a(", "re:b)"}, "b", "invalid pattern (re): a("},
		{[]string{"set:binary()"}, "b", "patterns of the kind 'set' can't be evaluated by this server: set:binary()"},
		{[]string{"listfile:x"}, "b", "patterns of the kind 'listfile' can't be evaluated by this server: listfile:x"},
		{[]string{"nokind:a"}, "nokind:a", "yes"},
		{[]string{"/repo/sub/x"}, "sub/x", "yes"},
		{[]string{"/repo"}, "anything", "yes"},
		{[]string{"/repox/a"}, "a", "/repox/a not under root '/repo'"},
		{[]string{half, half, "a"}, "a", "yes"},
		{[]string{long + "x"}, "a", "matcher pattern is too long (20001 bytes)"},
	}
	for _, tt := range tests {
		m, err := Compile(tt.patterns, "/repo")
		got := "no"
		switch {
		case err != nil:
			got = err.(*hg.Abort).Message
		case m.Match(tt.name):
			got = "yes"
		}
		if got != tt.want {
			t.Errorf("%.60q on %q: %s, want %s", tt.patterns, tt.name, got, tt.want)
		}
	}
	if new(Matcher).Match("a") {
		t.Error("the zero Matcher matches")
	}
}

// No pattern may panic, and its error is a sentence for the client.
func FuzzCompile(f *testing.F) {
	for _, p := range patterns {
		f.Add(p, "x/a.c")
	}
	f.Fuzz(func(t *testing.T, p, name string) {
		m, err := Compile([]string{p}, "/repo")
		if err != nil {
			if _, ok := err.(*hg.Abort); !ok {
				t.Errorf("%q: %v is no *hg.Abort", p, err)
			}
			return
		}
		m.Match(name)
	})
}
