package store

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"vcsd/hg"
)

// A Changeset is the text of a changelog revision, taken apart:
//
//	manifest node, 40 hexadecimal digits
//	user
//	seconds since 1970, SPACE, seconds west of UTC [, SPACE, extra]
//	names of changed files, one a line
//	(an empty line)
//	description
//
// extra is a list of KEY ":" VALUE separated by NUL, with NUL, newline,
// carriage return and backslash escaped by a backslash. All bytes are kept as
// they are, in whatever encoding. The slices are those of the text.
type Changeset struct {
	Manifest    hg.Node // NullNode: no files at all
	User        []byte
	Description []byte

	date  []byte // both numbers
	extra []byte // escaped
	files []byte // a line each, without the last newline
}

// defaultBranch is the branch of a changeset that names none.
const defaultBranch = "default"

// ParseChangeset takes a changelog text apart. It demands the structure and
// nothing more, since odd things stand in old histories; Check demands the
// rest. An empty text is that of a changeset without anything.
func ParseChangeset(text []byte) (Changeset, error) {
	var c Changeset
	if len(text) == 0 {
		return c, nil
	}
	var line [3][]byte
	rest := text
	for i, what := range []string{"manifest", "user", "date"} {
		var ok bool
		if line[i], rest, ok = bytes.Cut(rest, []byte("\n")); !ok {
			return c, fmt.Errorf("changeset text ends in its %s: %w", what, hg.ErrMalformed)
		}
	}
	n, err := hg.ParseNode(line[0])
	if err != nil {
		return c, fmt.Errorf("manifest of changeset: %w: %w", err, hg.ErrMalformed)
	}
	c.Manifest, c.User = n, line[1]
	c.date, c.extra = splitDate(line[2])
	if len(rest) > 0 && rest[0] == '\n' {
		c.Description = rest[1:]
		return c, nil
	}
	var ok bool
	if c.files, c.Description, ok = bytes.Cut(rest, []byte("\n\n")); !ok {
		return c, fmt.Errorf("changeset text ends in its files: %w", hg.ErrMalformed)
	}
	return c, nil
}

// splitDate parts the numbers of the date line from its extra.
func splitDate(line []byte) (date, extra []byte) {
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return line, nil
	}
	j := bytes.IndexByte(line[i+1:], ' ')
	if j < 0 {
		return line, nil
	}
	return line[:i+1+j], line[i+1+j+1:]
}

// Date returns when the changeset was made, in seconds since 1970 without
// their fraction, and the seconds that its time zone is west of UTC. ok is
// false if the text has no such numbers; hg takes a zone that is none for 0,
// and so does Date.
func (c *Changeset) Date() (unix int64, west int, ok bool) {
	sec, zone, found := bytes.Cut(c.date, []byte(" "))
	f, err := strconv.ParseFloat(string(sec), 64)
	if err != nil || !found || math.IsNaN(f) || math.Abs(f) > 1<<52 {
		return 0, 0, false
	}
	west, err = strconv.Atoi(string(zone))
	if err != nil {
		west = 0
	}
	return int64(f), west, true
}

// Files returns the names of the files that changed.
func (c *Changeset) Files() [][]byte {
	if len(c.files) == 0 {
		return nil
	}
	return bytes.Split(c.files, []byte("\n"))
}

// Branch returns the changeset's named branch.
func (c *Changeset) Branch() string {
	// Most changesets are on the default branch and say nothing of it.
	if !bytes.Contains(c.extra, []byte("branch:")) {
		return defaultBranch
	}
	if b, ok := c.Extra("branch"); ok {
		return string(b)
	}
	return defaultBranch
}

// Closes reports whether the changeset closes its branch.
func (c *Changeset) Closes() bool {
	_, ok := c.Extra("close")
	return ok
}

// Extra returns a value of the changeset's extra, and whether there is such a
// key. The slice is the caller's to read only.
func (c *Changeset) Extra(key string) (value []byte, ok bool) {
	// A key may stand there twice: the last one counts.
	for item := range bytes.SplitSeq(c.extra, []byte{0}) {
		if !bytes.Contains(item, []byte(key)) && bytes.IndexByte(item, '\\') < 0 {
			continue
		}
		u, err := unescapeExtra(item)
		if k, v, found := bytes.Cut(u, []byte(":")); err == nil && found && string(k) == key {
			value, ok = v, true
		}
	}
	return value, ok
}

// Check refuses what no client should send though it can be read: hg itself
// stumbles over some of it.
func (c *Changeset) Check() error {
	if bytes.IndexByte(c.User, '\r') >= 0 || bytes.IndexByte(c.User, 0) >= 0 {
		return fmt.Errorf("user name %q: %w", c.User, hg.ErrMalformed)
	}
	if _, _, ok := c.Date(); !ok && len(c.date) > 0 {
		return fmt.Errorf("date %q: %w", c.date, hg.ErrMalformed)
	}
	for item := range bytes.SplitSeq(c.extra, []byte{0}) {
		if len(item) == 0 {
			continue
		}
		u, err := unescapeExtra(item)
		if err != nil {
			return err
		}
		if bytes.IndexByte(u, ':') < 0 {
			return fmt.Errorf("extra %q without a colon: %w", u, hg.ErrMalformed)
		}
	}
	if b := c.Branch(); bytes.ContainsAny([]byte(b), "\x00\n\r") {
		return fmt.Errorf("branch name %q: %w", b, hg.ErrMalformed)
	}
	for _, f := range c.Files() {
		if err := CheckPath(f); err != nil {
			return err
		}
	}
	return nil
}

// unescapeExtra takes back the escapes of one item. hg writes \\, \n, \r and
// \0; it reads all of Python's, so that old texts hold others.
func unescapeExtra(item []byte) ([]byte, error) {
	if bytes.IndexByte(item, '\\') < 0 {
		return item, nil
	}
	b := make([]byte, 0, len(item))
	for i := 0; i < len(item); i++ {
		if item[i] != '\\' {
			b = append(b, item[i])
			continue
		}
		if i++; i == len(item) {
			return nil, fmt.Errorf("extra ends in a backslash: %w", hg.ErrMalformed)
		}
		var n int
		if b, n = appendUnescaped(b, item[i:]); n == 0 {
			return nil, fmt.Errorf("extra has escape %q: %w", item[i-1:min(len(item), i+3)], hg.ErrMalformed)
		}
		i += n - 1
	}
	return b, nil
}

// simpleEscapes are the escapes of one letter, and what they stand for. Of \0
// it is the NUL alone even where further digits follow.
var simpleEscapes = map[byte]byte{
	'\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '0': 0,
}

// appendUnescaped appends what the escape at the beginning of s stands for,
// after its backslash, and returns how many bytes of s it is; 0: none.
func appendUnescaped(b, s []byte) ([]byte, int) {
	if c, ok := simpleEscapes[s[0]]; ok {
		return append(b, c), 1
	}
	switch c := s[0]; {
	case c == '\n':
		return b, 1
	case c == 'x':
		if len(s) < 3 {
			return b, 0
		}
		v, err := strconv.ParseUint(string(s[1:3]), 16, 8)
		if err != nil {
			return b, 0
		}
		return append(b, byte(v)), 3
	case '1' <= c && c <= '7':
		n := 1
		for n < len(s) && n < 3 && '0' <= s[n] && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(string(s[:n]), 8, 16) // digits, so no error
		return append(b, byte(v)), n
	}
	return append(b, '\\', s[0]), 1
}
