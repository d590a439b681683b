package revlog

import (
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name   string
		shapes string // see corruptions
		damage func(*logFiles)
		want   string // of the finding for rev 7; empty: none at all
	}{
		{"sound", "", func(*logFiles) {}, ""},
		{"offset moved", "", func(f *logFiles) { f.put32(7, 2, 5<<16) }, "does not begin where the one before ends"},
		{"negative length", "split", func(f *logFiles) { f.put32(7, offChunkLen, -5) }, "chunk length is negative"},
		{"base ahead", "", func(f *logFiles) { f.put32(7, offBase, 8) }, "delta base out of range: 8"},
		{"base below null", "", func(f *logFiles) { f.put32(7, offBase, -2) }, "delta base out of range: -2"},
		{"node twice", "", func(f *logFiles) {
			copy(f.index[f.pos[7]+offNode:][:hg.NodeLen], f.index[f.pos[4]+offNode:])
		}, "node is that of another revision too"},
		{"padding", "", func(f *logFiles) { f.index[f.pos[7]+entrySize-1] = 1 }, "bytes behind the node"},
	}
	for _, shape := range shapes {
		for _, tt := range tests {
			if !applies(tt.shapes, shape.inline, shape.generalDelta) {
				continue
			}
			t.Run(shape.name+"/"+tt.name, func(t *testing.T) {
				f := filesOf(newBuilder(shape.inline, shape.generalDelta).history(rand.New(rand.NewPCG(11, 11)), 20))
				tt.damage(f)
				s, err := openFake(t, map[string][]byte{"log.i": f.index, "log.d": f.data}, Options{Mapped: shape.mapped})
				if err != nil {
					t.Fatal(err)
				}
				found := false
				err = s.Check(func(c *CorruptError) {
					found = found || tt.want != "" && (c.Rev == 7 || c.Rev == 4) && strings.Contains(c.Error(), tt.want)
					if tt.want == "" {
						t.Errorf("a sound log: %v", c)
					}
				})
				if err != nil || found != (tt.want != "") {
					t.Errorf("Check: %v, found %v, want %q of rev 7", err, found, tt.want)
				}
			})
		}
	}
}
