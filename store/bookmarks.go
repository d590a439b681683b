package store

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"vcsd/hg"
)

// ParseBookmarks reads a bookmarks file: a line for each of
//
//	node in hexadecimal, SPACE, name
//
// Lines of another form are passed over, as hg does after a warning. Names are
// in UTF-8 as far as hg made them, and kept as they are.
func ParseBookmarks(b []byte) map[string]hg.Node {
	marks := make(map[string]hg.Node)
	for line := range bytes.Lines(b) {
		hexNode, name, ok := bytes.Cut(trimSpace(line), []byte(" "))
		if !ok {
			continue
		}
		if n, err := hg.ParseNode(hexNode); err == nil {
			marks[string(name)] = n
		}
	}
	return marks
}

// EncodeBookmarks returns a bookmarks file as hg writes it, by name.
func EncodeBookmarks(marks map[string]hg.Node) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		b = append(marks[name].AppendHex(b), ' ')
		b = append(append(b, name...), '\n')
	}
	return b
}

// IsDivergent reports whether a bookmark was made locally because one of the
// same name had moved elsewhere. Those are not exchanged.
func IsDivergent(name string) bool {
	return strings.Contains(name, "@") && !strings.HasSuffix(name, "@")
}

// integer is what hg takes for a rev, and so does not allow as a name.
var integer = regexp.MustCompile(`^[ \t\n\r\f\v]*[+-]?[0-9]+[ \t\n\r\f\v]*$`)

// CheckLabel refuses with an *hg.Abort a name that hg doesn't give to a
// bookmark, tag or branch.
func CheckLabel(name string) error {
	if name == "tip" || name == "." || name == "null" {
		return hg.Abortf("the name '%s' is reserved", name)
	}
	for _, c := range []struct{ char, shown string }{{":", ":"}, {"\x00", `\x00`}, {"\n", `\n`}, {"\r", `\r`}} {
		if strings.Contains(name, c.char) {
			return hg.Abortf("'%s' cannot be used in a name", c.shown)
		}
	}
	if integer.MatchString(name) {
		return hg.Abortf("cannot use an integer as a name")
	}
	if string(trimSpace([]byte(name))) != name {
		return hg.Abortf("leading or trailing whitespace in name %q", name)
	}
	return nil
}

// CheckBookmarkName refuses with an *hg.Abort a name that hg doesn't give to a
// bookmark. Clients end with an error where they meet one that is not in UTF-8.
func CheckBookmarkName(name string) error {
	if len(trimSpace([]byte(name))) == 0 {
		return hg.Abortf("bookmark names cannot consist entirely of whitespace")
	}
	if !utf8.ValidString(name) {
		return hg.Abortf("bookmark name %q is not in UTF-8", name)
	}
	return CheckLabel(name)
}

// trimSpace drops what Python takes for white space in bytes.
func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t\n\r\f\v") }
