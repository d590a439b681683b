package obsmarker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// describe returns m as hg debugobsolete shows it.
func describe(m *Marker) string {
	var b strings.Builder
	b.WriteString(m.Prec.String())
	for _, s := range m.Succs {
		b.WriteString(" " + s.String())
	}
	fmt.Fprintf(&b, " %X", m.Flags)
	if len(m.Parents) > 0 {
		fmt.Fprintf(&b, " {%s}", m.Parents[0])
	}
	zone := time.FixedZone("", -m.Date.Offset)
	b.WriteString(time.Unix(int64(m.Date.Seconds), 0).In(zone).Format(" (Mon Jan 02 15:04:05 2006 -0700) {"))
	for i, e := range m.Meta {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "'%s': '%s'", e.Key, e.Value)
	}
	return strings.ReplaceAll(b.String()+"}\n", "Ä", `\xc3\x84`)
}

// TestReadsStores compares what is read with hg debugobsolete.
func TestReadsStores(t *testing.T) {
	for _, tt := range []struct {
		file    string
		version byte
	}{{"obsstore0", Version0}, {"obsstore1", Version1}} {
		version, markers, err := Decode(read(t, tt.file))
		if err != nil || version != tt.version {
			t.Errorf("%s: version %d, %v, want %d", tt.file, version, err, tt.version)
		}
		var got string
		for i := range markers {
			got += describe(&markers[i])
		}
		if want := string(read(t, tt.file+".txt")); got != want {
			t.Errorf("%s: markers\n%swant\n%s", tt.file, got, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	in := read(t, "obsstore1")
	_, markers, err := Decode(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Encode(markers)
	if err != nil || !bytes.Equal(out, in) {
		t.Errorf("Encode = % x, %v, want % x", out, err, in)
	}
}

// TestVersion0 goes through version 0 and back. hg writes the date as it was
// given, an integer or not, so the bytes are its own only in the main.
func TestVersion0(t *testing.T) {
	for _, file := range []string{"obsstore0", "obsstore1"} {
		_, markers, err := Decode(read(t, file))
		if err != nil {
			t.Fatal(err)
		}
		out := []byte{Version0}
		for i := range markers {
			if out, err = AppendV0(out, &markers[i]); err != nil {
				t.Fatal(err)
			}
		}
		_, again, err := Decode(out)
		if err != nil || len(again) != len(markers) {
			t.Fatalf("%s: %d markers, %v, want %d", file, len(again), err, len(markers))
		}
		for i := range again {
			if again[i].Key() != markers[i].Key() {
				t.Errorf("%s: marker %d = %+v, want %+v", file, i, again[i], markers[i])
			}
		}
	}
}

func node(b byte) hg.Node { return hg.Node{b} }

// fixed returns the start of a marker of version 1.
func fixed(size uint32, date float64, flags Flags, succs, parents, metas byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{Version1}, size)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(date))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(flags))
	return append(b, succs, parents, metas)
}

func TestMalformed(t *testing.T) {
	prec := strings.Repeat("a", 20)
	v1 := func(head []byte, rest ...string) []byte { return append(head, strings.Join(rest, "")...) }
	v0 := func(succs byte, meta uint32, flags byte, rest string) []byte {
		b := binary.BigEndian.AppendUint32([]byte{Version0, succs}, meta)
		return append(append(append(b, flags), prec...), rest...)
	}
	for _, tt := range []struct {
		name string
		in   []byte
		want string
	}{
		{"empty", nil, "no version"},
		{"version 9", []byte("\x09abc"), "parsing obsolete marker: unknown version 9"},
		{"cut in the fixed part", []byte("\x01abc"), "marker is too short, 19 bytes expected, got 3"},
		{"size zero", v1(fixed(0, 1, 0, 0, 3, 0), prec), "marker of 0 bytes, less than 39"},
		{"size below the least", v1(fixed(38, 1, 0, 0, 3, 0), prec), "marker of 38 bytes, less than 39"},
		{"size beyond the end", v1(fixed(200, 1, 0, 0, 3, 0), prec), "200 bytes expected, got 39"},
		{"huge size", v1(fixed(math.MaxUint32, 1, 0, 0, 3, 0), prec), "4294967295 bytes expected, got 39"},
		{"size too large for its content", v1(fixed(42, 1, 0, 0, 3, 0), prec, "xyz"), "3 bytes after the metadata"},
		{"long node cut", v1(fixed(39, 1, UsingSHA256, 0, 3, 0), prec), "list of nodes is too short, 32 bytes expected, got 20"},
		{"successors missing", v1(fixed(39, 1, 0, 255, 3, 0), prec), "list of nodes is too short, 5120 bytes expected, got 20"},
		{"four parents", v1(fixed(119, 1, 0, 0, 4, 0), strings.Repeat(prec, 5)), "4 parents"},
		{"sizes of metadata missing", v1(fixed(39, 1, 0, 0, 3, 9), prec), "metadata is too short, 18 bytes expected, got 0"},
		{"metadata missing", v1(fixed(42, 1, 0, 0, 3, 1), prec, "\x01\x09k"), "metadata is too short, 10 bytes expected, got 1"},
		{"date is no number", v1(fixed(39, math.NaN(), 0, 0, 3, 0), prec), "date NaN"},
		{"date is infinite", v1(fixed(39, math.Inf(-1), 0, 0, 3, 0), prec), "date -Inf"},
		{"0: cut in the fixed part", []byte("\x00abc"), "marker is too short, 26 bytes expected, got 3"},
		{"0: successors missing", v0(2, 0, 0, prec), "list of successors is too short, 40 bytes expected, got 20"},
		{"0: metadata missing", v0(0, 50, 0, "ab:cd"), "parsing obsolete marker: metadata is too short, 50 bytes expected, got 5"},
		{"0: huge metadata", v0(0, math.MaxUint32, 0, "ab:cd"), "4294967295 bytes expected, got 5"},
		{"0: no colon", v0(0, 5, 0, "abxcd"), `metadata "abxcd" lacks a colon`},
		{"0: long nodes", v0(0, 0, 2, ""), "version 0 has no long nodes"},
	} {
		_, _, err := Decode(tt.in)
		abort := (*hg.Abort)(nil)
		if !errors.As(err, &abort) || !strings.Contains(abort.Message, tt.want) || !errors.Is(err, hg.ErrMalformed) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestErrorNamesThePlace(t *testing.T) {
	in := append(read(t, "obsstore1"), "rubbish"...)
	_, _, err := Decode(in)
	if want := fmt.Sprintf("obsmarkers, byte %d:", len(in)-len("rubbish")); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("err = %v, want %q...", err, want)
	}
	n := 0
	for range All(Version1, in[1:], 1) {
		if n++; n == 2 {
			break
		}
	}
}

func TestVersion0Metadata(t *testing.T) {
	p := node(7).String()
	for _, tt := range []struct {
		name, meta string
		want       Marker
	}{
		{"none", "", Marker{}},
		{"date", "date:1500000000.5 -7200", Marker{Date: Date{1500000000.5, -7200}}},
		{"no date", "date:yesterday", Marker{}},
		{"no finite date", "date:inf 0", Marker{}},
		{"no parents", "p0:", Marker{HasParents: true}},
		{"one parent", "p1:" + p, Marker{HasParents: true, Parents: []hg.Node{node(7)}}},
		{"two parents", "p1:" + p + "\x00p2:" + p, Marker{HasParents: true, Parents: []hg.Node{node(7), node(7)}}},
		{"second without first", "p2:" + p, Marker{}},
		{"parent that is none", "p1:xyz", Marker{}},
		{"sorted, the last counts", "b:1\x00a:x:y\x00\x00b:2", Marker{Meta: []Meta{{"a", "x:y"}, {"b", "2"}}}},
	} {
		in := binary.BigEndian.AppendUint32([]byte{Version0, 0}, uint32(len(tt.meta)))
		in = append(append(in, make([]byte, 21)...), tt.meta...)
		_, markers, err := Decode(in)
		if err != nil || len(markers) != 1 || markers[0].Key() != tt.want.Key() {
			t.Errorf("%s: %q reads as %+v, %v, want %+v", tt.name, tt.meta, markers, err, tt.want)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, tt := range []struct {
		name string
		m    Marker
		want string // of AppendV1
		old  string // of AppendV0; empty if it takes the marker
	}{
		{"successors", Marker{Succs: make([]hg.Node, 256)}, "256 successors", "256 successors"},
		{"entries", Marker{Meta: make([]Meta, 256)}, "256 metadata entries", ""},
		{"parents", Marker{HasParents: true, Parents: make([]hg.Node, 3)}, "3 parents", ""},
		{"key", Marker{Meta: []Meta{{long, ""}}}, "key cannot be longer than 255 bytes", ""},
		{"value", Marker{Meta: []Meta{{"k", long}}}, "value cannot be longer than 255 bytes", ""},
		{"zone", Marker{Date: Date{0, 60 * 40000}}, "time zone", ""},
		{"flag without long nodes", Marker{Flags: UsingSHA256}, "flags 0x2", "sha256"},
		{"long nodes without flag", Marker{Long: &LongNodes{}}, "flags 0x0", "sha256"},
	} {
		if _, err := AppendV1(nil, &tt.m); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: AppendV1: err = %v, want %q", tt.name, err, tt.want)
		}
		_, err := AppendV0(nil, &tt.m)
		if (err == nil) != (tt.old == "") || err != nil && !strings.Contains(err.Error(), tt.old) {
			t.Errorf("%s: AppendV0: err = %v, want %q", tt.name, err, tt.old)
		}
	}
	for _, meta := range []Meta{{"a:b", ""}, {"a\x00", ""}, {"a", "\x00"}, {"p1", ""}, {"date", "0 0"}} {
		if _, err := AppendV0(nil, &Marker{Meta: []Meta{meta}}); err == nil {
			t.Errorf("AppendV0 takes metadata %q", meta)
		}
	}
}

func TestLongNodes(t *testing.T) {
	m := Marker{
		Flags: UsingSHA256, HasParents: true,
		Long: &LongNodes{LongNode{1}, []LongNode{{2}, {3}}, []LongNode{{4}}},
	}
	b, err := Encode([]Marker{m})
	if err != nil {
		t.Fatal(err)
	}
	_, got, err := Decode(b)
	if err != nil || len(got) != 1 || got[0].Key() != m.Key() {
		t.Errorf("Decode = %+v, %v, want %+v", got, err, m)
	}
}

func TestKey(t *testing.T) {
	markers := []Marker{
		{},
		{HasParents: true},
		{HasParents: true, Parents: []hg.Node{node(1)}},
		{Succs: []hg.Node{node(1)}},
		{Prec: node(1)},
		{Flags: BumpedFix},
		{Date: Date{1, 0}},
		{Date: Date{0, 60}},
		{Meta: []Meta{{"a", "bc"}}},
		{Meta: []Meta{{"ab", "c"}}},
		{Meta: []Meta{{"ab", ""}, {"c", ""}}},
		{Long: &LongNodes{}, Flags: UsingSHA256},
	}
	seen := map[string]int{}
	for i := range markers {
		if j, ok := seen[markers[i].Key()]; ok {
			t.Errorf("markers %+v and %+v have the same key", markers[i], markers[j])
		}
		seen[markers[i].Key()] = i
	}
}

func TestCheck(t *testing.T) {
	bad := Marker{Succs: []hg.Node{node(1), hg.NullNode}}
	err := bad.Check()
	abort := (*hg.Abort)(nil)
	if want := "bad obsolescence marker detected: invalid successors nullid"; !errors.As(err, &abort) || abort.Message != want {
		t.Errorf("Check = %v, want %q", err, want)
	}
	good := Marker{Succs: []hg.Node{node(1)}}
	if err := good.Check(); err != nil {
		t.Errorf("Check = %v", err)
	}
}

// TestCountsCostNothing claims the most of everything in few bytes.
func TestCountsCostNothing(t *testing.T) {
	in := append(fixed(math.MaxUint32, 1, UsingSHA256, 255, 2, 255), make([]byte, 60)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, _, err := Decode(in); err == nil {
			t.Fatal("Decode succeeds")
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("100 short markers: %d bytes allocated", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(read(f, "obsstore0"))
	f.Add(read(f, "obsstore1"))
	f.Add(fixed(39, 1, 0, 0, 3, 0))
	f.Fuzz(func(t *testing.T, in []byte) {
		version, markers, err := Decode(in)
		if err != nil {
			return
		}
		if n := Whole(version, in[1:]); n != len(in)-1 {
			t.Errorf("% x has whole markers up to %d, want to its end", in, n)
		}
		if version == Version1 {
			out, err := Encode(markers)
			if err != nil || !bytes.Equal(out, in) {
				t.Errorf("% x re-encodes as % x, %v", in, out, err)
			}
			return
		}
		checkVersion0(t, markers)
	})
}

// checkVersion0 wants each marker to survive the way through version 0.
func checkVersion0(t *testing.T, markers []Marker) {
	for i := range markers {
		if slices.ContainsFunc(markers[i].Meta, isReserved) {
			continue // parents that were none left them behind
		}
		out, err := AppendV0([]byte{Version0}, &markers[i])
		if err != nil {
			t.Errorf("AppendV0(%+v): %v", markers[i], err)
			continue
		}
		_, again, err := Decode(out)
		if err != nil || len(again) != 1 {
			t.Errorf("%+v comes back as %+v, %v", markers[i], again, err)
			continue
		}
		if again[0].Key() != markers[i].Key() {
			t.Errorf("%+v comes back as %+v", markers[i], again[0])
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	one := read(b, "obsstore1")
	in := one[:1]
	for range 1000 {
		in = append(in, one[1:]...)
	}
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Decode(in); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHgReads has hg show a store that we wrote, in both versions.
func TestHgReads(t *testing.T) {
	exe, err := exec.LookPath("hg")
	if err != nil {
		t.Fatal(err)
	}
	hgRun := func(args ...string) string {
		cmd := exec.Command(exe, args...)
		cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGENCODING=utf-8")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("hg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	_, markers, err := Decode(read(t, "obsstore1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Append(nil, 2, &markers[0]); err == nil {
		t.Error("Append takes version 2")
	}
	for _, version := range []byte{Version0, Version1} {
		store := []byte{version}
		for i := range markers {
			if store, err = Append(store, version, &markers[i]); err != nil {
				t.Fatal(err)
			}
		}
		repo := t.TempDir()
		hgRun("init", repo)
		if err := os.WriteFile(repo+"/.hg/store/obsstore", store, 0o666); err != nil {
			t.Fatal(err)
		}
		got := hgRun("-R", repo, "--config", "experimental.evolution=all", "debugobsolete")
		if want := string(read(t, "obsstore1.txt")); got != want {
			t.Errorf("version %d: hg debugobsolete shows\n%swant\n%s", version, got, want)
		}
	}
}
