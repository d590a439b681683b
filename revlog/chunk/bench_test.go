package chunk

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	stdzlib "compress/zlib"
)

// Lengths of data: chunks of a log have some hundred bytes in the middle.
var benchLens = []int{200, 500, 5000, 100_000}

func BenchmarkDecode(b *testing.B) {
	for _, engine := range []Engine{Zlib, Zstd} {
		for _, n := range benchLens {
			c := Encode(nil, source(n, 1), engine, 0)
			b.Run(fmt.Sprintf("engine=%v/bytes=%d", engine, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				var dst []byte
				for b.Loop() {
					var err error
					if dst, err = Decode(dst[:0], c, int64(n)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkInflateStdlib is what Decode is measured against.
func BenchmarkInflateStdlib(b *testing.B) {
	for _, n := range benchLens {
		c := Encode(nil, source(n, 1), Zlib, 0)
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			in := bytes.NewReader(c)
			r, err := stdzlib.NewReader(in)
			if err != nil {
				b.Fatal(err)
			}
			var out bytes.Buffer
			for b.Loop() {
				in.Reset(c)
				out.Reset()
				if err := r.(stdzlib.Resetter).Reset(in, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(&out, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, engine := range []Engine{Zlib, Zstd} {
		for _, n := range benchLens {
			data := source(n, 1)
			b.Run(fmt.Sprintf("engine=%v/bytes=%d", engine, n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				var dst []byte
				for b.Loop() {
					dst = Encode(dst[:0], data, engine, 0)
				}
				b.ReportMetric(float64(len(dst)), "chunk-bytes")
			})
		}
	}
}
