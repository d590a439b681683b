package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The syntax of hgrc files is that of hg help config, Syntax; in corners that
// it leaves open, hg config of 6.3 was asked. Unlike hg, which stops when its
// stack is full, the number of included files is limited.
const (
	maxIncludeDepth = 50
	maxIncludes     = 1000
)

// space is what counts as white space.
const space = " \t\n\r\f\v"

// An op sets a key, or removes it, or says by an empty key that there is a
// section.
type op struct {
	section, key string
	value        string
	unset        bool
	source       string // file and line
	level        int    // files read later have higher ones
}

// A parser reads a file and those that it includes.
type parser struct {
	read     func(name string) ([]byte, error)
	expand   func(string) string
	ops      []op
	level    int
	includes int
}

// file reads one file.
func (p *parser) file(name string, depth int) error {
	data, err := p.read(name)
	if err != nil {
		return err
	}
	return p.data(name, data, depth)
}

// data reads what is in a file. What stands before an error counts.
func (p *parser) data(name string, data []byte, depth int) error {
	p.level++
	f := &fileParser{parser: p, name: name, depth: depth}
	for line := range splitLines(string(data)) {
		f.line++
		if f.line == 1 {
			line = strings.TrimPrefix(line, "\xef\xbb\xbf")
		}
		if err := f.parse(line); err != nil {
			return err
		}
	}
	return nil
}

// splitLines yields lines that end in LF, CR or CRLF, with their end.
func splitLines(s string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > 0 {
			n := strings.IndexAny(s, "\r\n") + 1
			switch {
			case n == 0:
				n = len(s)
			case s[n-1] == '\r' && n < len(s) && s[n] == '\n':
				n++
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
	}
}

type fileParser struct {
	*parser
	name    string
	depth   int
	line    int
	section string

	// last is the op that a continuation line goes on with, or -1.
	last int
	cont bool
}

func (f *fileParser) source() string { return f.name + ":" + strconv.Itoa(f.line) }

func (f *fileParser) parse(line string) error {
	if f.cont {
		if strings.HasPrefix(line, ";") || strings.HasPrefix(line, "#") {
			return nil
		}
		if more := strings.Trim(line, space); more != "" && strings.IndexByte(space, line[0]) >= 0 {
			o := &f.ops[f.last]
			o.value += "\n" + more
			o.source = f.source()
			return nil
		}
		f.cont = false
	}
	if name, ok := directive(line, "%include"); ok {
		return f.include(name)
	}
	if line == "" || strings.Trim(line, space) == "" || line[0] == ';' || line[0] == '#' {
		return nil
	}
	if section, ok := parseSection(line); ok {
		f.section = section
		f.ops = append(f.ops, op{section: section, source: f.source(), level: f.level})
		return nil
	}
	if key, value, ok := parseItem(line); ok {
		f.last, f.cont = len(f.ops), true
		f.ops = append(f.ops, op{section: f.section, key: key, value: value, source: f.source(), level: f.level})
		return nil
	}
	if rest, ok := directive(line, "%unset"); ok {
		key := strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune(space, r) })[0]
		f.ops = append(f.ops, op{section: f.section, key: key, unset: true, source: f.source(), level: f.level})
		return nil
	}
	message := strings.TrimRight(line, space)
	if line[0] == ' ' {
		message = "unexpected leading whitespace: " + message
	}
	return errorAt(f.source(), "%s", message)
}

// directive returns what follows word and white space, trimmed.
func directive(line, word string) (string, bool) {
	rest, ok := strings.CutPrefix(line, word)
	if !ok || rest == "" || strings.IndexByte(space, rest[0]) < 0 {
		return "", false
	}
	rest = strings.Trim(rest, space)
	return rest, rest != ""
}

// parseSection takes what is between "[" and the last "]" before another "[".
func parseSection(line string) (string, bool) {
	rest, ok := strings.CutPrefix(line, "[")
	if !ok {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "[")
	end := strings.LastIndexByte(rest, ']')
	if end < 1 {
		return "", false
	}
	return rest[:end], true
}

func parseItem(line string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(line, "=")
	if !ok || key == "" || strings.IndexByte(space, key[0]) >= 0 {
		return "", "", false
	}
	return strings.TrimRight(key, space), strings.Trim(value, space), true
}

// include reads another file, relative to this one. One that doesn't exist is
// passed over.
func (f *fileParser) include(arg string) error {
	name := f.expand(arg)
	where := f.source()
	f.includes++
	if f.depth >= maxIncludeDepth || f.includes > maxIncludes {
		return errorAt(where, "cannot include %s (too many files, or a loop)", name)
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.name), path)
	}
	err := f.file(filepath.Clean(path), f.depth+1)
	// What follows counts as later than the included file.
	f.level++
	var fault *Error
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.As(err, &fault):
		return err
	default:
		e := errorAt(where, "cannot include %s (%s)", name, reason(err))
		e.Err = err
		return e
	}
}

// reason returns the operating system's words for err, as hg prints them.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return fmt.Sprint(err)
}
