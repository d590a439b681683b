package store

import (
	"bytes"
	"fmt"
	"strings"
)

// An UnsafePathError refuses the name of a tracked file: on some system it
// would lead out of the working copy or into a repository's own files, or the
// store's formats can't hold it.
type UnsafePathError struct {
	Path   string
	Reason string
}

func (e *UnsafePathError) Error() string { return fmt.Sprintf("%s: %.200q", e.Reason, e.Path) }

const (
	reasonComponent = "path contains illegal component"
	reasonEnd       = "path ends in directory separator"
	reasonNested    = "path is inside nested repo"
	reasonControl   = `'\0', '\n' and '\r' disallowed in filenames`
	reasonLong      = "path is too long for a store"
)

// maxPathBytes is the longest name that hg can hash to a file of its store:
// with "data/" before it and ".i" behind it three times as many bytes have to
// stay below 16 KiB. A store with a longer name can't even be verified.
const maxPathBytes = 5458

// CheckPath refuses with an *UnsafePathError the name of a file that must not
// be in a manifest or a filelog. Names that only Windows can't have, such as
// "aux.txt", "a:b" or "trailing.", are legal.
func CheckPath[T string | []byte](path T) error {
	if reason := unsafeReason([]byte(path)); reason != "" {
		return &UnsafePathError{Path: string(path), Reason: reason}
	}
	return nil
}

func unsafeReason(path []byte) string {
	if len(path) > maxPathBytes {
		return reasonLong
	}
	if bytes.ContainsAny(path, "\x00\n\r") {
		return reasonControl
	}
	if len(path) == 0 || path[0] == '/' {
		return reasonComponent
	}
	if path[len(path)-1] == '/' {
		return reasonEnd
	}
	first := true
	for rest, more := path, true; more; first = false {
		var c []byte
		c, rest, more = bytes.Cut(rest, []byte("/"))
		switch {
		case len(c) == 0 || isDots(c) || isShortHg(c):
			return reasonComponent
		case first && len(c) == 2 && c[1] == ':' && isLetter(c[0]) && more:
			return reasonComponent // C:/ names a drive on Windows
		case first && (isHg(c) || len(dropIgnored(c)) == 0):
			return reasonComponent
		case isHg(c):
			return reasonNested
		case bytes.IndexByte(c, '\\') >= 0 && unsafeOnWindows(c, first):
			return reasonComponent
		}
	}
	return ""
}

// unsafeOnWindows tells whether a component becomes several ones on Windows of
// which one is unsafe. A backslash is legal otherwise.
func unsafeOnWindows(c []byte, first bool) bool {
	if first && (c[0] == '\\' || len(c) > 2 && isLetter(c[0]) && c[1] == ':' && c[2] == '\\') {
		return true
	}
	for part := range bytes.SplitSeq(c, []byte(`\`)) {
		if isDots(part) || isHg(part) || isShortHg(part) {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDots(c []byte) bool { return string(c) == "." || string(c) == ".." }

// isHg tells whether some file system takes c for ".hg": in any case, with
// characters that HFS+ passes over, with an end that Windows passes over.
func isHg(c []byte) bool {
	// Nearly all components end here.
	if len(c) == 0 || c[0] != '.' && c[0] != 0xe2 && c[0] != 0xef {
		return false
	}
	return trimWindows(strings.ToLower(string(dropIgnored(c)))) == ".hg"
}

// isShortHg tells whether c is a name that Windows makes for ".hg" itself.
func isShortHg(c []byte) bool {
	i := bytes.IndexByte(c, '~')
	if i < 0 {
		return false
	}
	name, digits := strings.ToUpper(string(c[:i])), trimWindows(string(c[i+1:]))
	return (name == "HG" || name == "HG8B6C") && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// trimWindows drops what Windows does at the end of a name: periods, spaces,
// and the name of a stream after a colon.
func trimWindows(s string) string {
	s, _, _ = strings.Cut(s, ":")
	return strings.TrimRight(s, ". ")
}

// hfsIgnored are the characters that HFS+ passes over in names, in UTF-8.
var hfsIgnored = [][]byte{
	[]byte("\u200c"), []byte("\u200d"), []byte("\u200e"), []byte("\u200f"),
	[]byte("\u202a"), []byte("\u202b"), []byte("\u202c"), []byte("\u202d"), []byte("\u202e"),
	[]byte("\u206a"), []byte("\u206b"), []byte("\u206c"), []byte("\u206d"), []byte("\u206e"), []byte("\u206f"),
	[]byte("\ufeff"),
}

// dropIgnored returns c without the characters that HFS+ passes over, and
// without those that come to be when others are dropped.
func dropIgnored(c []byte) []byte {
	for bytes.IndexByte(c, 0xe2) >= 0 || bytes.IndexByte(c, 0xef) >= 0 {
		before := len(c)
		for _, ignored := range hfsIgnored {
			c = bytes.ReplaceAll(c, ignored, nil)
		}
		if len(c) == before {
			break
		}
	}
	return c
}
