package changegroup

import (
	"fmt"
	"io"
	"testing"

	"vcsd/hg"
)

// BenchmarkWriter writes what a pull of so many changesets holds of manifests.
func BenchmarkWriter(b *testing.B) {
	for _, v := range []Version{V01, V02, V03} {
		b.Run(fmt.Sprintf("version=%s/revs=1000", v), func(b *testing.B) {
			delta := make([]byte, 200)
			b.SetBytes(1000 * int64(lengthLen+v.headerLen()+len(delta)))
			b.ReportAllocs()
			for b.Loop() {
				w := NewWriter(io.Discard, v)
				if err := w.StartChangelog(); err != nil {
					b.Fatal(err)
				}
				var h Header
				for i := range 1000 {
					h.P1, h.Base, h.Node = h.Node, h.Node, hg.Node{byte(i), byte(i >> 8), 1}
					if err := w.WriteDelta(h, delta); err != nil {
						b.Fatal(err)
					}
				}
				if err := w.EndGroup(); err != nil {
					b.Fatal(err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
