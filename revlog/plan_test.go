package revlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// TestPlanGroup commits three pushes at once: two that were staged beside one
// another and share revisions, and one that builds on neither.
func TestPlanGroup(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 5))
			b := newBuilder(shape.inline, shape.generalDelta).history(rng, 20)
			files := b.files()
			open := Options{Mapped: shape.mapped}
			s, err := openFake(t, files, open)
			if err != nil {
				t.Fatal(err)
			}
			shared := newPush(b).grow(rng, 10)
			pushes := []*push{shared, fork(shared).grow(rng, 30), fork(shared).grow(rng, 30)}
			segs := make([]*memSegment, len(pushes))
			stagers := make([]*Stager, len(pushes))
			for i, p := range pushes {
				segs[i] = &memSegment{b: []byte("what another log has in the segment")}
				stagers[i] = p.stage(t, s, segs[i], StageOptions{Sparse: true, Engine: chunk.Zlib})
			}
			plan := planGroup(t, s, segs, stagers)
			if again := planGroup(t, s, segs, stagers); !reflect.DeepEqual(plan, again) {
				t.Error("the same revisions make another plan")
			}
			applyPlan(t, files, plan, segs...)
			after, err := openFake(t, files, open)
			if err != nil {
				t.Fatal(err)
			}
			if got := after.Size(); got != plan.Size {
				t.Errorf("size is %+v, planned was %+v", got, plan.Size)
			}
			for _, p := range pushes {
				checkHas(t, after, p.texts)
			}
		})
	}
}

// fork returns a push that begins with the revisions of p.
func fork(p *push) *push {
	q := &push{nodes: append([]hg.Node{}, p.nodes...), revs: append([]bundleRev{}, p.revs...), texts: map[hg.Node][]byte{}}
	for n, text := range p.texts {
		q.texts[n] = text
	}
	return q
}

func checkHas(t *testing.T, s *Snapshot, texts map[hg.Node][]byte) {
	t.Helper()
	for node, want := range texts {
		rev, ok := s.Rev(node)
		if !ok {
			t.Fatalf("node %v is not in the log", node)
		}
		if got, err := s.Text(rev); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("text of rev %d = %q, %v; want %q", rev, got, err, want)
		}
	}
}

func planGroup(t *testing.T, s *Snapshot, segs []*memSegment, stagers []*Stager) Plan {
	t.Helper()
	p := NewPlanner(s, PlanOptions{
		Engine: chunk.Zlib,
		Chunk: func(seg SegmentID, off int64, n int) ([]byte, error) {
			return segs[seg].chunk(seg, off, n)
		},
		Text: func(seg SegmentID, node hg.Node) ([]byte, error) { return stagers[seg].Text(node) },
	})
	for seg, st := range stagers {
		for _, g := range st.Staged() {
			want, known := p.Rev(g.Node)
			rev, added, err := p.Add(SegmentID(seg), g, 3)
			if err != nil {
				t.Fatal(err)
			}
			if known == added || known && rev != want || added && int(rev) != p.Len()-1 {
				t.Fatalf("Add = %d, %v; the node was known: %v, as %d", rev, added, known, want)
			}
		}
	}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestPlanPreviousTaken commits into a log without general delta after somebody
// else: the staged delta's base is not the previous revision any more.
func TestPlanPreviousTaken(t *testing.T) {
	b := newBuilder(false, false)
	text := []byte(strings.Repeat("a line that everybody has\n", 20))
	root := b.add(text, -1, -1, 0)
	files := b.files()
	s, err := openFake(t, files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var segs []*memSegment
	var stagers []*Stager
	texts := map[hg.Node][]byte{root: text}
	for _, line := range []string{"mine\n", "yours\n"} {
		seg := &memSegment{}
		st := NewStager(s, seg, StageOptions{})
		p1, old := root, text
		for range 3 {
			next := append(bytes.Clone(old), line...)
			in, d := incoming(p1, hg.NullNode, p1, old, next)
			if _, _, err := st.Add(in, d); err != nil {
				t.Fatal(err)
			}
			texts[in.Node] = next
			p1, old = in.Node, next
		}
		segs, stagers = append(segs, seg), append(stagers, st)
	}
	applyPlan(t, files, planGroup(t, s, segs, stagers), segs...)
	after, err := openFake(t, files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkHas(t, after, texts)
	var full []hg.Rev
	for rev := range hg.Rev(after.Len()) {
		if after.DeltaBase(rev) == rev {
			full = append(full, rev)
		}
	}
	// Only the first of the second push needs a full text.
	if want := []hg.Rev{0, 4}; !reflect.DeepEqual(full, want) {
		t.Errorf("full texts are revs %v, want %v", full, want)
	}
	p := NewPlanner(after, PlanOptions{})
	g := stagers[0].Staged()[0]
	g.Node = hg.Node{1}
	if _, _, err := p.Add(0, g, 0); err == nil {
		t.Error("a delta against another than the previous revision was planned without a text")
	}
}

// TestPlanReplacedBase has a base that the log got as a tombstone meanwhile.
func TestPlanReplacedBase(t *testing.T) {
	files := map[string][]byte{}
	s, err := openFake(t, files, Options{Inline: true, GeneralDelta: true})
	if err != nil {
		t.Fatal(err)
	}
	old := []byte(strings.Repeat("text\n", 20))
	next := append(bytes.Clone(old), "more\n"...)
	in, d := incoming(hg.NullNode, hg.NullNode, hg.NullNode, nil, old)
	in2, d2 := incoming(in.Node, hg.NullNode, in.Node, old, next)
	segs := []*memSegment{{}, {}}
	stagers := []*Stager{NewStager(s, segs[0], StageOptions{}), NewStager(s, segs[1], StageOptions{})}
	if _, _, err := stagers[0].Add(Incoming{Node: in.Node, Flags: hg.FlagCensored}, delta.Full([]byte(tombstone))); err != nil {
		t.Fatal(err)
	}
	for _, r := range []bundleRev{{in, d}, {in2, d2}} {
		if _, _, err := stagers[1].Add(r.Incoming, r.delta); err != nil {
			t.Fatal(err)
		}
	}
	applyPlan(t, files, planGroup(t, s, segs, stagers), segs...)
	after, err := openFake(t, files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkHas(t, after, map[hg.Node][]byte{in.Node: []byte(tombstone), in2.Node: next})
}

func TestPlanErrors(t *testing.T) {
	s := newBuilder(true, true).open(t, Options{Inline: true, GeneralDelta: true})
	node, other := hg.Node{1}, hg.Node{2}
	for _, tt := range []struct {
		name string
		st   Staged
		want any
	}{
		{"unknown p1", Staged{Node: node, P1: other, Base: node}, new(*MissingError)},
		{"unknown p2", Staged{Node: node, P2: other, Base: node}, new(*MissingError)},
		{"unknown base", Staged{Node: node, Base: other}, new(*MissingError)},
	} {
		p := NewPlanner(s, PlanOptions{})
		if _, _, err := p.Add(0, tt.st, 0); !errors.As(err, tt.want) {
			t.Errorf("%s: err = %v, want %T", tt.name, err, tt.want)
		}
	}
	p := NewPlanner(s, PlanOptions{})
	if plan, err := p.Plan(); err != nil || len(plan.Writes) != 0 || plan.Size != s.Size() {
		t.Errorf("plan of nothing = %+v, %v", plan, err)
	}
	if _, _, err := p.Add(0, Staged{Node: node, Base: node, TextLen: 1 << 31}, 0); !errors.Is(err, hg.ErrTooLarge) {
		t.Errorf("text of 2 GiB: err = %v, want %v", err, hg.ErrTooLarge)
	}
}

// TestPlanSplit plans around the length at which hg gives up the inline form.
func TestPlanSplit(t *testing.T) {
	const split = 131072
	for _, tt := range []struct {
		name   string
		inline bool
		have   int // bytes of data before
		add    []int
		want   string // writes: kind, file and offset; then the size
	}{
		{"new and short", true, 0, []int{10, split - 11}, "append .i 0; inline"},
		{"new and long", true, 0, []int{10, split - 10}, "append .d 0; append .i 0; split"},
		{"new, long, then short", true, 0, []int{split, 10}, "append .d 0; append .i 0; split"},
		{"grows", true, 100, []int{split - 101}, "append .i 164; inline"},
		{"outgrows", true, 100, []int{split - 100}, "split .i 164; append .d 100; append .i 64; split"},
		{"is split", false, 100, []int{10}, "append .d 100; append .i 64; split"},
		{"is split, no data", false, 100, []int{0}, "append .i 64; split"},
		{"new, never inline", false, 0, []int{10}, "append .d 0; append .i 0; split"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBuilder(tt.inline, true)
			files := map[string][]byte{}
			if tt.have > 0 {
				b.addRaw(entryFields{TextLen: int32(tt.have - 1), P1: -1, P2: -1, Node: hg.Node{1}}, rawOf(tt.have))
				files = b.files()
			}
			s, err := openFake(t, files, Options{Inline: tt.inline, GeneralDelta: true})
			if err != nil {
				t.Fatal(err)
			}
			seg := &memSegment{}
			var staged []Staged
			for i, n := range tt.add {
				off, _ := seg.Append(rawOf(n))
				node := hg.Node{2, byte(i)}
				staged = append(staged, Staged{Node: node, Base: node, Offset: off, Length: n, TextLen: int64(max(n-1, 0))})
			}
			plan := planAll(t, s, seg, staged, func(hg.Node) hg.Rev { return 0 })
			if got := describe(plan); got != tt.want {
				t.Errorf("plan is %q, want %q", got, tt.want)
			}
			applyPlan(t, files, plan, seg)
			after, err := openFake(t, files, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := after.Size(); got != plan.Size {
				t.Errorf("size is %+v, planned was %+v", got, plan.Size)
			}
			for rev := range hg.Rev(after.Len()) {
				if c, err := after.Chunk(rev); err != nil || int64(len(c)) != after.ChunkLen(rev) {
					t.Errorf("chunk of rev %d: %d bytes, %v", rev, len(c), err)
				}
			}
		})
	}
}

func rawOf(n int) []byte {
	if n == 0 {
		return nil
	}
	return append([]byte{'u'}, make([]byte, n-1)...)
}

func describe(plan Plan) string {
	var out []string
	for _, w := range plan.Writes {
		out = append(out, fmt.Sprintf("%v %s %d", w.Kind, strings.TrimPrefix(w.Path, "log"), w.Offset))
	}
	if plan.Size.Inline {
		return strings.Join(append(out, "inline"), "; ")
	}
	return strings.Join(append(out, "split"), "; ")
}

func TestPlanCoalesces(t *testing.T) {
	s := newBuilder(false, true).open(t, Options{GeneralDelta: true})
	p := NewPlanner(s, PlanOptions{})
	for i, at := range []struct {
		seg SegmentID
		off int64
	}{{0, 100}, {0, 110}, {1, 120}, {1, 130}, {0, 150}} {
		node := hg.Node{byte(i + 1)}
		if _, _, err := p.Add(at.seg, Staged{Node: node, Base: node, Offset: at.off, Length: 10}, 0); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	want := []Part{{Segment: 0, Offset: 100, Length: 20}, {Segment: 1, Offset: 120, Length: 20}, {Segment: 0, Offset: 150, Length: 10}}
	if got := plan.Writes[0].Parts; !reflect.DeepEqual(got, want) {
		t.Errorf("parts are %+v, want %+v", got, want)
	}
}

func TestSplitInlineErrors(t *testing.T) {
	b := newBuilder(true, true).history(rand.New(rand.NewPCG(1, 1)), 3)
	split := newBuilder(false, true).history(rand.New(rand.NewPCG(1, 1)), 3)
	for name, in := range map[string][]byte{
		"empty": nil, "split already": split.index, "cut": b.index[:len(b.index)-1],
		"other version": append([]byte{0, 1, 0, 2}, b.index[4:]...),
	} {
		if _, _, err := SplitInline(in); !errors.As(err, new(*CorruptError)) {
			t.Errorf("%s: err = %v, want a CorruptError", name, err)
		}
	}
	index, data, err := SplitInline(b.index)
	if err != nil || !bytes.Equal(index, split.index) || !bytes.Equal(data, split.data) {
		t.Errorf("SplitInline differs from the log written split: %v", err)
	}
}

func FuzzSplitInline(f *testing.F) {
	f.Add(newBuilder(true, true).history(rand.New(rand.NewPCG(1, 1)), 5).index)
	f.Fuzz(func(t *testing.T, in []byte) {
		index, data, err := SplitInline(in)
		if err == nil && len(index)+len(data) != len(in) {
			t.Errorf("SplitInline of %d bytes = %d and %d", len(in), len(index), len(data))
		}
	})
}
