package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var (
	// leadingFlags are those that hold for a whole expression.
	leadingFlags = regexp.MustCompile(`^\(\?([aiLmsux]+)\)`)

	// openRange is a repetition without a lower bound, {,n}.
	openRange = regexp.MustCompile(`^\{,[0-9]*\}`)

	// flagGroup is one that sets flags, for what is in it or for all behind it.
	flagGroup = regexp.MustCompile(`^\(\?([a-zA-Z]*)(-[a-zA-Z]*)?([:)])`)

	octal = regexp.MustCompile(`^[0-3][0-7][0-7]`)
)

// relReExpr matches from anywhere in a name.
func relReExpr(pat string) (string, error) {
	flags := ""
	if m := leadingFlags.FindStringSubmatch(pat); m != nil {
		flags, pat = m[1], pat[len(m[0]):]
	}
	if !strings.HasPrefix(pat, "^") {
		pat = ".*" + pat
	}
	if flags != "" {
		pat = "(?" + flags + ":" + pat + ")"
	}
	return pythonExpr(pat)
}

// A python is a regular expression of Python's that is being rewritten for Go
// (Python's library reference, "re", Regular Expression Syntax).
type python struct {
	pat, rest string
	inClass   bool
	out       strings.Builder
}

// pythonExpr rewrites an expression. What Go can't take is left to Go to
// refuse; what it would take for something else is rewritten or refused here.
func pythonExpr(pat string) (string, error) {
	p := &python{pat: pat, rest: pat}
	for p.rest != "" {
		if err := p.next(); err != nil {
			return "", err
		}
	}
	return p.out.String(), nil
}

func (p *python) next() error {
	switch c := p.rest[0]; {
	case c == '\\':
		return p.escape()
	case c == '[' && p.inClass:
		p.take(1, `\[`) // "[:" begins the name of a class to Go
	case c == ']' && p.inClass:
		p.inClass = false
		p.copy(1)
	case c == '[':
		p.openClass()
	case p.inClass:
		p.copy(1)
	case openRange.MatchString(p.rest):
		p.take(2, "{0,")
	case strings.HasPrefix(p.rest, "(?"):
		return p.group()
	default:
		p.copy(1)
	}
	return nil
}

// copy takes n bytes over as they are.
func (p *python) copy(n int) { p.take(n, p.rest[:n]) }

// take writes s for n bytes.
func (p *python) take(n int, s string) {
	p.out.WriteString(s)
	p.rest = p.rest[n:]
}

// openClass takes a bracket, and what right behind it isn't what it is
// elsewhere.
func (p *python) openClass() {
	n := 1
	if strings.HasPrefix(p.rest[n:], "^") {
		n++
	}
	if strings.HasPrefix(p.rest[n:], "]") {
		n++
	}
	p.inClass = true
	p.copy(n)
}

// group takes what begins with "(?".
func (p *python) group() error {
	m := flagGroup.FindStringSubmatch(p.rest)
	switch {
	case strings.HasPrefix(p.rest, "(?<"):
		return errors.New("look-behind")
	case m == nil:
	case strings.Contains(m[1]+m[2], "U"):
		return errors.New("unknown extension ?U")
	case m[3] == ")" && len(p.rest) < len(p.pat):
		return errors.New("global flags not at the start of the expression")
	case m[3] == ")" && m[2] != "":
		return errors.New("missing : after flags")
	case strings.Contains(m[1], "i") && !isASCII(p.pat):
		// Python has lower and upper case for the letters of ASCII alone.
		return errors.New("flag i with bytes beyond ASCII")
	}
	p.copy(2)
	return nil
}

// isASCII tells whether an expression is about bytes of ASCII alone.
func isASCII(expr string) bool {
	return latin1(expr) == expr && !strings.Contains(expr, `\x`)
}

// escape takes a backslash and what belongs to it.
func (p *python) escape() error {
	if len(p.rest) < 2 {
		return errors.New("bad escape (end of pattern)")
	}
	c := p.rest[1]
	switch {
	case c >= 0x80:
		p.take(2, string([]byte{c}))
	case c >= '1' && c <= '9' && !octal.MatchString(p.rest[1:]):
		return fmt.Errorf(`back reference \%c`, c)
	case c == 'x' && (len(p.rest) < 4 || p.rest[2] == '{'):
		return errors.New(`incomplete escape \x`)
	case isLetter(c):
		return p.letter(c)
	default:
		p.copy(2)
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// letter takes an escaped letter. Go has more of them than Python, and its
// white space is without the vertical tab.
func (p *python) letter(c byte) error {
	switch {
	case strings.IndexByte("dDwWafnrtvx", c) >= 0, !p.inClass && strings.IndexByte("AbB", c) >= 0:
		p.copy(2)
	case c == 'Z' && !p.inClass:
		p.take(2, `\z`)
	case c == 'b':
		p.take(2, `\x08`)
	case c == 's' && p.inClass:
		p.take(2, `\s\v`)
	case c == 's':
		p.take(2, `[\s\v]`)
	case c == 'S' && !p.inClass:
		p.take(2, `[^\s\v]`)
	default:
		return fmt.Errorf(`bad escape \%c`, c)
	}
	return nil
}
