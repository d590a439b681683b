// Package cache keeps what was computed from a repository at some seq, the
// most recently used of it, and knows that most pushes leave most of it valid.
//
// Every entry has the seq it was made at. It serves requests at that seq and
// at later ones, until its key is touched. Whoever publishes seq n tells the
// cache first, for each key that n changes, one of
//
//   - Extend: here is how to bring the value up to n;
//   - Touch: the value ends before n;
//   - Remove: forget it whatever the seq.
//
// A key that is told of nothing is as valid at n as before. A load that was
// under way when its key was told of is handed to those who wait for it and
// not kept, so that telling and loading need no other order.
//
// Equal loads run once. The load belongs to all that wait for it: it ends
// early when the last of them has gone, not when the first has. If it fails,
// only the one who started it gets the error; the next tries for itself.
//
// All methods of a Cache may be called by several goroutines at once.
package cache
