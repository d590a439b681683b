package bigbuf

import (
	"math/bits"
	"runtime"
	"runtime/metrics"
)

const (
	// Min is the length from which on a buffer counts as big, in bytes.
	Min = 1 << 20

	// steps is how many sizes there are from one power of two to the next.
	steps = 16
	// spread is the part of its length by which a buffer may be longer and
	// still get the same size.
	spread = 512
)

// Cap returns the capacity to make for n bytes. A revision passes through
// buffers that differ by a few bytes: a delta has headers before the text, its
// chunk is somewhat longer where nothing can be compressed. If they had their
// exact sizes, what one gives back would be just too short for the next, and
// memory would grow though half of it is free. So buffers of about one length
// get one size, at most a tenth more than they need.
func Cap(n int) int {
	if n < Min {
		return n
	}
	n += n / spread
	step := 1 << (bits.Len(uint(n)) - 1) / steps
	return (n + step - 1) / step * step
}

// huge is the length from which on Make looks for garbage first.
const huge = 8 << 20

// Make returns n bytes with the capacity Cap(n). Go's collector would start
// when the heap has grown by the new buffer; if there may be as much garbage
// already, Make has it collected first, and the buffer takes its place.
func Make(n int) []byte {
	size := Cap(n)
	if n >= huge && garbage() >= uint64(size) {
		runtime.GC()
	}
	return make([]byte, n, size)
}

// garbage returns how many bytes were allocated since the collector ran, all of
// which may be garbage. It returns 0 where that is so little of the heap that
// another run would cost more than the memory is worth.
func garbage() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	all, live := s[0].Value.Uint64(), s[1].Value.Uint64()
	if all < live+live/maxShare {
		return 0
	}
	return all - live
}

// maxShare of the live heap may always be garbage.
const maxShare = 8
