package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	for _, tt := range []struct {
		name string
		live uint64
		want int
	}{
		{"empty", 0, 100},
		{"small heaps may double", 10 << 20, 100},
		{"up to the slack", 40 << 20, 100},
		{"beyond it", 128 << 20, 50},
		{"huge heaps grow by a quarter", 48 << 30, 25},
	} {
		if got := gcPercent(tt.live); got != tt.want {
			t.Errorf("%s: gcPercent(%d) = %d, want %d", tt.name, tt.live, got, tt.want)
		}
	}
}

// TestLimitGarbage wants the limit to follow the heap.
func TestLimitGarbage(t *testing.T) {
	none := func(string) string { return "" }
	defer debug.SetGCPercent(debug.SetGCPercent(fullPercent))
	stop := limitGarbage(none)
	live := make([]byte, 400<<20)
	if !comes(func() bool { runtime.GC(); return percent() < 40 }) {
		t.Errorf("with %d bytes live the limit is %d%%, want below 40%%", len(live), percent())
	}
	runtime.KeepAlive(live)
	live = nil
	if !comes(func() bool { runtime.GC(); return percent() == fullPercent }) {
		t.Errorf("with an empty heap the limit is %d%%, want %d%%", percent(), fullPercent)
	}
	stop()
	debug.SetGCPercent(77)
	runtime.GC()
	runtime.GC()
	if percent() != 77 {
		t.Errorf("after stop the limit became %d%%", percent())
	}
	limitGarbage(func(name string) string { return "50" })()
	if percent() != 77 {
		t.Errorf("with GOGC set the limit became %d%%", percent())
	}
}

func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// comes waits for something that another goroutine brings about.
func comes(ok func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if ok() {
			return true
		}
	}
	return false
}
