package chunk

import (
	"bytes"
	stdzlib "compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"vcsd/hg"
)

// source returns n bytes that compress like program text.
func source(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := []string{"func ", "return ", "if ", "err", "node", "rev", " := ", "(", ")", "{\n\t", "}\n", " != ", "nil", ", ", "\n\n"}
	var b bytes.Buffer
	for b.Len() < n {
		if rng.IntN(6) == 0 {
			fmt.Fprintf(&b, "x%d", rng.IntN(500))
		}
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.Bytes()[:n]
}

func noise(n int) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func stdDeflate(data []byte, level int) []byte {
	var b bytes.Buffer
	w, err := stdzlib.NewWriterLevel(&b, level)
	if err != nil {
		panic(err)
	}
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func stdInflate(chunk []byte, limit int64) ([]byte, error) {
	r, err := stdzlib.NewReader(bytes.NewReader(chunk))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return nil, hg.ErrTooLarge
	}
	return data, err
}

func TestEncodeDecode(t *testing.T) {
	inputs := map[string][]byte{
		"empty":            nil,
		"one byte":         []byte("a"),
		"zero byte first":  []byte("\x00abc"),
		"43 equal bytes":   bytes.Repeat([]byte("a"), 43),
		"44 equal bytes":   bytes.Repeat([]byte("a"), 44),
		"50 equal bytes":   bytes.Repeat([]byte("a"), 50),
		"noise":            noise(5000),
		"noise after zero": append([]byte{0}, noise(5000)...),
		"short source":     source(300, 1),
		"source":           source(70_000, 2),
		"long source":      source(1<<20+9, 3),
		"long noise":       noise(1<<20 + 9),
		"long zeros":       make([]byte, 2<<20),
	}
	for name, data := range inputs {
		for _, engine := range []Engine{None, Zlib, Zstd} {
			c := Encode([]byte("dst:"), data, engine, 0)
			if !bytes.HasPrefix(c, []byte("dst:")) {
				t.Fatalf("%s, %v: Encode wrote over dst", name, engine)
			}
			c = c[4:]
			if len(c) > len(data)+1 {
				t.Errorf("%s, %v: %d bytes became %d", name, engine, len(data), len(c))
			}
			got, err := Decode([]byte("dst:"), c, int64(len(data)))
			if err != nil || !bytes.HasPrefix(got, []byte("dst:")) || !bytes.Equal(got[4:], data) {
				t.Errorf("%s, %v: Decode = %d bytes, %v; want %d", name, engine, len(got)-4, err, len(data))
			}
			if len(data) == 0 {
				continue
			}
			got, err = Decode([]byte("dst:"), c, int64(len(data)-1))
			if !errors.Is(err, hg.ErrTooLarge) || string(got) != "dst:" {
				t.Errorf("%s, %v: Decode beyond the limit = %.20q, %v; want %v", name, engine, got, err, hg.ErrTooLarge)
			}
		}
	}
}

// The forms are those of hg 6.3: see TestReplay of package revlog for whole
// stores.
func TestEncodeForms(t *testing.T) {
	for _, tt := range []struct {
		name   string
		data   string
		engine Engine
		first  byte
	}{
		{"short for zlib", string(bytes.Repeat([]byte("a"), 43)), Zlib, rawData},
		{"long enough for zlib", string(bytes.Repeat([]byte("a"), 44)), Zlib, zlibCMF},
		{"short for zstd", string(bytes.Repeat([]byte("a"), 49)), Zstd, rawData},
		{"long enough for zstd", string(bytes.Repeat([]byte("a"), 50)), Zstd, zstdMag},
		{"begins with zero", "\x00abc", Zstd, rawZero},
		{"does not compress", string(noise(100)), Zlib, rawData},
		{"no engine", string(bytes.Repeat([]byte("a"), 100)), None, rawData},
	} {
		if c := Encode(nil, []byte(tt.data), tt.engine, 0); c[0] != tt.first {
			t.Errorf("%s: chunk begins with %q, want %q", tt.name, c[0], tt.first)
		}
	}
}

func TestEncodeLevels(t *testing.T) {
	data := source(20_000, 4)
	for engine, levels := range map[Engine][]int{Zlib: {1, 6, 9, 10}, Zstd: {1, 3, 10, 22}} {
		last := len(data)
		for _, level := range levels {
			c := Encode(nil, data, engine, level)
			if len(c) > last {
				t.Errorf("%v level %d: %d bytes, a lower level had %d", engine, level, len(c), last)
			}
			last = len(c)
		}
	}
}

func zlibBomb(n int) []byte { return stdDeflate(make([]byte, n), 9) }

// unsizedFrame makes a zstd frame without its content's size, as hg writes for
// long data.
func unsizedFrame(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
		if _, err := w.Write(half); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDecodeUnsizedZstd(t *testing.T) {
	for _, data := range [][]byte{source(300_000, 5), make([]byte, 4<<20)} {
		c := unsizedFrame(t, data)
		got, err := Decode(nil, c, int64(len(data)))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("Decode = %d bytes, %v; want %d", len(got), err, len(data))
		}
		if _, err := Decode(nil, c, int64(len(data)-1)); !errors.Is(err, hg.ErrTooLarge) {
			t.Errorf("Decode beyond the limit: err = %v, want %v", err, hg.ErrTooLarge)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	good := stdDeflate(source(300, 1), 6)
	badSum := append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1)
	zs := Encode(nil, source(300, 1), Zstd, 0)
	for _, tt := range []struct {
		name  string
		chunk []byte
		max   int64
		err   error
	}{
		{"unknown kind", []byte("Zabc"), 99, ErrCorrupt},
		{"raw beyond the limit", []byte("uabc"), 2, hg.ErrTooLarge},
		{"zero beyond the limit", []byte("\x00abc"), 3, hg.ErrTooLarge},
		{"zlib of one byte", []byte("x"), 99, ErrCorrupt},
		{"zlib header sum", []byte("x\x9d\x03\x00\x00\x00\x00\x01"), 99, ErrCorrupt},
		{"zlib with dictionary", []byte("x\xbb\x03\x00\x00\x00\x00\x01"), 99, ErrCorrupt},
		{"zlib sum wrong", badSum, 999, ErrCorrupt},
		{"zlib without sum", good[:len(good)-4], 999, ErrCorrupt},
		{"zlib cut", good[:len(good)/2], 999, ErrCorrupt},
		{"zlib bomb", zlibBomb(8 << 20), 1 << 20, hg.ErrTooLarge},
		{"zlib distance too far", []byte("x\x9c\x63\x00\x42\x00"), 999, ErrCorrupt},
		{"zstd of one byte", []byte("("), 99, ErrCorrupt},
		{"zstd cut", zs[:len(zs)-3], 999, ErrCorrupt},
		{"zstd twice", append(bytes.Clone(zs), zs...), 9999, ErrCorrupt},
		{"zstd claims 4 GiB", append([]byte("\x28\xb5\x2f\xfd\xa0\xff\xff\xff\xff"), 1, 0, 0), 1 << 40, ErrCorrupt},
		{"zstd claims 8 EiB", append([]byte("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f"), 1, 0, 0), 1 << 40, ErrCorrupt},
		{"zstd bomb", Encode(nil, make([]byte, 10<<20), Zstd, 0), 1 << 20, hg.ErrTooLarge},
	} {
		got, err := Decode(nil, tt.chunk, tt.max)
		if !errors.Is(err, tt.err) || len(got) != 0 {
			t.Errorf("%s: Decode = %d bytes, %v; want %v", tt.name, len(got), err, tt.err)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	data := source(2000, 6)
	for _, engine := range []Engine{None, Zlib, Zstd} {
		c := Encode(nil, data, engine, 0)
		dst := make([]byte, 0, 4096)
		allocs := testing.AllocsPerRun(100, func() {
			if _, err := Decode(dst, c, 4000); err != nil {
				t.Fatal(err)
			}
		})
		// The race detector drops pooled values at random.
		if allocs > 0 && !raceEnabled {
			t.Errorf("%v: %v allocations, want 0", engine, allocs)
		}
	}
}

// deflateBits writes deflate data bit by bit.
type deflateBits struct {
	b []byte
	n uint
}

func (d *deflateBits) put(v, n uint) {
	for i := range n {
		if d.n%8 == 0 {
			d.b = append(d.b, 0)
		}
		d.b[d.n/8] |= byte(v>>i&1) << (d.n % 8)
		d.n++
	}
}

// dynamicBlock returns a last block with its own codes: each length is written
// with 4 bits, in a code for lengths that gives 4 bits to 0..15.
func dynamicBlock(lit, dist []uint8, body func(*deflateBits)) []byte {
	d := &deflateBits{}
	d.put(1|2<<1, 3)
	d.put(uint(len(lit)-257), 5)
	d.put(uint(len(dist)-1), 5)
	d.put(numLengthCode-4, 4)
	for _, i := range lengthOrder {
		n := uint(0)
		if i < 16 {
			n = 4
		}
		d.put(n, 3)
	}
	for _, n := range append(append([]uint8{}, lit...), dist...) {
		for i := range uint(4) {
			d.put(uint(n)>>(3-i)&1, 1)
		}
	}
	body(d)
	return d.b
}

// TestOddCodes compares with the standard library where codes are degenerate.
func TestOddCodes(t *testing.T) {
	lit := func(set map[int]uint8) []uint8 {
		l := make([]uint8, 258)
		for i, n := range set {
			l[i] = n
		}
		return l
	}
	pass := func(d *deflateBits) { d.put(0, 1); d.put(1, 1); d.put(0, 30) }
	for _, tt := range []struct {
		name string
		lit  []uint8
		dist []uint8
	}{
		{"no literals", lit(nil), []uint8{0}},
		{"only the end, 1 bit", lit(map[int]uint8{256: 1}), []uint8{0}},
		{"only the end, 2 bits", lit(map[int]uint8{256: 2}), []uint8{0}},
		{"two codes", lit(map[int]uint8{'a': 1, 256: 1}), []uint8{0}},
		{"two codes, one distance", lit(map[int]uint8{'a': 1, 256: 1}), []uint8{1}},
		{"no end", lit(map[int]uint8{'a': 1, 'b': 1}), []uint8{0}},
		{"too many", lit(map[int]uint8{'a': 1, 'b': 1, 256: 1}), []uint8{0}},
		{"incomplete", lit(map[int]uint8{'a': 2, 'b': 2, 256: 2}), []uint8{0}},
		{"incomplete distances", lit(map[int]uint8{'a': 1, 256: 1}), []uint8{2, 2}},
		{"a match without distance", lit(map[int]uint8{257: 1, 256: 1}), []uint8{0}},
		{"long codes", lit(map[int]uint8{'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9, 'j': 10, 'k': 11, 'l': 12, 'm': 13, 'n': 14, 'o': 15, 256: 15}), []uint8{1, 1}},
	} {
		block := dynamicBlock(tt.lit, tt.dist, pass)
		for _, content := range []string{"", "a", "aa"} {
			c := append([]byte("x\x9c"), block...)
			c = binary.BigEndian.AppendUint32(c, adler32.Checksum([]byte(content)))
			want, wantErr := stdInflate(c, 1000)
			got, err := Decode(nil, c, 1000)
			if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
				t.Errorf("%s, sum of %q: Decode = %q, %v; the standard library %q, %v", tt.name, content, got, err, want, wantErr)
			}
		}
	}
}

func FuzzInflate(f *testing.F) {
	for _, n := range []int{0, 1, 44, 300, 5000} {
		for _, level := range []int{-2, 0, 1, 6, 9} {
			f.Add(stdDeflate(source(n, uint64(n)), level))
		}
	}
	f.Add(stdDeflate(noise(500), 6))
	f.Add(zlibBomb(100_000))
	f.Add(append([]byte("x\x9c"), dynamicBlock(make([]uint8, 258), []uint8{0}, func(*deflateBits) {})...))
	f.Fuzz(func(t *testing.T, c []byte) {
		if len(c) == 0 || c[0] != zlibCMF {
			c = append([]byte("x\x9c"), c...)
		}
		const limit = 1 << 16
		want, wantErr := stdInflate(c, limit)
		got, err := Decode(nil, c, limit)
		if errors.Is(wantErr, hg.ErrTooLarge) {
			// Which of two faults is seen first may differ.
			if err == nil {
				t.Fatalf("Decode = %d bytes; the standard library has more than %d", len(got), limit)
			}
			return
		}
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("Decode = %d bytes, %v; the standard library %d bytes, %v", len(got), err, len(want), wantErr)
		}
	})
}

// FuzzInflateSum is FuzzInflate with a checksum that fits, so that what is
// decoded is compared and not only refused.
func FuzzInflateSum(f *testing.F) {
	for _, n := range []int{1, 44, 300, 5000} {
		c := stdDeflate(source(n, uint64(n)), 6)
		f.Add(c[2 : len(c)-4])
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		const limit = 1 << 16
		z := new(inflater)
		z.start(nil, block, limit)
		err := z.run()
		got := z.out[:z.w]
		if err != nil || len(got) > limit {
			return
		}
		c := append([]byte("x\x9c"), block[:len(block)-len(z.rest())]...)
		c = binary.BigEndian.AppendUint32(c, adler32.Checksum(got))
		if want, err := stdInflate(c, limit); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("inflated %d bytes; the standard library %d, %v", len(got), len(want), err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, engine := range []Engine{None, Zlib, Zstd} {
		f.Add(Encode(nil, source(300, 1), engine, 0))
		f.Add(Encode(nil, make([]byte, 1<<20), engine, 0))
	}
	f.Add([]byte("\x00"))
	f.Add(unsizedFrame(f, source(3000, 1)))
	f.Fuzz(func(t *testing.T, c []byte) {
		const limit = 1 << 16
		data, err := Decode(nil, c, limit)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, hg.ErrTooLarge) {
				t.Fatalf("Decode: unexpected kind of error %v", err)
			}
			return
		}
		if len(data) > limit {
			t.Fatalf("Decode = %d bytes, limit %d", len(data), limit)
		}
		for _, engine := range []Engine{None, Zlib, Zstd} {
			again, err := Decode(nil, Encode(nil, data, engine, 0), limit)
			if err != nil || !bytes.Equal(again, data) {
				t.Fatalf("%v: Decode(Encode) = %d bytes, %v; want %d", engine, len(again), err, len(data))
			}
		}
	})
}
