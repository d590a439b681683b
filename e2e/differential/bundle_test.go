package differential

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"vcsd/hg"
	"vcsd/internal/hgtest"
)

// decodeStream takes the compression of a long answer away.
func decodeStream(a answer) (engine string, data []byte, err error) {
	engine, data = "zlib", a.raw
	switch a.mediaType {
	case "application/mercurial-0.1":
	case "application/mercurial-0.2":
		if len(data) == 0 || len(data) < 1+int(data[0]) {
			return "", nil, fmt.Errorf("media type 0.2 without the name of its compression: %.40q", data)
		}
		engine, data = string(data[1:1+data[0]]), data[1+data[0]:]
	default:
		return "", nil, fmt.Errorf("media type %q of a bundle", a.mediaType)
	}
	var r io.Reader
	switch engine {
	case "none":
		return engine, data, nil
	case "zlib":
		r, err = zlib.NewReader(bytes.NewReader(data))
	case "zstd":
		r, err = zstd.NewReader(bytes.NewReader(data))
	default:
		err = fmt.Errorf("compression %q", engine)
	}
	if err == nil {
		data, err = io.ReadAll(r)
	}
	if err != nil {
		return engine, nil, fmt.Errorf("%s: %w", engine, err)
	}
	return engine, data, nil
}

// A bundle is a decoded answer to getbundle or changegroup.
type bundle struct {
	engine string
	bare   bool // only a changegroup
	parts  []hgtest.Part
	revs   []revision
}

// decodeBundle reads an answer that is a bundle, of either form.
func decodeBundle(a answer, known texts, has func(key) bool) (*bundle, error) {
	engine, data, err := decodeStream(a)
	if err != nil {
		return nil, err
	}
	b := &bundle{engine: engine}
	if !bytes.HasPrefix(data, []byte("HG20")) {
		b.bare = true
		b.revs, err = decodeChangegroup(data, "01", known, has)
		return b, err
	}
	if b.parts, err = hgtest.ParseBundle2(data); err != nil {
		return nil, err
	}
	for i := range b.parts {
		p := &b.parts[i]
		if !strings.EqualFold(p.Type, "changegroup") {
			continue
		}
		version, ok := p.Param("version")
		if !ok {
			version = "01"
		}
		if b.revs, err = decodeChangegroup(p.Payload, version, known, has); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// compareBundles returns what differs.
func compareBundles(stock, vcsd *bundle) []string {
	var diffs []string
	if stock.engine != vcsd.engine {
		diffs = append(diffs, fmt.Sprintf("compression %s, want %s", vcsd.engine, stock.engine))
	}
	want, got := stock.parts, vcsd.parts
	if stock.bare != vcsd.bare || len(want) != len(got) {
		return append(diffs, fmt.Sprintf("parts %s, want %s", partTypes(got), partTypes(want)))
	}
	for i := range want {
		if w, g := describePart(want[i]), describePart(got[i]); w != g {
			diffs = append(diffs, fmt.Sprintf("part %d\n    got %s\n   want %s", i, g, w))
		}
	}
	return append(diffs, compareRevisions(stock.revs, vcsd.revs)...)
}

func partTypes(parts []hgtest.Part) []string {
	var types []string
	for _, p := range parts {
		types = append(types, p.Type)
	}
	return types
}

// describePart renders a part so that equal texts mean equal parts.
func describePart(p hgtest.Part) string {
	head := fmt.Sprintf("%s %q %q ", p.Type, p.Mandatory, p.Advisory)
	switch strings.ToLower(p.Type) {
	case "changegroup":
		return head // its revisions are compared
	case "listkeys":
		return head + sortedLines(string(p.Payload))
	case "phase-heads":
		return head + describePhases(p.Payload)
	case "cache:rev-branch-cache":
		return head + describeBranches(p.Payload)
	case "hgtagsfnodes":
		return head + describePairs(p.Payload)
	}
	return head + fmt.Sprintf("%q", p.Payload)
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return fmt.Sprintf("%q", lines)
}

// describePairs renders changesets with their revisions of .hgtags, whose order
// says nothing.
func describePairs(b []byte) string {
	var out []string
	for ; len(b) >= 40; b = b[40:] {
		out = append(out, fmt.Sprintf("%x:%x", b[:20], b[20:40]))
	}
	slices.Sort(out)
	return fmt.Sprintf("%v, %d bytes over", slices.Compact(out), len(b))
}

func describePhases(b []byte) string {
	var out []string
	for ; len(b) >= 24; b = b[24:] {
		out = append(out, fmt.Sprintf("%d:%x", binary.BigEndian.Uint32(b), b[4:24]))
	}
	slices.Sort(out)
	return fmt.Sprintf("%v, %d bytes over", slices.Compact(out), len(b))
}

func describeBranches(b []byte) string {
	var out []string
	for len(b) >= 12 {
		name, open, closed := int(binary.BigEndian.Uint32(b)), int(binary.BigEndian.Uint32(b[4:])), int(binary.BigEndian.Uint32(b[8:]))
		b = b[12:]
		if len(b) < name+20*(open+closed) {
			return "cut short"
		}
		for i := range open + closed {
			out = append(out, fmt.Sprintf("%x of %q, closed: %v", b[name+20*i:][:20], b[:name], i >= open))
		}
		b = b[name+20*(open+closed):]
	}
	slices.Sort(out)
	return fmt.Sprintf("%q, %d bytes over", out, len(b))
}

// compareRevisions compares sets, and the order of changesets, which become
// the client's revs.
func compareRevisions(want, got []revision) []string {
	var diffs []string
	left := map[key]revision{}
	for _, r := range want {
		left[r.key] = r
	}
	for _, r := range got {
		w, ok := left[r.key]
		delete(left, r.key)
		switch {
		case !ok:
			diffs = append(diffs, fmt.Sprintf("%s %s is sent too much, or twice", r.log, r.node))
		case w != r:
			diffs = append(diffs, fmt.Sprintf("%s %s: got p1 %s p2 %s link %s flags %x, %d bytes; want %s %s %s %x, %d",
				r.log, r.node, r.p1, r.p2, r.link, r.flags, len(r.text), w.p1, w.p2, w.link, w.flags, len(w.text)))
		}
	}
	for k, r := range left {
		diffs = append(diffs, fmt.Sprintf("%s %s (link %s) is not sent", k.log, k.node, r.link))
	}
	if len(diffs) == 0 && !slices.Equal(changesets(want), changesets(got)) {
		diffs = append(diffs, fmt.Sprintf("changesets in the order %v, want %v", changesets(got), changesets(want)))
	}
	slices.Sort(diffs)
	return diffs
}

func changesets(revs []revision) []hg.Node {
	var out []hg.Node
	for _, r := range revs {
		if r.log == "changelog" {
			out = append(out, r.node)
		}
	}
	return out
}
