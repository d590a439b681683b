package hgtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
)

// A Part is one part of a bundle2 stream (hg help internals.bundle2).
type Part struct {
	Type      string // in upper case letters if the receiver must know it
	Mandatory []Param
	Advisory  []Param
	Payload   []byte
}

// A Param is a parameter of a part.
type Param struct{ Name, Value string }

// Param returns the value of a parameter.
func (p *Part) Param(name string) (string, bool) {
	for _, list := range [][]Param{p.Mandatory, p.Advisory} {
		for _, q := range list {
			if q.Name == name {
				return q.Value, true
			}
		}
	}
	return "", false
}

const (
	bundle2Magic = "HG20"
	maxPayload   = 1 << 30 // of one part in an answer
)

// Bundle2 writes an uncompressed bundle2 stream.
func Bundle2(parts ...Part) []byte {
	b := append([]byte(bundle2Magic), 0, 0, 0, 0)
	for id, p := range parts {
		b = p.append(b, uint32(id))
	}
	return append(b, 0, 0, 0, 0)
}

func (p *Part) append(b []byte, id uint32) []byte {
	head := append([]byte{byte(len(p.Type))}, p.Type...)
	head = binary.BigEndian.AppendUint32(head, id)
	head = append(head, byte(len(p.Mandatory)), byte(len(p.Advisory)))
	params := append(append([]Param(nil), p.Mandatory...), p.Advisory...)
	for _, q := range params {
		head = append(head, byte(len(q.Name)), byte(len(q.Value)))
	}
	for _, q := range params {
		head = append(append(head, q.Name...), q.Value...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, head...)
	const chunk = 32 << 10
	for rest := p.Payload; len(rest) > 0; {
		n := min(len(rest), chunk)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b, rest = append(b, rest[:n]...), rest[n:]
	}
	return append(b, 0, 0, 0, 0)
}

// ParseBundle2 reads an uncompressed bundle2 stream to its end. An interrupting
// part is returned where it stands, before the part it interrupts.
func ParseBundle2(data []byte) ([]Part, error) {
	r := bytes.NewReader(data)
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil || string(magic[:]) != bundle2Magic {
		return nil, fmt.Errorf("not a bundle2 stream: %.40q", data)
	}
	if _, err := sized(r); err != nil {
		return nil, fmt.Errorf("stream parameters: %w", err)
	}
	var parts []Part
	for {
		head, err := sized(r)
		if err != nil {
			return parts, fmt.Errorf("part %d: %w", len(parts), err)
		}
		if len(head) == 0 {
			return parts, nil
		}
		if parts, err = parsePart(r, head, parts); err != nil {
			return parts, err
		}
	}
}

// parsePart appends the part with this header, and before it those that
// interrupt its payload.
func parsePart(r *bytes.Reader, head []byte, parts []Part) ([]Part, error) {
	p, err := parseHead(head)
	if err != nil {
		return parts, err
	}
	for {
		var n int32
		if err := binary.Read(r, binary.BigEndian, &n); err != nil {
			return parts, fmt.Errorf("payload of %s: %w", p.Type, err)
		}
		switch {
		case n == 0:
			return append(parts, p), nil
		case n == -1:
			inner, err := sized(r)
			if err != nil {
				return parts, err
			}
			if parts, err = parsePart(r, inner, parts); err != nil {
				return parts, err
			}
		case n < 0 || int(n) > r.Len():
			return parts, fmt.Errorf("payload of %s: chunk of %d bytes", p.Type, n)
		default:
			chunk := make([]byte, n)
			if _, err := io.ReadFull(r, chunk); err != nil {
				return parts, err
			}
			p.Payload = append(p.Payload, chunk...)
		}
	}
}

func parseHead(head []byte) (p Part, err error) {
	r := bytes.NewReader(head)
	take := func(n int) string {
		b := make([]byte, n)
		if _, e := io.ReadFull(r, b); e != nil && err == nil {
			err = fmt.Errorf("part header %q: %w", head, e)
		}
		return string(b)
	}
	p.Type = take(int(take(1)[0]))
	take(4) // the part's id, which the order tells too
	counts := take(2)
	sizes := take(2 * (int(counts[0]) + int(counts[1])))
	for i := 0; i < len(sizes) && err == nil; i += 2 {
		q := Param{take(int(sizes[i])), take(int(sizes[i+1]))}
		if i/2 < int(counts[0]) {
			p.Mandatory = append(p.Mandatory, q)
		} else {
			p.Advisory = append(p.Advisory, q)
		}
	}
	return p, err
}

// sized reads a 32-bit length and as many bytes.
func sized(r *bytes.Reader) ([]byte, error) {
	var n uint32
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return nil, err
	}
	if n > maxPayload || int(n) > r.Len() {
		return nil, fmt.Errorf("length %d with %d bytes left: %w", n, r.Len(), io.ErrUnexpectedEOF)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return b, err
}

// ReplyCaps is what hg 6.3 says of itself when it pushes.
const ReplyCaps = "HG20\nbookmarks\nchangegroup=01,02,03\ndigests=md5,sha1,sha512\n" +
	"error=abort,unsupportedcontent,pushraced,pushkey\nhgtagsfnodes\nlistkeys\nphases=heads\npushkey\nstream=v2"

// PushParts are the parts of an ordinary push: reply capabilities, the check
// that the heads it updates are still heads (none if it updates none), and the
// changegroup.
func PushParts(updates []hg.Node, changegroup []byte) []Part {
	parts := []Part{{Type: "replycaps", Payload: []byte(ReplyCaps)}}
	if len(updates) > 0 {
		parts = append(parts, Part{Type: "CHECK:UPDATED-HEADS", Payload: concat(updates)})
	}
	return append(parts, Part{Type: "CHANGEGROUP", Mandatory: []Param{{"version", "02"}}, Payload: changegroup})
}

func concat(nodes []hg.Node) []byte {
	var b []byte
	for _, n := range nodes {
		b = append(b, n[:]...)
	}
	return b
}

// Changegroup returns version 02 of the changegroup, as hg makes it, with the
// ancestors of revs that are not ancestors of bases; no bases means everything.
func (h *HG) Changegroup(revs string, bases ...string) []byte {
	h.t.Helper()
	return changegroup(h.t, h.Run, revs, bases)
}

// Changegroup is as that of HG.
func (s *Session) Changegroup(revs string, bases ...string) []byte {
	s.t.Helper()
	return changegroup(s.t, s.Run, revs, bases)
}

func changegroup(t testing.TB, run func(...string) string, revs string, bases []string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle")
	args := []string{"bundle", "-q", "-t", "none-v2", "-r", revs}
	if len(bases) == 0 {
		bases = []string{"null"}
	}
	for _, b := range bases {
		args = append(args, "--base", b)
	}
	run(append(args, file)...)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := ParseBundle2(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if strings.EqualFold(p.Type, "changegroup") {
			return p.Payload
		}
	}
	t.Fatal("bundle without a changegroup")
	return nil
}

// A Reply is a server's decoded answer to unbundle.
type Reply struct {
	Return int    // of the changegroup: heads added + 1, or heads removed - 1; 0 for no changegroup
	Output string // what the user is shown
	Error  string // type of the error part, as abort or pushraced; empty if there is none
	Reason string // message of the error; for unsupportedcontent the part and its parameters
}

// ParseReply decodes the answer to a bundle2 push.
func ParseReply(a *Answer) (Reply, error) {
	var r Reply
	data, err := a.Payload()
	if err != nil {
		return r, err
	}
	parts, err := ParseBundle2(data)
	if err != nil {
		return r, fmt.Errorf("status %d: %w", a.Status, err)
	}
	for _, p := range parts {
		switch kind := strings.ToLower(p.Type); {
		case kind == "output":
			r.Output += string(p.Payload)
		case kind == "reply:changegroup":
			v, _ := p.Param("return")
			if _, err := fmt.Sscan(v, &r.Return); err != nil {
				return r, fmt.Errorf("reply:changegroup with return %q", v)
			}
		case strings.HasPrefix(kind, "error:"):
			r.Error = strings.TrimPrefix(kind, "error:")
			r.Reason = reason(&p)
		}
	}
	return r, nil
}

func reason(p *Part) string {
	if message, ok := p.Param("message"); ok {
		return message
	}
	kind, _ := p.Param("parttype")
	params, _ := p.Param("params")
	return strings.TrimSpace(kind + " " + strings.ReplaceAll(params, "\x00", " "))
}

// ChangelogNodes returns the changesets of a changegroup of version 02, in its
// order.
func ChangelogNodes(changegroup []byte) ([]hg.Node, error) {
	var nodes []hg.Node
	r := bytes.NewReader(changegroup)
	for {
		var size uint32
		if err := binary.Read(r, binary.BigEndian, &size); err != nil {
			return nil, err
		}
		if size == 0 {
			return nodes, nil
		}
		if int64(size) > int64(r.Len())+4 || size < 4+hg.NodeLen {
			return nil, fmt.Errorf("chunk of %d bytes with %d left", size, r.Len())
		}
		chunk := make([]byte, size-4)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, err
		}
		nodes = append(nodes, hg.Node(chunk[:hg.NodeLen]))
	}
}
