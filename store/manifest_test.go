package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"vcsd/hg"
)

func line(path string, node byte, flag string) string {
	return path + "\x00" + strings.Repeat(fmt.Sprintf("%02x", node), hg.NodeLen) + flag + "\n"
}

func collect(into *[]string) func(ManifestEntry) error {
	return func(e ManifestEntry) error {
		s := fmt.Sprintf("%s %02x", e.Path, e.Node[0])
		if e.Flag != 0 {
			s += string(e.Flag)
		}
		*into = append(*into, s)
		return nil
	}
}

func TestEntries(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // entries, or "bad"
	}{
		{"empty", "", ""},
		{"one", line("a", 1, ""), "a 01"},
		{"flags", line("a", 1, "x") + line("b", 2, "l"), "a 01x,b 02l"},
		{"directory after file of the same beginning", line("a", 1, "") + line("a-b", 2, "") + line("a/b", 3, ""), "a 01,a-b 02,a/b 03"},
		{"no newline", strings.TrimSuffix(line("a", 1, ""), "\n"), "bad"},
		{"empty line", line("a", 1, "") + "\n", "bad"},
		{"empty path", line("", 1, ""), "bad"},
		{"unordered", line("b", 1, "") + line("a", 2, ""), "bad"},
		{"twice", line("a", 1, "") + line("a", 2, ""), "bad"},
		{"tree", line("a", 1, "t"), "bad"},
		{"unknown flag", line("a", 1, "q"), "bad"},
		{"two flags", line("a", 1, "xl"), "bad"},
		{"short node", "a\x00" + strings.Repeat("0", 39) + "\n", "bad"},
		{"no node", "a\n", "bad"},
		{"not hexadecimal", "a\x00" + strings.Repeat("g", 40) + "\n", "bad"},
	}
	for _, tt := range tests {
		var got []string
		err := Entries([]byte(tt.text), collect(&got))
		if tt.want == "bad" {
			if !errors.Is(err, ErrBadManifest) {
				t.Errorf("%s: %v, want ErrBadManifest", tt.name, err)
			}
			continue
		}
		if s := strings.Join(got, ","); err != nil || s != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, s, err, tt.want)
		}
	}
	stop := errors.New("stop")
	if err := Entries([]byte(line("a", 1, "")), func(ManifestEntry) error { return stop }); err != stop {
		t.Errorf("the error of yield came back as %v", err)
	}
	if err := CheckManifest([]byte(line(".hg/x", 1, ""))); err == nil {
		t.Error("CheckManifest takes .hg/x")
	}
}

// A model is a manifest as a map from path to the rest of its line.
type model map[string]string

func (m model) text() []byte {
	var b []byte
	for _, p := range slices.Sorted(maps.Keys(m)) {
		b = append(b, p+"\x00"+m[p]+"\n"...)
	}
	return b
}

func drawModel(t *rapid.T, name string) model {
	m := make(model)
	for range rapid.IntRange(0, 8).Draw(t, name) {
		p := rapid.SampledFrom([]string{"a", "ab", "a/b", "b", "c", "c.d", "d", "x/y/z", "zz"}).Draw(t, "path")
		m[p] = line("", rapid.ByteRange(1, 3).Draw(t, "node"), rapid.SampledFrom([]string{"", "x", "l"}).Draw(t, "flag"))[1:]
		m[p] = strings.TrimSuffix(m[p], "\n")
	}
	return m
}

// lines returns the lines of text that base does not have.
func newLines(base, text []byte) []string {
	var added []string
	old := strings.SplitAfter(string(base), "\n")
	for l := range strings.SplitAfterSeq(string(text), "\n") {
		if l != "" && !slices.Contains(old, l) {
			added = append(added, l)
		}
	}
	return added
}

// remake turns entries back into lines.
func remake(into *[]string) func(ManifestEntry) error {
	return func(e ManifestEntry) error {
		l := string(e.Path) + "\x00" + e.Node.String()
		if e.Flag != FlagNone {
			l += string(e.Flag)
		}
		*into = append(*into, l+"\n")
		return nil
	}
}

func TestAddedEntriesAndFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawModel(t, "a"), drawModel(t, "b")
		var got []string
		if err := AddedEntries(a.text(), b.text(), remake(&got)); err != nil {
			t.Fatal(err)
		}
		if want := newLines(a.text(), b.text()); !slices.Equal(got, want) {
			t.Fatalf("added from %q to %q: %q, want %q", a.text(), b.text(), got, want)
		}
		p := rapid.SampledFrom([]string{"a", "a/b", "b", "c.d", "zz", "", "zzz"}).Draw(t, "find")
		e, ok, err := FindEntry(b.text(), p)
		rest, want := b[p]
		if err != nil || ok != want || ok && e.Node.String() != rest[:hg.NodeHexLen] {
			t.Fatalf("FindEntry(%q) = %v, %v, %v, want %q, %v", p, e, ok, err, rest, want)
		}
	})
}

// makeDelta returns a delta of hunks that replace base[start:end].
type testHunk struct {
	start, end int
	data       string
}

func makeDelta(hunks []testHunk) []byte {
	var d []byte
	for _, h := range hunks {
		for _, n := range []int{h.start, h.end, len(h.data)} {
			d = binary.BigEndian.AppendUint32(d, uint32(n))
		}
		d = append(d, h.data...)
	}
	return d
}

func applyHunks(base []byte, hunks []testHunk) []byte {
	var b []byte
	at := 0
	for _, h := range hunks {
		b = append(append(b, base[at:h.start]...), h.data...)
		at = h.end
	}
	return append(b, base[at:]...)
}

// drawHunks draws a delta whose hunks begin and end anywhere, or at lines.
func drawHunks(t *rapid.T, base []byte, other model, linewise bool) []testHunk {
	cuts := []int{0}
	for i := range base {
		if !linewise || base[i] == '\n' {
			cuts = append(cuts, i+1)
		}
	}
	lines := strings.SplitAfter(string(other.text()), "\n")
	n := rapid.IntRange(0, 3).Draw(t, "hunks")
	var ends []int
	for range 2 * n {
		ends = append(ends, rapid.SampledFrom(cuts).Draw(t, "cut"))
	}
	slices.Sort(ends)
	var hunks []testHunk
	for i := range n {
		data := rapid.SampledFrom(lines).Draw(t, "data")
		if !linewise && rapid.Bool().Draw(t, "cut data") {
			data = data[:rapid.IntRange(0, len(data)).Draw(t, "length")]
		}
		hunks = append(hunks, testHunk{ends[2*i], ends[2*i+1], data})
	}
	return hunks
}

// TestTouchedEntries holds it to its promise for deltas of any kind: if it
// finds nothing wrong then the text is a manifest, and it handed out all lines
// that the base does not have.
func TestTouchedEntries(t *testing.T) {
	sound := 0
	rapid.Check(t, func(t *rapid.T) {
		base := drawModel(t, "base").text()
		linewise := rapid.Bool().Draw(t, "linewise")
		hunks := drawHunks(t, base, drawModel(t, "other"), linewise)
		text, d := applyHunks(base, hunks), makeDelta(hunks)
		var got []string
		err := TouchedEntries(text, d, remake(&got))
		whole := Entries(text, func(ManifestEntry) error { return nil })
		if (err == nil) != (whole == nil) {
			t.Fatalf("base %q text %q: %v, but the whole text: %v", base, text, err, whole)
		}
		if err != nil {
			return
		}
		sound++
		for _, l := range newLines(base, text) {
			if !slices.Contains(got, l) {
				t.Fatalf("base %q text %q: line %q was not handed out", base, text, l)
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("handed out %q", got)
		}
	})
	if sound < 20 {
		t.Errorf("only %d sound texts were drawn", sound)
	}
}

// TestTouchedEntriesCutLine shows the trap: a hunk that ends within a line of
// the base makes a name of that line's end.
func TestTouchedEntriesCutLine(t *testing.T) {
	base := []byte(line("a", 1, "") + line("foo.hg/x", 2, ""))
	at := len(line("a", 1, ""))
	hunks := []testHunk{{0, at + len("foo"), ""}}
	var got []string
	if err := TouchedEntries(applyHunks(base, hunks), makeDelta(hunks), collect(&got)); err != nil {
		t.Fatal(err)
	}
	if want := []string{".hg/x 02"}; !slices.Equal(got, want) {
		t.Errorf("handed out %q, want %q", got, want)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(line("a", 1, "")+line("b", 2, "x")), makeDelta([]testHunk{{0, 0, line("a", 1, "")}}))
	f.Add([]byte("a\x00"), []byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, text, delta []byte) {
		var lines []string
		if Entries(text, remake(&lines)) == nil && !bytes.EqualFold([]byte(strings.Join(lines, "")), text) {
			t.Errorf("%q comes back as %q", text, lines)
		}
		nothing := func(ManifestEntry) error { return nil }
		TouchedEntries(text, delta, nothing)
		AddedEntries(text, delta, nothing)
		AddedEntries(delta, text, nothing)
		FindEntry(text, "a")
		CheckManifest(text)
	})
}

func TestSplitFileText(t *testing.T) {
	const node = "0123456789abcdef0123456789abcdef01234567"
	tests := []struct {
		name, text, data string
		copied           string
	}{
		{"plain", "data\n", "data\n", ""},
		{"empty", "", "", ""},
		{"copy", "\x01\ncopy: dir/a\ncopyrev: " + node + "\n\x01\ndata", "data", "dir/a"},
		{"escaped data", "\x01\n\x01\n\x01\ndata", "\x01\ndata", ""},
		{"copy without rev", "\x01\ncopy: a\n\x01\ndata", "data", ""},
		{"rev without copy", "\x01\ncopyrev: " + node + "\n\x01\ndata", "data", ""},
		{"copy of a bad rev", "\x01\ncopy: a\ncopyrev: 12\n\x01\n", "", ""},
		{"no end", "\x01\ncopy: a\n", "\x01\ncopy: a\n", ""},
		{"mark alone", "\x01\n", "\x01\n", ""},
	}
	for _, tt := range tests {
		meta, data := SplitFileText([]byte(tt.text))
		c, ok := ParseCopy(meta)
		if string(data) != tt.data || string(c.Path) != tt.copied || ok != (tt.copied != "") || ok && c.Node.String() != node {
			t.Errorf("%s: %q: data %q copied from %q %v", tt.name, tt.text, data, c.Path, ok)
		}
	}
}

func FuzzSplitFileText(f *testing.F) {
	f.Add([]byte("\x01\ncopy: a\ncopyrev: 0\n\x01\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		meta, data := SplitFileText(text)
		ParseCopy(meta)
		if len(data) < len(text) && len(meta)+len(data)+2*len(metaMark) != len(text) {
			t.Errorf("%q: %q and %q", text, meta, data)
		}
	})
}

func bigManifest(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	m := make(model)
	for i := range n {
		m[fmt.Sprintf("src/dir%03d/file%05d.c", i%100, i)] = strings.TrimSuffix(line("", byte(rng.IntN(256)), "")[1:], "\n")
	}
	return m.text()
}

func BenchmarkTouchedEntries(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			base := bigManifest(n)
			at := bytes.IndexByte(base[len(base)/2:], '\n') + len(base)/2 + 1
			l := lineLen(base[at:])
			changed := bytes.Replace(base[at:at+l], []byte{0}, []byte("\x00"), 1)
			hunks := []testHunk{{at, at + l, string(changed)}}
			text, d := applyHunks(base, hunks), makeDelta(hunks)
			b.ReportAllocs()
			for b.Loop() {
				if err := TouchedEntries(text, d, func(ManifestEntry) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEntries(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			text := bigManifest(n)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Entries(text, func(ManifestEntry) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
