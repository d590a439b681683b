package pattern

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"vcsd/hg"
)

// A Matcher matches the names that any of its patterns matches. The zero value
// matches none.
type Matcher struct{ groups []*regexp.Regexp }

// A kind is a prefix of patterns, up to the colon.
type kind struct {
	// place makes the pattern relative to the root of the repository.
	place func(pat, root string) (string, error)

	// expr returns the regular expression for the start of a name.
	expr func(pat string) (string, error)
}

// kinds are those that can be matched without reading a file or a changeset.
var kinds = map[string]kind{
	"glob":        {below, infallible(globExpr)},
	"rootglob":    {cleaned, infallible(globExpr)},
	"relglob":     {cleaned, infallible(relGlobExpr)},
	"path":        {cleaned, infallible(pathExpr)},
	"relpath":     {below, infallible(pathExpr)},
	"rootfilesin": {cleaned, infallible(filesInExpr)},
	"re":          {asIs, pythonExpr},
	"relre":       {asIs, relReExpr},
}

// otherKinds are hg's other ones.
var otherKinds = map[string]bool{"listfile": true, "listfile0": true, "set": true, "include": true, "subinclude": true}

// maxExprBytes is how long a regular expression may get. hg has the same limit
// and refuses a longer one with the same words.
const maxExprBytes = 20_000

// Compile returns a Matcher of patterns that stand in the configuration of a
// repository, whose root is at the absolute path root. A pattern without a
// kind is a glob. The error is an *hg.Abort, with hg's words where hg takes
// the pattern for wrong as well.
func Compile(patterns []string, root string) (*Matcher, error) {
	m := new(Matcher)
	var group []string
	size := 0
	for _, p := range patterns {
		expr, err := compileOne(p, root)
		if err != nil {
			return nil, err
		}
		if size+len(expr) > maxExprBytes {
			if err := m.add(group); err != nil {
				return nil, err
			}
			group, size = nil, 0
		}
		group = append(group, expr)
		size += len(expr) + 1
	}
	return m, m.add(group)
}

// add joins expressions that are right by themselves. Flags of the first hold
// for all, and others may have none, as in Python.
func (m *Matcher) add(exprs []string) error {
	if len(exprs) == 0 {
		return nil
	}
	re, err := compile(strings.Join(exprs, "|"))
	if err != nil || slices.ContainsFunc(exprs[1:], leadingFlags.MatchString) {
		return hg.Abortf("invalid pattern")
	}
	m.groups = append(m.groups, re)
	return nil
}

// compile returns what matches an expression at the start of a name. Two groups
// of one name are an error to Python.
func compile(expr string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(`\A(?:` + expr + `)`)
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(slices.Clone(re.SubexpNames()), func(s string) bool { return s == "" })
	slices.Sort(names)
	if len(slices.Compact(names)) < len(names) {
		return nil, errors.New("redefinition of group name")
	}
	return re, nil
}

// compileOne returns the regular expression of one pattern, checked.
func compileOne(p, root string) (string, error) {
	name, pat := split(p)
	k, ok := kinds[name]
	if !ok {
		return "", hg.Abortf("patterns of the kind '%s' can't be evaluated by this server: %s", name, p)
	}
	pat, err := k.place(pat, root)
	if err != nil {
		return "", err
	}
	expr, err := k.expr(pat)
	if err == nil && len(expr) > maxExprBytes {
		return "", hg.Abortf("matcher pattern is too long (%d bytes)", len(expr))
	}
	expr = latin1(expr)
	if err == nil {
		_, err = compile(expr)
	}
	if err != nil {
		return "", &hg.Abort{Message: "invalid pattern (" + name + "): " + pat, Hint: hintFor(name, err)}
	}
	return expr, nil
}

// hintFor tells of an expression what is wrong with it, since Python might take
// it. Globs are the same for both.
func hintFor(kind string, err error) string {
	if kind != "re" && kind != "relre" {
		return ""
	}
	return "this server reads regular expressions without look-around and back references: " + err.Error()
}

// split returns the kind of a pattern and the rest. What is before a colon and
// no kind is a part of the pattern.
func split(p string) (name, pat string) {
	name, pat, ok := strings.Cut(p, ":")
	if _, known := kinds[name]; ok && (known || otherKinds[name]) {
		return name, pat
	}
	return "glob", p
}

// Match reports whether any pattern matches a name, which is slash-separated
// and relative to the root.
func (m *Matcher) Match(name string) bool {
	name = latin1(name)
	for _, re := range m.groups {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// latin1 turns each byte into the character of that number: expressions are
// about bytes, Go's are about characters.
func latin1(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return widened(s)
		}
	}
	return s
}

func widened(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func asIs(pat, _ string) (string, error) { return pat, nil }

// cleaned has no "." and ".." in it; empty is ".".
func cleaned(pat, _ string) (string, error) { return path.Clean(pat), nil }

// below makes absolute what is relative to the root and then takes the root
// away: the root itself is empty, and what isn't below it is an error.
func below(pat, root string) (string, error) {
	name := path.Clean(root + "/" + pat)
	if strings.HasPrefix(pat, "/") {
		name = path.Clean(pat)
	}
	root = path.Clean(root)
	if name == root {
		return "", nil
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", hg.Abortf("%s not under root '%s'", pat, root)
	}
	return rel, audit(rel)
}

// audit refuses patterns for what no repository can hold, as hg does: nothing
// would ever match them.
func audit(name string) error {
	parts := strings.Split(strings.ToLower(name), "/")
	for i, p := range parts {
		if p != ".hg" && p != ".hg." {
			continue
		}
		if i == 0 {
			return hg.Abortf("path contains illegal component: %s", name)
		}
		base := strings.Join(strings.Split(name, "/")[:i], "/")
		return hg.Abortf("path '%s' is inside nested repo '%s'", name, base)
	}
	return nil
}

func infallible(f func(string) string) func(string) (string, error) {
	return func(pat string) (string, error) { return f(pat), nil }
}

// pathExpr matches a file or everything below a directory.
func pathExpr(pat string) string {
	if pat == "" || pat == "." {
		return ""
	}
	return regexp.QuoteMeta(pat) + "(?:/|$)"
}

// filesInExpr matches the files of a directory, not those further down.
func filesInExpr(pat string) string {
	if pat == "." {
		return "[^/]+$"
	}
	return regexp.QuoteMeta(pat) + "/[^/]+$"
}
