package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Go's collector lets the heap double before it runs. Where revisions of some
// hundred megabytes go through, that half is garbage which could have been
// memory for the next one. So beyond a small heap, which may double, growth is
// limited.
const (
	// slackBytes and a slackShare-th of the live heap may be garbage. The less
	// that is, the more often the collector runs: once for that many bytes
	// allocated.
	slackBytes = 32 << 20
	slackShare = 4

	// fullPercent is Go's own choice, which small heaps keep.
	fullPercent = 100
)

// gcPercent returns by how much a heap may grow of which live bytes are in use.
func gcPercent(live uint64) int {
	if live == 0 {
		return fullPercent
	}
	slack := slackBytes + live/slackShare
	return int(min(fullPercent, 100*slack/live))
}

// limitGarbage makes every run of the collector set the limit for the next,
// until stop is called. A GOGC in the environment is left alone.
func limitGarbage(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" {
		return func() {}
	}
	t := &tuner{percent: fullPercent}
	before := debug.SetGCPercent(fullPercent)
	t.watch()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stopped = true
		debug.SetGCPercent(before)
	}
}

// A tuner sets the collector's limit.
type tuner struct {
	mu      sync.Mutex // guards all below
	percent int        // as set
	stopped bool
}

// A canary is garbage from the start: the next run of the collector finds it.
type canary struct{ _ *canary }

// watch makes the next run of the collector call adjust.
func (t *tuner) watch() { runtime.AddCleanup(new(canary), (*tuner).adjust, t) }

// adjust sets the limit by what the last run left.
func (t *tuner) adjust() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Setting it stops all goroutines for a moment.
	if p := gcPercent(live[0].Value.Uint64()); p != t.percent {
		t.percent = p
		debug.SetGCPercent(p)
	}
	t.watch()
}
