package bigbuf

import (
	"runtime"
	"testing"
)

func TestCap(t *testing.T) {
	for _, n := range []int{0, 1, Min - 1, Min, Min + 1, 3 << 20, 64 << 20, 64<<20 + 112, 100<<20 - 1, 1<<31 - 1} {
		got := Cap(n)
		if n < Min && got != n {
			t.Errorf("Cap(%d) = %d, want that", n, got)
		}
		if got < n || got > n+n/10 {
			t.Errorf("Cap(%d) = %d, want up to a tenth more", n, got)
		}
		if b := Make(min(n, 4<<20)); len(b) != min(n, 4<<20) || cap(b) < len(b) {
			t.Errorf("Make(%d) has length %d and capacity %d", n, len(b), cap(b))
		}
	}
}

// TestOneSize wants the buffers that a revision passes through to be alike.
func TestOneSize(t *testing.T) {
	for _, n := range []int{4 << 20, 64 << 20, 65_000_000, 1 << 30} {
		text := Cap(n)
		for _, more := range []int{12, 102 + 12, 512, n/4096 + 64} {
			if got := Cap(n + more); got != text {
				t.Errorf("Cap(%d+%d) = %d, want %d as for the text", n, more, got, text)
			}
		}
	}
}

// TestReuse wants a few buffers at a time to take no more than that, what became
// garbage while the collector ran, and what it leaves in pieces: nine or ten
// buffers as measured, and fourteen without Make.
func TestReuse(t *testing.T) {
	const n, rounds, live = 32 << 20, 40, 6
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var held [live][]byte
	for i := range rounds {
		held[i%live] = Make(n)
	}
	runtime.KeepAlive(held)
	runtime.ReadMemStats(&after)
	if grown := after.Sys - before.Sys; grown > (live+6)*n {
		t.Errorf("%d buffers of %d bytes, %d at a time, took %d bytes of the system", rounds, n, live, grown)
	}
}

// TestSmallBuffersCollectNothing wants buffers below huge not to run the
// collector.
func TestSmallBuffersCollectNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		small = Make(1000)
	}
	runtime.ReadMemStats(&after)
	if n := after.NumForcedGC - before.NumForcedGC; n > 0 {
		t.Errorf("100 small buffers made the collector run %d times", n)
	}
}

var small []byte // so that it is on the heap
