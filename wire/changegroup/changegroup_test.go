package changegroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
)

// real returns a changegroup that hg made, in the given version: 01 as it is,
// the others converted.
func real(t testing.TB, v Version) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/none-v1.hg")
	if err != nil {
		t.Fatal(err)
	}
	b = b[len("HG10UN"):]
	if v == V01 {
		return b
	}
	var out bytes.Buffer
	if err := transcode(&out, v, NewReader(bytes.NewReader(b), V01, Limits{})); err != nil {
		t.Fatalf("convert to %s: %v", v, err)
	}
	return out.Bytes()
}

// transcode writes what it reads, in another version.
func transcode(out io.Writer, v Version, r *Reader) error {
	w := NewWriter(out, v)
	for {
		g, err := r.NextGroup()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		if err := start(w, g); err != nil {
			return err
		}
		for {
			h, delta, err := r.NextDelta()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			half := len(delta) / 2
			if err := w.WriteDelta(h, delta[:half], delta[half:]); err != nil {
				return err
			}
		}
		if err := w.EndGroup(); err != nil {
			return err
		}
	}
}

func start(w *Writer, g Group) error {
	switch g.Kind {
	case Changelog:
		return w.StartChangelog()
	case Manifest:
		return w.StartManifest()
	}
	return w.StartFile(g.Path)
}

func TestRoundTrip(t *testing.T) {
	for _, v := range []Version{V01, V02, V03} {
		in := real(t, v)
		var out bytes.Buffer
		r := NewReader(iotest.HalfReader(bytes.NewReader(in)), v, Limits{})
		if err := transcode(&out, v, r); err != nil {
			t.Errorf("version %s: %v", v, err)
		}
		if !bytes.Equal(out.Bytes(), in) {
			t.Errorf("version %s: %d bytes come back as %d, or others", v, len(in), out.Len())
		}
		if r.Offset() != int64(len(in)) || r.Version() != v {
			t.Errorf("version %s: Offset, Version = %d, %s, want %d, %s", v, r.Offset(), r.Version(), len(in), v)
		}
	}
}

func TestGroups(t *testing.T) {
	r := NewReader(bytes.NewReader(real(t, V03)), V03, Limits{})
	var got []string
	for {
		g, err := r.NextGroup() // which skips the deltas
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, g.String())
	}
	want := `changelog manifest file ".hgtags" file "copy" file "dir 1.txt" file "dir 2.txt" ` +
		`file "dir 3.txt" file "dir 4.txt" file "dir 5.txt" file "file"`
	if s := strings.Join(got, " "); s != want {
		t.Errorf("groups\n%s, want\n%s", s, want)
	}
	if _, err := r.NextGroup(); err != io.EOF {
		t.Errorf("NextGroup after the end: %v, want io.EOF", err)
	}
	if _, _, err := r.NextDelta(); err != io.EOF {
		t.Errorf("NextDelta after the end: %v, want io.EOF", err)
	}
}

func n(i byte) hg.Node { return hg.Node{i} }

func TestBaseOfVersion01(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, V01)
	headers := []Header{
		{Node: n(1), P1: n(9), Base: n(9), Link: n(1)},
		{Node: n(2), P1: n(7), P2: n(8), Base: n(1), Link: n(2)},
		{Node: n(3), P1: n(1), Base: n(2), Link: n(3)},
	}
	if err := w.StartManifest(); err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if err := w.WriteDelta(h, []byte("delta")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.EndGroup(), w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := NewReader(&b, V01, Limits{})
	for range 2 {
		if _, err := r.NextGroup(); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range headers {
		h, delta, err := r.NextDelta()
		if err != nil || h != want || string(delta) != "delta" {
			t.Errorf("NextDelta = %+v, %q, %v, want %+v", h, delta, err, want)
		}
	}
}

// chunk returns a chunk with that data.
func chunk(data string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(data)+lengthLen))) + data
}

// length returns a chunk's length alone.
func length(n int32) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

const end = "\x00\x00\x00\x00"

// readAll reads to the end, or the first error.
func readAll(in io.Reader, v Version, lim Limits) error {
	r := NewReader(in, v, lim)
	for {
		if _, err := r.NextGroup(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestMalformed(t *testing.T) {
	const most = math.MaxInt32
	delta := chunk(strings.Repeat("x", headerLen02) + "and a delta")
	for _, tt := range []struct {
		name string
		in   string
		lim  Limits
		want string // of the Abort; the texts are hg's where it has one
		is   error
	}{
		{"length 1", length(1) + end, Limits{}, "invalid chunk length 1", hg.ErrMalformed},
		{"length 3", length(3) + end, Limits{}, "invalid chunk length 3", hg.ErrMalformed},
		{"length 4", length(4) + end, Limits{}, "invalid chunk length 4", hg.ErrMalformed},
		{"negative length", length(-5) + end, Limits{}, "invalid chunk length -5", hg.ErrMalformed},
		{"most negative length", length(math.MinInt32), Limits{}, "invalid chunk length -2147483648", hg.ErrMalformed},
		{"huge length", length(most) + "xx", Limits{MaxChunkBytes: most}, "stream ended unexpectedly (got 2 bytes, expected 2147483643)", io.ErrUnexpectedEOF},
		{"huge length above the limit", length(most) + "xx", Limits{}, "chunk length 2147483647 exceeds the server's limit of 1073741824", hg.ErrTooLarge},
		{"chunk shorter than its header", chunk(strings.Repeat("x", 50)) + end, Limits{}, "invalid chunk length 54", hg.ErrMalformed},
		{"cut in the delta", delta[:110], Limits{}, "stream ended unexpectedly (got 106 bytes, expected 111)", io.ErrUnexpectedEOF},
		{"cut in a length", "\x00\x00", Limits{}, "stream ended unexpectedly (got 2 bytes, expected 4)", io.ErrUnexpectedEOF},
		{"empty", "", Limits{}, "stream ended unexpectedly (got 0 bytes, expected 4)", hg.ErrMalformed},
		{"no manifest", delta + end, Limits{}, "stream ended unexpectedly (got 0 bytes, expected 4)", hg.ErrMalformed},
		{"no files", end + end, Limits{}, "stream ended unexpectedly (got 0 bytes, expected 4)", hg.ErrMalformed},
		{"path too long", end + end + chunk("12345"), Limits{MaxPathBytes: 4}, "path length 5 exceeds the server's limit of 4", hg.ErrTooLarge},
		{"huge path", end + end + length(1<<30), Limits{}, "path length 1073741820 exceeds the server's limit of 65536", hg.ErrTooLarge},
		{"empty path", end + end + length(4) + end + end, Limits{}, "invalid chunk length 4", hg.ErrMalformed},
		{"cut path", end + end + length(10) + "abc", Limits{}, "stream ended unexpectedly (got 3 bytes, expected 6)", io.ErrUnexpectedEOF},
		{"file without deltas", end + end + chunk("f") + end + end, Limits{}, "received file revlog group is empty", hg.ErrMalformed},
	} {
		err := readAll(strings.NewReader(tt.in), V02, tt.lim)
		checkError(t, tt.name, err, tt.want, tt.is)
	}
}

func checkError(t *testing.T, name string, err error, want string, is error) {
	t.Helper()
	abort := (*hg.Abort)(nil)
	if !errors.As(err, &abort) || abort.Message != want || !errors.Is(err, is) {
		t.Errorf("%s: err = %v, want %q and %v", name, err, want, is)
	}
}

func TestTrees(t *testing.T) {
	delta := chunk(strings.Repeat("x", headerLen03))
	const start = end + end
	for _, tt := range []struct {
		name string
		in   string
		lim  Limits
		want string
	}{
		{"no trees", start + end + chunk("f") + delta + end + end, Limits{}, ""},
		{"announced", start + chunk("d/") + delta + end + end + end, Limits{Trees: true}, ""},
		{"not announced", start + chunk("d/") + delta + end + end + end, Limits{}, "bundle contains tree manifests without announcing them"},
		{"no slash", start + chunk("d") + delta + end + end + end, Limits{Trees: true}, `directory "d" lacks the slash at its end`},
		{"empty", start + chunk("d/") + end + end + end, Limits{Trees: true}, "received dir revlog group is empty"},
		{"segment left out", start + chunk("f") + delta + end + end, Limits{}, "bundle contains tree manifests without announcing them"},
	} {
		err := readAll(strings.NewReader(tt.in), V03, tt.lim)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		checkError(t, tt.name, err, tt.want, hg.ErrMalformed)
	}
}

func TestErrorNamesThePlace(t *testing.T) {
	in := real(t, V02)
	err := readAll(bytes.NewReader(in[:1000]), V02, Limits{})
	if want := "changegroup, byte 1000: stream ended unexpectedly"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("err = %v, want %q...", err, want)
	}
	boom := errors.New("connection reset")
	err = readAll(io.MultiReader(bytes.NewReader(in[:1000]), iotest.ErrReader(boom)), V02, Limits{})
	if !errors.Is(err, boom) || errors.Is(err, hg.ErrMalformed) {
		t.Errorf("err = %v, want %v and not hg.ErrMalformed", err, boom)
	}
}

// TestLengthsCostNothing claims 2 GiB and sends little.
func TestLengthsCostNothing(t *testing.T) {
	for _, sent := range []int{0, 100, 200 << 10} {
		in := io.MultiReader(strings.NewReader(length(math.MaxInt32)), bytes.NewReader(make([]byte, sent)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := readAll(in, V02, Limits{MaxChunkBytes: math.MaxInt32})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes sent: err = %v, want io.ErrUnexpectedEOF", sent, err)
		}
		if got, want := after.TotalAlloc-before.TotalAlloc, uint64(512<<10+4*sent); got > want {
			t.Errorf("%d bytes sent: %d bytes allocated, want at most %d", sent, got, want)
		}
	}
}

// TestLargeDelta reads one that takes several steps to arrive, then a small
// one into the same buffer.
func TestLargeDelta(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 50000)
	var b bytes.Buffer
	w := NewWriter(&b, V02)
	if err := w.StartChangelog(); err != nil {
		t.Fatal(err)
	}
	for _, d := range [][]byte{large, []byte("small")} {
		if err := w.WriteDelta(Header{Node: n(1)}, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.EndGroup(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := NewReader(iotest.HalfReader(&b), V02, Limits{})
	if _, err := r.NextGroup(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{string(large), "small"} {
		if _, d, err := r.NextDelta(); err != nil || string(d) != want {
			t.Errorf("NextDelta: %d bytes, %v, want %d", len(d), err, len(want))
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	h := Header{Node: n(1), P1: n(2), Base: n(2)}
	for _, tt := range []struct {
		name string
		v    Version
		do   func(w *Writer) error
		want string
	}{
		{"delta outside a group", V02, func(w *Writer) error { return w.WriteDelta(h) }, "no group is open"},
		{"end outside a group", V02, (*Writer).EndGroup, "no group is open"},
		{"close inside a group", V02, func(w *Writer) error { return errors.Join(w.StartChangelog(), w.Close()) }, "a group is open"},
		{"group inside a group", V02, func(w *Writer) error { return errors.Join(w.StartChangelog(), w.StartManifest()) }, "a group is open"},
		{"manifest before changelog", V02, func(w *Writer) error { return errors.Join(w.StartManifest(), w.EndGroup(), w.StartChangelog()) }, "out of order"},
		{"two manifests", V02, func(w *Writer) error { return errors.Join(w.StartManifest(), w.EndGroup(), w.StartManifest()) }, "out of order"},
		{"empty file", V02, func(w *Writer) error { return errors.Join(w.StartFile("f"), w.EndGroup()) }, "has no delta"},
		{"empty path", V02, func(w *Writer) error { return w.StartFile("") }, "path of 0 bytes"},
		{"flags in 02", V02, func(w *Writer) error {
			return errors.Join(w.StartChangelog(), w.WriteDelta(Header{Flags: hg.FlagCensored}))
		}, "flags 0x8000"},
		{"other base in 01", V01, func(w *Writer) error {
			return errors.Join(w.StartChangelog(), w.WriteDelta(Header{P1: n(1), Base: n(3)}))
		}, "want 01000000"},
		{"other base later in 01", V01, func(w *Writer) error {
			return errors.Join(w.StartChangelog(), w.WriteDelta(h), w.WriteDelta(h))
		}, "want 01000000"},
	} {
		w := NewWriter(io.Discard, tt.v)
		err := tt.do(w)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.want)
		}
		if w.Close() == nil {
			t.Errorf("%s: Close succeeds after the error", tt.name)
		}
	}
}

// failAfter fails the n-th Write.
type failAfter struct{ n int }

var errFull = errors.New("no space")

func (f *failAfter) Write(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterReportsErrors(t *testing.T) {
	in := real(t, V03)
	for n := 0; ; n++ {
		err := transcode(&failAfter{n}, V03, NewReader(bytes.NewReader(in), V03, Limits{}))
		if err == nil {
			if n == 0 {
				t.Error("no Write ever failed")
			}
			return
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("write %d failed: err = %v, want %v", n, err, errFull)
		}
	}
}

func TestAllocations(t *testing.T) {
	const deltas = 2000
	var b bytes.Buffer
	w := NewWriter(&b, V02)
	if err := w.StartChangelog(); err != nil {
		t.Fatal(err)
	}
	delta := make([]byte, 200)
	writing := testing.AllocsPerRun(deltas-1, func() {
		if err := w.WriteDelta(Header{Node: n(1)}, delta, delta); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(w.EndGroup(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := NewReader(&b, V02, Limits{})
	if _, err := r.NextGroup(); err != nil {
		t.Fatal(err)
	}
	reading := testing.AllocsPerRun(deltas-1, func() {
		if _, _, err := r.NextDelta(); err != nil {
			t.Fatal(err)
		}
	})
	if writing >= 1 || reading >= 1 {
		t.Errorf("allocations per delta: %v writing, %v reading, want none", writing, reading)
	}
}

func TestParseVersion(t *testing.T) {
	for _, v := range []Version{V01, V02, V03} {
		if got, ok := ParseVersion(v.String()); !ok || got != v {
			t.Errorf("ParseVersion(%q) = %v, %v, want %v", v.String(), got, ok, v)
		}
	}
	for _, s := range []string{"", "04", "09", "1", "002"} {
		if v, ok := ParseVersion(s); ok {
			t.Errorf("ParseVersion(%q) = %v, want none", s, v)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, v := range []Version{V01, V02, V03} {
		f.Add(uint8(v), real(f, v))
		f.Add(uint8(v), []byte(end+end+end))
		f.Add(uint8(v), []byte(length(-5)))
	}
	f.Fuzz(func(t *testing.T, version uint8, in []byte) {
		v := Version(version%3 + 1)
		r := NewReader(bytes.NewReader(in), v, Limits{})
		var out bytes.Buffer
		if err := transcode(&out, v, r); err != nil {
			return
		}
		if read := in[:r.Offset()]; !bytes.Equal(out.Bytes(), read) {
			t.Errorf("version %s: % x re-encodes as % x", v, read, out.Bytes())
		}
	})
}

func BenchmarkReader(b *testing.B) {
	in := real(b, V02)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if err := readAll(bytes.NewReader(in), V02, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
