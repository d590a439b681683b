package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"vcsd/hg"
)

// A manifest's text has a line for each file, in ascending order of paths:
//
//	path, NUL, filelog node in 40 hexadecimal digits [, flag], newline
//
// Source: what hg stores; its limits on paths are those of CheckPath.

// A ManifestEntry is a line of a manifest.
type ManifestEntry struct {
	Path []byte // of the manifest's text
	Node hg.Node
	Flag byte // FlagNone, FlagLink or FlagExec
}

// The flags of a file in a manifest.
const (
	FlagNone byte = 0
	FlagLink byte = 'l' // a symbolic link
	FlagExec byte = 'x' // may be executed
)

// ErrBadManifest means that a manifest's text does not follow its format. It
// is wrapped with the line.
var ErrBadManifest = errors.New("malformed manifest")

// Entries hands each line of a manifest to yield, in order, and stops at its
// first error. It checks format and order, not the paths themselves.
func Entries(text []byte, yield func(ManifestEntry) error) error {
	if err := checkEnd(text); err != nil {
		return err
	}
	w := lineWalk{text: text, yield: yield}
	return w.lines(0, len(text))
}

// CheckManifest refuses a text that is no manifest, or that has a path that
// CheckPath refuses.
func CheckManifest(text []byte) error {
	return Entries(text, func(e ManifestEntry) error { return CheckPath(e.Path) })
}

// AddedEntries hands to yield each line of the manifest text that the manifest
// base does not have: those of files that are new, or whose revision or flag
// changed. A nil base has no lines.
func AddedEntries(base, text []byte, yield func(ManifestEntry) error) error {
	if err := cmp.Or(checkEnd(base), checkEnd(text)); err != nil {
		return err
	}
	// Most of two manifests that anybody compares is the same.
	start := commonLines(base, text)
	base, rest := base[start:], text[start:]
	w := lineWalk{text: text, yield: yield}
	w.last = lineBefore(text, start)
	for len(rest) > 0 {
		n := lineLen(rest)
		path, _, ok := bytes.Cut(rest[:n], []byte{0})
		if !ok {
			return badLine(rest[:n])
		}
		if err := w.order(path); err != nil {
			return err
		}
		base = skipBelow(base, path)
		if len(base) >= n && bytes.Equal(base[:n], rest[:n]) {
			same := commonLines(base, rest)
			base, rest = base[same:], rest[same:]
			w.last = lineBefore(text, len(text)-len(rest))
			continue
		}
		at := len(text) - len(rest)
		if err := w.lines(at, at+n); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// TouchedEntries hands to yield the lines of a manifest that a delta may have
// changed, in order; delta is what made text of some base. It looks at nothing
// else: if the base is a sound manifest and TouchedEntries returns nil, then
// text is one, but for the paths and revisions that it handed out.
//
// A client's delta may end within a line of the base, which leaves the end of
// that line as a line of text. So the line behind each change is among those
// handed out, changed or not.
func TouchedEntries(text, delta []byte, yield func(ManifestEntry) error) error {
	if err := checkEnd(text); err != nil {
		return err
	}
	w := lineWalk{text: text, yield: yield}
	shift, baseEnd, done := int64(0), uint32(0), 0
	for len(delta) > 0 {
		h, rest, ok := nextHunk(delta)
		from := int64(h.start) + shift
		if !ok || h.start < baseEnd || from+int64(h.n) > int64(len(text)) {
			return fmt.Errorf("delta does not fit: %w", ErrBadManifest)
		}
		delta, baseEnd = rest, h.end
		start := lineStart(text, int(from))
		end := lineEnd(text, int(from)+int(h.n))
		end = lineEnd(text, end+1)
		if start = max(start, done); start > done || done == 0 {
			w.last = lineBefore(text, start)
		}
		done = max(end, done)
		if err := w.span(start, done); err != nil {
			return err
		}
		shift += int64(h.n) - int64(h.end-h.start)
	}
	return nil
}

// FindEntry returns the line of a file in a manifest, and whether there is
// one.
func FindEntry(text []byte, path string) (e ManifestEntry, ok bool, err error) {
	if err := checkEnd(text); err != nil {
		return e, false, err
	}
	for len(text) > 0 {
		mid := bytes.LastIndexByte(text[:len(text)/2], '\n') + 1
		n := lineLen(text[mid:])
		line := text[mid : mid+n]
		name, _, found := bytes.Cut(line, []byte{0})
		if !found {
			return e, false, badLine(line)
		}
		switch c := bytes.Compare(name, []byte(path)); {
		case c == 0:
			e, err := parseEntry(line)
			return e, err == nil, err
		case c < 0:
			text = text[mid+n:]
		default:
			text = text[:mid]
		}
	}
	return e, false, nil
}

// A hunk is a change in a delta (hg help internals.bdiff).
type hunk struct{ start, end, n uint32 }

const hunkHeaderLen = 12

func nextHunk(delta []byte) (h hunk, rest []byte, ok bool) {
	if len(delta) < hunkHeaderLen {
		return h, nil, false
	}
	h = hunk{binary.BigEndian.Uint32(delta), binary.BigEndian.Uint32(delta[4:]), binary.BigEndian.Uint32(delta[8:])}
	rest = delta[hunkHeaderLen:]
	if h.start > h.end || uint64(h.n) > uint64(len(rest)) {
		return h, nil, false
	}
	return h, rest[h.n:], true
}

// lineWalk hands out lines of text, ascending.
type lineWalk struct {
	text  []byte
	yield func(ManifestEntry) error
	last  []byte // path of the line before; nil: none
}

// span hands out the lines in text[start:end] and checks that what follows
// them comes after them.
func (w *lineWalk) span(start, end int) error {
	if err := w.lines(start, end); err != nil || end >= len(w.text) {
		return err
	}
	n := lineLen(w.text[end:])
	next, _, ok := bytes.Cut(w.text[end:end+n], []byte{0})
	if !ok {
		return badLine(w.text[end : end+n])
	}
	return w.order(next)
}

func (w *lineWalk) lines(start, end int) error {
	for start < end {
		n := lineLen(w.text[start:])
		e, err := parseEntry(w.text[start : start+n])
		if err != nil {
			return err
		}
		if err := w.order(e.Path); err != nil {
			return err
		}
		w.last = e.Path
		if err := w.yield(e); err != nil {
			return err
		}
		start += n
	}
	return nil
}

func (w *lineWalk) order(path []byte) error {
	if w.last != nil && bytes.Compare(w.last, path) >= 0 {
		return fmt.Errorf("%q does not come after %q: %w", path, w.last, ErrBadManifest)
	}
	return nil
}

// parseEntry reads a line with its newline.
func parseEntry(line []byte) (ManifestEntry, error) {
	var e ManifestEntry
	i := bytes.IndexByte(line, 0)
	if i <= 0 {
		return e, badLine(line)
	}
	e.Path = line[:i:i]
	value := line[i+1 : len(line)-1]
	if len(value) == hg.NodeHexLen+1 {
		e.Flag = value[hg.NodeHexLen]
		if e.Flag != FlagLink && e.Flag != FlagExec {
			return e, badLine(line)
		}
		value = value[:hg.NodeHexLen]
	}
	if len(value) != hg.NodeHexLen {
		return e, badLine(line)
	}
	if _, err := hex.Decode(e.Node[:], value); err != nil {
		return e, badLine(line)
	}
	return e, nil
}

func badLine(line []byte) error {
	const enough = 200
	return fmt.Errorf("line %q: %w", line[:min(len(line), enough)], ErrBadManifest)
}

func checkEnd(text []byte) error {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		return fmt.Errorf("no newline at the end: %w", ErrBadManifest)
	}
	return nil
}

// lineLen returns the length of the first line of b, which ends in a newline.
func lineLen(b []byte) int { return bytes.IndexByte(b, '\n') + 1 }

// lineStart returns where the line begins that the byte at i is of.
func lineStart(text []byte, i int) int { return bytes.LastIndexByte(text[:i], '\n') + 1 }

// lineEnd returns the first end of a line that is not before i.
func lineEnd(text []byte, i int) int {
	if i <= 0 || i > len(text) {
		return min(max(i, 0), len(text))
	}
	n := bytes.IndexByte(text[i-1:], '\n')
	return i + n
}

// lineBefore returns the path of the line that ends at i, nil if there is
// none.
func lineBefore(text []byte, i int) []byte {
	if i == 0 {
		return nil
	}
	path, _, _ := bytes.Cut(text[lineStart(text, i-1):i], []byte{0})
	return path
}

// commonLines returns the length of the whole lines that a and b both begin
// with.
func commonLines(a, b []byte) int {
	const step = 4096 // compared at once
	n := min(len(a), len(b))
	i := 0
	for i+step <= n && bytes.Equal(a[i:i+step], b[i:i+step]) {
		i += step
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return lineStart(a, i)
}

// skipBelow drops lines of a manifest whose path is below path.
func skipBelow(base, path []byte) []byte {
	for len(base) > 0 {
		n := lineLen(base)
		name, _, _ := bytes.Cut(base[:n], []byte{0})
		if bytes.Compare(name, path) >= 0 {
			break
		}
		base = base[n:]
	}
	return base
}
