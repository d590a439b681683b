package outgoing

import (
	"bytes"
	"testing"

	"vcsd/hg"
	"vcsd/revlog"
)

// Lanes read what the log reads, whatever the order, and keep no more than they
// may.
func TestLanes(t *testing.T) {
	r, _ := openRepo(t, "split")
	mf := viewOf(t, r).Manifest()
	l := lanes{s: mf}
	for i := range 3 * mf.Len() {
		rev := hg.Rev(i * 7 % mf.Len())
		want, err := mf.Text(rev)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.text(rev); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("text of rev %d: %d bytes, %v; want %d", rev, len(got), err, len(want))
		}
		if len(l.all) > maxLanes {
			t.Fatalf("%d lanes, want at most %d", len(l.all), maxLanes)
		}
	}
}

func TestLanesShrink(t *testing.T) {
	const big = maxLaneBytes/2 + 1
	for _, tt := range []struct {
		name  string
		bytes []int // of the lanes, the last used last
		want  int   // how many stay
	}{
		{"none", nil, 0},
		{"one larger than all may be", []int{2 * maxLaneBytes}, 1},
		{"two that fit", []int{big, 1}, 2},
		{"two that don't", []int{big, big}, 1},
		{"too many", make([]int, maxLanes+1), maxLanes},
	} {
		l := lanes{}
		for i, n := range tt.bytes {
			l.all = append(l.all, lane{&revlog.Reader{}, hg.Rev(i), n})
		}
		l.shrink()
		if len(l.all) != tt.want || tt.want > 0 && l.all[tt.want-1].rev != hg.Rev(len(tt.bytes)-1) {
			t.Errorf("%s: %d lanes stay, want %d, the last ones", tt.name, len(l.all), tt.want)
		}
	}
}
