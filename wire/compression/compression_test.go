package compression

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
	"vcsd/wire/internal/frame"
)

var all = []Engine{None, Zlib, Zstd, Bzip2}

// compress returns data as the engine compresses it.
func compress(t testing.TB, e Engine, level int, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(e, level, &b)
	if err != nil {
		t.Fatalf("NewWriter(%v, %d): %v", e, level, err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatalf("%v: Write: %v", e, err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("%v: Close: %v", e, err)
	}
	return b.Bytes()
}

func decompress(e Engine, data []byte, limit int64) ([]byte, error) {
	r, err := NewReader(e, bytes.NewReader(data), Limits{MaxBytes: limit})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// sample returns n bytes that compress somewhat.
func sample(n int) []byte {
	rnd := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh\n"[rnd.IntN(9)]
	}
	return b
}

func TestNames(t *testing.T) {
	for _, e := range all {
		if got, ok := FromBundle(e.BundleName()); !ok || got != e {
			t.Errorf("FromBundle(%q) = %v, %v, want %v", e.BundleName(), got, ok, e)
		}
		if got, ok := FromWire(e.WireName()); !ok || got != e {
			t.Errorf("FromWire(%q) = %v, %v, want %v", e.WireName(), got, ok, e)
		}
	}
	if e, ok := FromBundle("XX"); ok {
		t.Errorf("FromBundle(XX) = %v, want none", e)
	}
	if e, ok := FromWire("lzma"); ok {
		t.Errorf("FromWire(lzma) = %v, want none", e)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, e := range all {
		for _, level := range []int{0, 1, 9} {
			for _, n := range []int{0, 1, 1000, 300 << 10} {
				data := sample(n)
				got, err := decompress(e, compress(t, e, level, data), 0)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%v level %d, %d bytes: got %d bytes, %v", e, level, n, len(got), err)
				}
			}
		}
	}
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		e     Engine
		level int
		ok    bool
	}{
		{Zlib, 9, true}, {Zlib, 10, false}, {Zlib, -1, false},
		{Zstd, 22, true}, {Zstd, 23, false},
		{Bzip2, 9, true}, {Bzip2, 10, false},
		{None, 99, true},
	} {
		w, err := NewWriter(tt.e, tt.level, io.Discard)
		if (err == nil) != tt.ok {
			t.Errorf("NewWriter(%v, %d): err = %v, want ok %v", tt.e, tt.level, err, tt.ok)
		}
		if err == nil && w.Close() != nil {
			t.Errorf("%v level %d: Close failed", tt.e, tt.level)
		}
	}
}

// TestReuse puts a decoder that failed back into its pool; the next stream
// must not suffer.
func TestReuse(t *testing.T) {
	for _, e := range all[1:] {
		good := compress(t, e, 0, sample(10000))
		for range 3 {
			if _, err := decompress(e, good[:len(good)/2], 0); err != io.ErrUnexpectedEOF {
				t.Errorf("%v: half a stream: err = %v, want io.ErrUnexpectedEOF", e, err)
			}
			if _, err := decompress(e, []byte("rubbish, certainly"), 0); !errors.Is(err, hg.ErrMalformed) {
				t.Errorf("%v: rubbish: err = %v, want hg.ErrMalformed", e, err)
			}
			got, err := decompress(e, good, 0)
			if err != nil || !bytes.Equal(got, sample(10000)) {
				t.Errorf("%v: after a failure: %d bytes, %v", e, len(got), err)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	for _, e := range all {
		bomb := compress(t, e, 0, make([]byte, 1<<20))
		got, err := decompress(e, bomb, 1000)
		if len(got) != 1000 || !errors.Is(err, hg.ErrTooLarge) {
			t.Errorf("%v: limit 1000: %d bytes, %v, want 1000, hg.ErrTooLarge", e, len(got), err)
		}
		got, err = decompress(e, bomb, 1<<20)
		if len(got) != 1<<20 || err != nil {
			t.Errorf("%v: limit of exactly the size: %d bytes, %v", e, len(got), err)
		}
	}
}

// zeros is n zero bytes to read.
type zeros int64

func (z *zeros) Read(p []byte) (int, error) {
	if *z == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), int64(*z))
	clear(p[:n])
	*z -= zeros(n)
	return int(n), nil
}

// TestExpansion wants bombs to end where a stream of their length has to, and
// what is within the limit to come whole.
func TestExpansion(t *testing.T) {
	const size = 200 << 20
	for _, e := range []Engine{None, Zlib, Zstd, Bzip2} {
		var b bytes.Buffer
		w, err := NewWriter(e, 0, &b)
		if err != nil {
			t.Fatal(err)
		}
		z := zeros(size)
		if _, err := io.CopyBuffer(w, &z, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		packed := int64(b.Len())
		r, err := NewReader(e, &b, Limits{MaxExpansion: PushedExpansion})
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r)
		r.Close()
		most := freeBytes + PushedExpansion*packed
		switch {
		case e == None || most >= size:
			if n != size || err != nil {
				t.Errorf("%v: %d bytes from %d: %d came, %v; want all", e, size, packed, n, err)
			}
		case n > most || !errors.Is(err, hg.ErrTooLarge):
			t.Errorf("%v: %d bytes from %d: %d came, %v; want at most %d and hg.ErrTooLarge", e, size, packed, n, err, most)
		}
	}
}

// TestRemaining wants a stream from a file to know its end, unless that is one
// of the compressed bytes.
func TestRemaining(t *testing.T) {
	for _, tt := range []struct {
		in   string
		read int
		want int64
	}{
		{"HG10UN\x00\x00\x00\x00", 1, 3},
		{"\x00\x00\x00\x00abc", 5, 2},
		{"HG20abc", 4, 3},
		{"HG20abc", 7, 0},
		{"HG10GZ" + string(compress(t, Zlib, 0, sample(100))), 1, -1},
	} {
		for _, seekable := range []bool{true, false} {
			var in io.Reader = strings.NewReader(tt.in)
			want := tt.want
			if !seekable {
				in, want = io.MultiReader(in), -1
			}
			_, r, err := OpenBundle(in, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, make([]byte, tt.read)); err != nil {
				t.Fatal(err)
			}
			if got := frame.Remaining(r); got != want {
				t.Errorf("%q, seekable %v, after %d bytes: Remaining = %d, want %d", tt.in, seekable, tt.read, got, want)
			}
		}
	}
}

// TestWindow sends a zstd frame that asks for a window of 2 GiB.
func TestWindow(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00}
	if _, err := decompress(Zstd, frame, 0); !errors.Is(err, hg.ErrMalformed) {
		t.Errorf("window of 2 GiB: err = %v, want hg.ErrMalformed", err)
	}
}

// TestSourceError wants the network's errors back as they are.
func TestSourceError(t *testing.T) {
	boom := errors.New("connection reset")
	for _, e := range all {
		part := compress(t, e, 0, sample(100000))[:64]
		r, err := NewReader(e, io.MultiReader(bytes.NewReader(part), iotest.ErrReader(boom)), Limits{})
		if err != nil {
			t.Fatalf("NewReader(%v): %v", e, err)
		}
		if _, err := io.Copy(io.Discard, r); err != boom {
			t.Errorf("%v: err = %v, want %v", e, err, boom)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%v: Close: %v", e, err)
		}
	}
}

func TestFlush(t *testing.T) {
	for _, e := range []Engine{None, Zlib, Zstd} {
		var b bytes.Buffer
		w, err := NewWriter(e, 0, &b)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "hello")
		if err := w.Flush(); err != nil {
			t.Errorf("%v: Flush: %v", e, err)
		}
		got := make([]byte, 5)
		r, err := NewReader(e, &b, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "hello" {
			t.Errorf("%v: after Flush: %q, %v, want hello", e, got, err)
		}
		if err := errors.Join(r.Close(), w.Close(), w.Close()); err != nil {
			t.Errorf("%v: Close: %v", e, err)
		}
		if _, err := w.Write([]byte("x")); e != None && err == nil {
			t.Errorf("%v: Write after Close succeeded", e)
		}
	}
}

func TestOpenBundle(t *testing.T) {
	const cg = "\x00\x00\x00\x00 and so on"
	bz := string(compress(t, Bzip2, 0, []byte(cg)))
	for _, tt := range []struct {
		name, in string
		format   Format
		body     string
		err      string
	}{
		{"uncompressed", "HG10UN" + cg, Bundle1, cg, ""},
		{"zlib", "HG10GZ" + string(compress(t, Zlib, 0, []byte(cg))), Bundle1, cg, ""},
		{"bzip2 shares BZ", "HG10" + bz, Bundle1, cg, ""},
		{"bzip2 with BZ twice", "HG10BZ" + bz, Bundle1, "", "corrupt bzip2 stream"},
		{"no header", cg, Bundle1, cg, ""},
		{"bundle2", "HG20 rest", Bundle2, "HG20 rest", ""},
		{"zstd is none of bundle1's", "HG10ZS", 0, "", "unknown stream compression type: ZS"},
		{"unknown compression", "HG10XX", 0, "", "unknown stream compression type: XX"},
		{"unknown version", "HG21", 0, "", "unknown bundle version 21"},
		{"stream clone", "HGS1UN", 0, "", "unknown bundle version S1"},
		{"no bundle", "<html>", 0, "", "not a Mercurial bundle"},
		{"empty", "", 0, "", "stream ended unexpectedly (got 0 bytes, expected 4)"},
		{"cut magic", "HG1", 0, "", "stream ended unexpectedly (got 3 bytes, expected 4)"},
		{"cut compression", "HG10U", 0, "", "stream ended unexpectedly (got 1 bytes, expected 2)"},
	} {
		format, r, err := OpenBundle(iotest.OneByteReader(strings.NewReader(tt.in)), 0)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(r)
			r.Close()
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.err)
		}
		if format != tt.format || string(body) != tt.body {
			t.Errorf("%s: OpenBundle(%q) = %d, %q, want %d, %q", tt.name, tt.in, format, body, tt.format, tt.body)
		}
		if abort := (*hg.Abort)(nil); err != nil && !errors.As(err, &abort) {
			t.Errorf("%s: %v is no *hg.Abort", tt.name, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, e := range all {
		f.Add(uint8(e), compress(f, e, 0, sample(300)))
	}
	f.Fuzz(func(t *testing.T, e uint8, data []byte) {
		const limit = 1 << 20
		engine := Engine(e % engines)
		out, err := decompress(engine, data, limit)
		if len(out) > limit {
			t.Errorf("%v: %d bytes of output, limit %d", engine, len(out), limit)
		}
		if err != nil {
			return
		}
		again, err := decompress(engine, compress(t, engine, 0, out), 0)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("%v: round trip of %d bytes: %d bytes, %v", engine, len(out), len(again), err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	data := sample(1 << 20)
	for _, e := range all {
		packed := compress(b, e, 0, data)
		b.Run("engine="+e.String(), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decompress(e, packed, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
