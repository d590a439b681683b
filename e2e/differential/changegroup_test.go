package differential

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"vcsd/hg"
)

// A key names a revision of one log: "changelog", "manifest" or "file NAME".
type key struct {
	log  string
	node hg.Node
}

// A revision is what a changegroup says of one, with its full text.
type revision struct {
	key
	p1, p2, link hg.Node
	flags        uint16
	text         string
}

// texts are full texts known so far, of all logs.
type texts map[key]string

// A cgReader decodes a changegroup (hg help internals.changegroups), by itself:
// vcsd's own codec must not excuse itself.
type cgReader struct {
	data    []byte
	version string
	known   texts
	// has tells what the client has before; nil means everything known.
	has  func(key) bool
	revs []revision
}

// decodeChangegroup reads a whole changegroup and adds its texts to known.
func decodeChangegroup(data []byte, version string, known texts, has func(key) bool) ([]revision, error) {
	r := &cgReader{data: data, version: version, known: known, has: has}
	if err := r.all(); err != nil {
		return r.revs, fmt.Errorf("after %d revisions: %w", len(r.revs), err)
	}
	if len(r.data) > 0 {
		return r.revs, fmt.Errorf("%d bytes behind the changegroup", len(r.data))
	}
	return r.revs, nil
}

func (r *cgReader) all() error {
	for _, log := range []string{"changelog", "manifest"} {
		if err := r.group(log); err != nil {
			return err
		}
	}
	if r.version == "03" {
		if tree, err := r.chunk(); err != nil || len(tree) > 0 {
			return fmt.Errorf("tree manifests of %q, %v", tree, err)
		}
	}
	last := ""
	for {
		name, err := r.chunk()
		if err != nil || len(name) == 0 {
			return err
		}
		if string(name) <= last {
			return fmt.Errorf("file %q comes after %q", name, last)
		}
		last = string(name)
		if err := r.group("file " + last); err != nil {
			return err
		}
	}
}

// chunk returns the next chunk; nil ends a group.
func (r *cgReader) chunk() ([]byte, error) {
	if len(r.data) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(binary.BigEndian.Uint32(r.data))
	if n == 0 {
		r.data = r.data[4:]
		return nil, nil
	}
	if n <= 4 || n > len(r.data) {
		return nil, fmt.Errorf("chunk of %d bytes with %d left", n, len(r.data))
	}
	c := r.data[4:n]
	r.data = r.data[n:]
	return c, nil
}

func (r *cgReader) group(log string) error {
	sent := map[hg.Node]bool{}
	var prev hg.Node
	for first := true; ; first = false {
		c, err := r.chunk()
		if err != nil || c == nil {
			return err
		}
		rev, base, delta, err := r.header(c, log, prev, first)
		if err != nil {
			return err
		}
		if err := r.rebuild(&rev, base, delta, sent); err != nil {
			return fmt.Errorf("%s %s: %w", log, rev.node, err)
		}
		prev = rev.node
	}
}

func (r *cgReader) header(c []byte, log string, prev hg.Node, first bool) (rev revision, base hg.Node, delta []byte, err error) {
	size := map[string]int{"01": 80, "02": 100, "03": 102}[r.version]
	if size == 0 || len(c) < size {
		return rev, base, nil, fmt.Errorf("delta of %d bytes in version %q", len(c), r.version)
	}
	rev.key = key{log, hg.Node(c[:20])}
	rev.p1, rev.p2 = hg.Node(c[20:40]), hg.Node(c[40:60])
	switch r.version {
	case "01":
		rev.link = hg.Node(c[60:80])
		if base = prev; first {
			base = rev.p1
		}
	default:
		base, rev.link = hg.Node(c[60:80]), hg.Node(c[80:100])
	}
	if r.version == "03" {
		rev.flags = binary.BigEndian.Uint16(c[100:])
	}
	return rev, base, c[size:], nil
}

func (r *cgReader) rebuild(rev *revision, base hg.Node, delta []byte, sent map[hg.Node]bool) error {
	at := key{rev.log, base}
	baseText, ok := r.known[at]
	if !base.IsNull() && !(ok && (sent[base] || r.has == nil || r.has(at))) {
		return fmt.Errorf("its base %s is not with the client", base)
	}
	for _, p := range []hg.Node{rev.p1, rev.p2} {
		k := key{rev.log, p}
		if !p.IsNull() && !sent[p] && r.has != nil && !r.has(k) {
			return fmt.Errorf("its parent %s is not with the client", p)
		}
	}
	text, err := applyDelta(baseText, delta)
	if strings.HasPrefix(baseText, tombstone) {
		// It stands for a text of another length that the client may have.
		text, err = replacement(delta)
	}
	if err != nil {
		return err
	}
	if hg.HashText(rev.p1, rev.p2, []byte(text)) != rev.node && !strings.HasPrefix(text, tombstone) {
		return errors.New("its text doesn't give its node")
	}
	if rev.text = text; strings.HasPrefix(text, tombstone) {
		rev.text = tombstone // stock at times leaves the base's text behind it
	}
	sent[rev.node] = true
	r.known[rev.key] = text
	r.revs = append(r.revs, *rev)
	return nil
}

// tombstone is what the text of a censored revision begins with.
const tombstone = "\x01\ncensored:"

// replacement returns the text in a delta that replaces a whole base of unknown
// length.
func replacement(delta []byte) (string, error) {
	if len(delta) < 12 || binary.BigEndian.Uint32(delta) != 0 || int(binary.BigEndian.Uint32(delta[8:])) != len(delta)-12 {
		return "", errors.New("a delta against a censored revision does not replace it")
	}
	return string(delta[12:]), nil
}

// applyDelta applies a delta (hg help internals.bdiff).
func applyDelta(base string, delta []byte) (string, error) {
	var out bytes.Buffer
	at := 0
	for len(delta) > 0 {
		if len(delta) < 12 {
			return "", io.ErrUnexpectedEOF
		}
		from, to := int(binary.BigEndian.Uint32(delta)), int(binary.BigEndian.Uint32(delta[4:]))
		n := int(binary.BigEndian.Uint32(delta[8:]))
		delta = delta[12:]
		if from < at || to < from || to > len(base) || n > len(delta) {
			return "", fmt.Errorf("hunk %d-%d with %d bytes, base of %d", from, to, n, len(base))
		}
		out.WriteString(base[at:from])
		out.Write(delta[:n])
		at, delta = to, delta[n:]
	}
	out.WriteString(base[at:])
	return out.String(), nil
}
