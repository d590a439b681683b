package pattern

import (
	"regexp"
	"strings"
)

// globExpr matches a whole name; an empty glob matches every name.
func globExpr(pat string) string {
	if pat == "" {
		return ""
	}
	return translateGlob(pat) + "$"
}

// relGlobExpr matches a name in any directory.
func relGlobExpr(pat string) string { return "(?:|.*/)" + translateGlob(pat) + "$" }

// A glob is one that is being translated. "*" and "?" don't care for letters,
// but "*" stops at slashes and "**" doesn't; brackets choose a character, braces
// one of several globs; a backslash takes the meaning of what follows away.
type glob struct {
	rest string
	open int // braces
	out  strings.Builder
}

func translateGlob(pat string) string {
	g := &glob{rest: pat}
	for g.rest != "" {
		g.next()
	}
	return g.out.String()
}

// next translates what stands first.
func (g *glob) next() {
	switch {
	case g.replace("**/", "(?:.*/)?"), g.replace("**", ".*"), g.replace("*", "[^/]*"), g.replace("?", "."), g.class():
	case g.replace("{", "(?:"):
		g.open++
	case g.open > 0 && g.replace("}", ")"):
		g.open--
	case g.open > 0 && g.replace(",", "|"):
	default:
		g.literal()
	}
}

// replace translates from, if that comes first.
func (g *glob) replace(from, to string) bool {
	rest, ok := strings.CutPrefix(g.rest, from)
	if ok {
		g.rest = rest
		g.out.WriteString(to)
	}
	return ok
}

// class translates brackets. Without their end they are none.
func (g *glob) class() bool {
	inner, ok := strings.CutPrefix(g.rest, "[")
	if !ok || inner == "" {
		return false
	}
	first := 0
	if inner[0] == '!' || inner[0] == ']' {
		first = 1
	}
	end := strings.IndexByte(inner[first:], ']')
	if end < 0 {
		return false
	}
	set := inner[:first+end]
	g.rest = inner[len(set)+1:]
	g.out.WriteByte('[')
	if rest, negated := strings.CutPrefix(set, "!"); negated {
		g.out.WriteByte('^')
		set = rest
	} else if strings.HasPrefix(set, "^") {
		g.out.WriteByte('\\')
	}
	g.out.WriteString(classEscapes.Replace(set))
	g.out.WriteByte(']')
	return true
}

// classEscapes are what means something between brackets to Go and nothing to
// hg.
var classEscapes = strings.NewReplacer(`\`, `\\`, "[", `\[`)

func (g *glob) literal() {
	n := 1
	if g.rest[0] == '\\' && len(g.rest) > 1 {
		n = 2
	}
	g.out.WriteString(regexp.QuoteMeta(g.rest[n-1 : n]))
	g.rest = g.rest[n:]
}
