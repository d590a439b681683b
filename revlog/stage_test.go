package revlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// incoming makes a revision with its delta against the text of base.
func incoming(p1, p2, base hg.Node, baseText, text []byte) (Incoming, []byte) {
	return Incoming{Node: hg.HashText(p1, p2, text), P1: p1, P2: p2, Base: base}, delta.Diff(baseText, text)
}

const tombstone = "\x01\ncensored: gone\n\x01\n"

func TestStageRefuses(t *testing.T) {
	b := newBuilder(true, true)
	text := []byte("one\ntwo\n")
	root := b.add(text, -1, -1, 0)
	other := hg.Node{7}
	good, d := incoming(root, hg.NullNode, root, text, []byte("one\n2\n"))
	with := func(f func(*Incoming)) Incoming {
		in := good
		f(&in)
		return in
	}
	for _, tt := range []struct {
		name  string
		in    Incoming
		delta []byte
		kind  Kind
		max   int64
		want  error
		text  string // in the message
	}{
		{"unknown p1", with(func(in *Incoming) { in.P1 = other }), d, Filelog, 99, hg.ErrMalformed, other.String() + ": unknown parent"},
		{"unknown p2", with(func(in *Incoming) { in.P2 = other }), d, Filelog, 99, hg.ErrMalformed, other.String() + ": unknown parent"},
		{"unknown base", with(func(in *Incoming) { in.Base = other }), d, Filelog, 99, hg.ErrMalformed, other.String() + ": unknown delta base"},
		{"null node", with(func(in *Incoming) { in.Node = hg.NullNode }), d, Filelog, 99, hg.ErrMalformed, "can't be stored"},
		{"node of the working directory", with(func(in *Incoming) { in.Node = hg.WorkingNode }), d, Filelog, 99, hg.ErrMalformed, "can't be stored"},
		{"ellipsis", with(func(in *Incoming) { in.Flags = hg.FlagEllipsis }), d, Filelog, 99, hg.ErrMalformed, "ellipsis"},
		{"unknown flag", with(func(in *Incoming) { in.Flags = 1 }), d, Filelog, 99, hg.ErrMalformed, "0x0001"},
		{"censored manifest", with(func(in *Incoming) { in.Flags = hg.FlagCensored }), d, Manifest, 99, hg.ErrMalformed, "outside a file's log"},
		{"external changeset", with(func(in *Incoming) { in.Flags = hg.FlagExtStored }), d, Changelog, 99, hg.ErrMalformed, "outside a file's log"},
		{"other text", good, delta.Diff(text, []byte("one\n3\n")), Filelog, 99, hg.ErrMalformed, "integrity check failed"},
		{"censored, but is not", with(func(in *Incoming) { in.Flags = hg.FlagCensored }), d, Filelog, 99, hg.ErrMalformed, "is not"},
		{"looks censored, but is not", Incoming{Node: hg.HashText(hg.NullNode, hg.NullNode, []byte(tombstone))}, delta.Full([]byte(tombstone)), Filelog, 99, hg.ErrMalformed, "looks censored"},
		{"censored, no tombstone", with(func(in *Incoming) { in.Flags = hg.FlagCensored; in.Node = other }), d, Filelog, 99, hg.ErrMalformed, "integrity check failed"},
		{"tombstone in a manifest", with(func(in *Incoming) { in.Node = other }), delta.Replace(len(text), []byte(tombstone)), Manifest, 99, hg.ErrMalformed, "integrity check failed"},
		{"delta beyond its base", good, delta.Replace(len(text)+1, nil), Filelog, 99, hg.ErrMalformed, "beyond the end"},
		{"delta cut", good, d[:len(d)-1], Filelog, 99, hg.ErrMalformed, "inside a fragment"},
		{"too large", good, d, Filelog, 5, hg.ErrTooLarge, "6 bytes"},
		{"too large full text", with(func(in *Incoming) { in.Base = hg.NullNode }), delta.Full([]byte("one\n2\n")), Filelog, 5, hg.ErrTooLarge, "6 bytes"},
	} {
		seg := &memSegment{}
		st := NewStager(b.open(t, Options{}), seg, StageOptions{Kind: tt.kind, MaxTextBytes: tt.max, Sparse: true})
		_, known, err := st.Add(tt.in, tt.delta)
		if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.text) || known {
			t.Errorf("%s: Add: known = %v, err = %v; want %v with %q", tt.name, known, err, tt.want, tt.text)
		}
		if len(st.Staged()) != 0 || len(seg.b) != 0 || st.HasNode(tt.in.Node) && !tt.in.Node.IsNull() {
			t.Errorf("%s: Add left something behind", tt.name)
		}
		if tt.max < 6 {
			continue
		}
		if text, _, err := st.Add(good, d); err != nil || string(text) != "one\n2\n" {
			t.Errorf("%s: a good revision afterwards = %q, %v", tt.name, text, err)
		}
	}
}

func TestStageKnown(t *testing.T) {
	b := newBuilder(true, true)
	one := []byte("one\n")
	root := b.add(one, -1, -1, 0)
	st := NewStager(b.open(t, Options{}), &memSegment{}, StageOptions{})
	stored := Incoming{Node: root}
	if _, known, err := st.Add(stored, []byte("not even a delta")); !known || err != nil {
		t.Errorf("stored node: known = %v, err = %v; want true", known, err)
	}
	two := []byte("one\ntwo\n")
	in, d := incoming(root, hg.NullNode, root, one, two)
	for i, want := range []bool{false, true} {
		if _, known, err := st.Add(in, d); known != want || err != nil {
			t.Errorf("node sent for time %d: known = %v, err = %v; want %v", i+1, known, err, want)
		}
	}
	for node, want := range map[hg.Node]string{root: "one\n", in.Node: "one\ntwo\n", hg.NullNode: ""} {
		if got, err := st.Text(node); err != nil || string(got) != want || !st.HasNode(node) {
			t.Errorf("Text(%v) = %q, %v; want %q", node, got, err, want)
		}
	}
	if _, err := st.Text(hg.Node{9}); !errors.As(err, new(*MissingError)) {
		t.Errorf("Text of an unknown node: err = %v, want a MissingError", err)
	}
}

func TestStageRawRevisions(t *testing.T) {
	st := NewStager(newBuilder(true, true).open(t, Options{GeneralDelta: true}), &memSegment{}, StageOptions{Sparse: true})
	add := func(in Incoming, d []byte) error {
		t.Helper()
		_, _, err := st.Add(in, d)
		return err
	}
	first, second := hg.Node{1}, hg.Node{2}
	if err := add(Incoming{Node: first}, delta.Full([]byte(tombstone))); err != nil {
		t.Fatalf("tombstone without flag: %v", err)
	}
	if err := add(Incoming{Node: second, P1: first, Base: first, Flags: hg.FlagCensored}, delta.Replace(len(tombstone), []byte(tombstone))); err != nil {
		t.Fatalf("tombstone with flag: %v", err)
	}
	in, _ := incoming(second, hg.NullNode, second, nil, []byte("text\n"))
	err := add(in, append(delta.AppendFragment(nil, delta.Fragment{Start: 0, End: 1}),
		delta.AppendFragment(nil, delta.Fragment{Start: 1, End: len(tombstone), Data: []byte("text\n")})...))
	if !errors.Is(err, errCensorBase) {
		t.Errorf("delta against a tombstone: err = %v, want %v", err, errCensorBase)
	}
	if err := add(in, delta.Replace(len(tombstone), []byte("text\n"))); err != nil {
		t.Errorf("replacement of a tombstone: %v", err)
	}
	ext := Incoming{Node: hg.Node{3}, P1: in.Node, Base: in.Node, Flags: hg.FlagExtStored}
	if err := add(ext, delta.Diff([]byte("text\n"), []byte("text\nversion https://example.org\n"))); err != nil {
		t.Errorf("externally stored: %v", err)
	}
	next, d := incoming(ext.Node, hg.NullNode, ext.Node, []byte("text\nversion https://example.org\n"), []byte("text\nversion https://example.org\n2\n"))
	if err := add(next, d); err != nil {
		t.Errorf("delta against externally stored: %v", err)
	}
	want := []hg.RevFlags{hg.FlagCensored, hg.FlagCensored, 0, hg.FlagExtStored, 0}
	for i, g := range st.Staged() {
		if g.Flags != want[i] {
			t.Errorf("staged %d has flags %#x, want %#x", i, g.Flags, want[i])
		}
		if g.Base != g.Node && i < 4 {
			t.Errorf("staged %d is a delta against %v, want a full text", i, g.Base)
		}
		if i == 4 && g.Base == ext.Node {
			t.Errorf("staged %d is a delta against an externally stored text", i)
		}
	}
}

// A push is a random history that goes on from the revisions of a builder.
type push struct {
	nodes []hg.Node
	texts map[hg.Node][]byte
	revs  []bundleRev
}

func newPush(b *builder) *push {
	p := &push{nodes: append([]hg.Node{}, b.nodes...), texts: map[hg.Node][]byte{hg.NullNode: nil}}
	for i, n := range b.nodes {
		p.texts[n] = b.texts[i]
	}
	return p
}

// grow adds n revisions with edits, merges, empty changes and deltas against
// anything.
func (p *push) grow(rng *rand.Rand, n int) *push {
	pick := func() hg.Node {
		if len(p.nodes) == 0 {
			return hg.NullNode
		}
		return p.nodes[len(p.nodes)-1-rng.IntN(min(len(p.nodes), 12))]
	}
	for range n {
		p1, p2, base := pick(), hg.NullNode, hg.NullNode
		if rng.IntN(6) == 0 {
			p2 = pick()
		}
		if rng.IntN(4) != 0 {
			base = pick()
		}
		text := edited(rng, p.texts[p1])
		in, d := incoming(p1, p2, base, p.texts[base], text)
		if rng.IntN(8) == 0 {
			d = delta.Replace(len(p.texts[base]), text)
		}
		if _, ok := p.texts[in.Node]; ok {
			continue
		}
		p.texts[in.Node] = text
		p.nodes = append(p.nodes, in.Node)
		p.revs = append(p.revs, bundleRev{in, d})
	}
	return p
}

func edited(rng *rand.Rand, text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for range rng.IntN(4) {
		at := rng.IntN(len(lines))
		line := fmt.Appendf(nil, "some text, line %d of %x\n", rng.IntN(100), rng.Uint64())
		if rng.IntN(3) > 0 {
			line = append(line, lines[at]...)
		}
		lines[at] = line
	}
	return bytes.Join(lines, nil)
}

// stage adds the revisions of p and checks the texts.
func (p *push) stage(t *testing.T, s *Snapshot, seg *memSegment, o StageOptions) *Stager {
	t.Helper()
	st := NewStager(s, seg, o)
	for i, r := range p.revs {
		got, known, err := st.Add(r.Incoming, r.delta)
		if err != nil || known || !bytes.Equal(got, p.texts[r.Node]) {
			t.Fatalf("Add of revision %d = %q, %v, %v; want %q", i, got, known, err, p.texts[r.Node])
		}
	}
	for node, want := range p.texts {
		if got, err := st.Text(node); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Text(%v) = %q, %v; want %q", node, got, err, want)
		}
	}
	return st
}

// TestStageKeepsLimits stages random histories in logs of every shape and
// checks what reading them would cost.
func TestStageKeepsLimits(t *testing.T) {
	for _, shape := range shapes {
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 11))
			b := newBuilder(shape.inline, shape.generalDelta)
			if seed > 0 {
				b.history(rng, 30)
			}
			files := b.files()
			o := StageOptions{
				Sparse: seed%2 == 0, Engine: chunk.Zstd, MaxChain: 20,
				CacheBytes: []int64{0, 1, 5000}[seed%3], Kind: Kind(seed % 2),
			}
			open := Options{Mapped: shape.mapped, Inline: shape.inline, GeneralDelta: shape.generalDelta}
			s, err := openFake(t, files, open)
			if err != nil {
				t.Fatal(err)
			}
			seg := &memSegment{}
			p := newPush(b).grow(rng, 150)
			st := p.stage(t, s, seg, o)
			applyPlan(t, files, planAll(t, s, seg, st.Staged(), func(hg.Node) hg.Rev { return 5 }), seg)
			after, err := openFake(t, files, open)
			if err != nil {
				t.Fatal(err)
			}
			checkLimits(t, shape.name, after, s.Len(), p, o)
		}
	}
}

func checkLimits(t *testing.T, name string, s *Snapshot, from int, p *push, o StageOptions) {
	t.Helper()
	if s.Len() != len(p.nodes) {
		t.Fatalf("%s: %d revisions, want %d", name, s.Len(), len(p.nodes))
	}
	for i := from; i < s.Len(); i++ {
		rev := hg.Rev(i)
		text, err := s.Text(rev)
		if err != nil || !bytes.Equal(text, p.texts[p.nodes[i]]) {
			t.Fatalf("%s: text of rev %d = %q, %v; want %q", name, rev, text, err, p.texts[p.nodes[i]])
		}
		if s.DeltaBase(rev) == rev {
			continue
		}
		chain, err := s.ChainLen(rev)
		if err != nil || chain > o.MaxChain {
			t.Errorf("%s: chain of rev %d has %d deltas, %v; want at most %d", name, rev, chain, err, o.MaxChain)
		}
		sum, err := s.ChainBytes(rev)
		if err != nil || sum > 2*int64(len(text)) {
			t.Errorf("%s: chain of rev %d has %d bytes, %v; the text %d", name, rev, sum, err, len(text))
		}
		d, err := s.Delta(rev)
		if err != nil {
			t.Fatal(err)
		}
		base, err := s.Text(s.DeltaBase(rev))
		if err != nil {
			t.Fatal(err)
		}
		if !delta.AlignedToLines(base, d) {
			t.Errorf("%s: delta of rev %d replaces parts of lines", name, rev)
		}
	}
}

// applyPlan does the writes of a plan on files in memory.
func applyPlan(t *testing.T, files map[string][]byte, plan Plan, segs ...*memSegment) {
	t.Helper()
	for _, w := range plan.Writes {
		b := files[w.Path]
		if int64(len(b)) != w.Offset {
			t.Fatalf("%v at %d of %q, which has %d bytes", w.Kind, w.Offset, w.Path, len(b))
		}
		if w.Kind == Split {
			index, data, err := SplitInline(b)
			if err != nil {
				t.Fatal(err)
			}
			files[w.Path], files[strings.TrimSuffix(w.Path, ".i")+".d"] = index, data
			continue
		}
		b = bytes.Clone(b)
		for _, part := range w.Parts {
			if part.Data != nil {
				b = append(b, part.Data...)
			} else {
				b = append(b, segs[part.Segment].b[part.Offset:part.Offset+part.Length]...)
			}
		}
		files[w.Path] = b
	}
	if n := int64(len(files["log.i"])); n != plan.Size.IndexBytes {
		t.Errorf("index has %d bytes, plan says %d", n, plan.Size.IndexBytes)
	}
	if n := int64(len(files["log.d"])); n != plan.Size.DataBytes {
		t.Errorf("data has %d bytes, plan says %d", n, plan.Size.DataBytes)
	}
}

// TestStageMisalignedDelta sees to it that a client's delta is made anew where
// hg could not read it from a manifest.
func TestStageMisalignedDelta(t *testing.T) {
	b := newBuilder(true, true)
	text := []byte(strings.Repeat("a line of text that stays\n", 20))
	root := b.add(text, -1, -1, 0)
	next := bytes.Clone(text)
	next[3] = 'X'
	seg := &memSegment{}
	st := NewStager(b.open(t, Options{}), seg, StageOptions{Kind: Manifest, Sparse: true})
	in := Incoming{Node: hg.HashText(root, hg.NullNode, next), P1: root, Base: root}
	d := delta.AppendFragment(nil, delta.Fragment{Start: 3, End: 4, Data: []byte("X")})
	if _, _, err := st.Add(in, d); err != nil {
		t.Fatal(err)
	}
	stored, err := chunk.Decode(nil, seg.b, 1000)
	if err != nil || bytes.Equal(stored, d) || !delta.AlignedToLines(text, stored) {
		t.Errorf("stored delta is %q, %v; want one of whole lines", stored, err)
	}
}

// TestStageBombs sends deltas that are long for what they do.
func TestStageBombs(t *testing.T) {
	st := NewStager(newBuilder(true, true).open(t, Options{GeneralDelta: true}), &memSegment{}, StageOptions{Sparse: true, Engine: chunk.Zstd})
	in, d := incoming(hg.NullNode, hg.NullNode, hg.NullNode, nil, []byte("a\n"))
	if _, _, err := st.Add(in, d); err != nil {
		t.Fatal(err)
	}
	text := []byte("a\nb\n")
	idle := bytes.Repeat(delta.AppendFragment(nil, delta.Fragment{}), 1<<16)
	bomb := append(idle, delta.AppendFragment(nil, delta.Fragment{Start: 2, End: 2, Data: []byte("b\n")})...)
	in2 := Incoming{Node: hg.HashText(in.Node, hg.NullNode, text), P1: in.Node, Base: in.Node}
	if got, _, err := st.Add(in2, bomb); err != nil || !bytes.Equal(got, text) {
		t.Fatalf("Add = %q, %v", got, err)
	}
	if g := st.Staged()[1]; g.Length > 40 {
		t.Errorf("a delta of idle fragments is stored in %d bytes", g.Length)
	}
}
