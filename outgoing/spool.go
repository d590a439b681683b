package outgoing

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"vcsd/internal/vfs"
)

// spools lets requests for the same bytes share one computation: it writes to a
// file, as fast as it can, and everyone who asked reads the file while it grows.
// So who reads slowly keeps nobody waiting, and a computation ends early only
// when the last of its readers has gone.
type spools struct {
	maxBytes int64 // of all files together; constant

	running sync.WaitGroup // computations

	mu      sync.Mutex // guards all below, and what flights say it guards
	flights map[spoolKey]*flight
	idle    []*flight // finished and read by nobody, oldest first
	used    int64     // bytes of all files
	closed  bool
}

// A spoolKey is a digest of all that the bytes depend on.
type spoolKey [32]byte

const (
	// defaultSpoolBytes is the most that all spools of a process may hold.
	defaultSpoolBytes = 4 << 30

	// idleTime is how long a finished spool waits for one more reader.
	idleTime = 3 * time.Second

	// spoolBuffer is what a computation gathers before it writes, and what a
	// reader takes at a time.
	spoolBuffer = 128 << 10
)

// A spoolError means that the spool could not be used any further, for reasons
// that have nothing to do with what was computed.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return "spool: " + e.err.Error() }
func (e *spoolError) Unwrap() error { return e.err }

var (
	errSpoolFull   = errors.New("all spools together are too large")
	errSpoolClosed = errors.New("closed")
)

func newSpools(maxBytes int64) *spools {
	if maxBytes == 0 {
		maxBytes = defaultSpoolBytes
	}
	return &spools{maxBytes: maxBytes, flights: make(map[spoolKey]*flight)}
}

// A flight is one computation and its file.
type flight struct {
	s      *spools
	key    spoolKey
	file   vfs.File
	cancel context.CancelFunc

	readers int         // guarded by spools.mu
	expires *time.Timer // while idle; guarded by spools.mu

	mu    sync.Mutex
	size  int64         // bytes that may be read; guarded by mu
	done  bool          // size is final; guarded by mu
	err   error         // why it ended before its end; guarded by mu
	grown chan struct{} // closed at the next change of those above; guarded by mu
}

// join returns the flight for a key, and starts it with compute unless there is
// one. The caller leaves it. compute gets the values of ctx, and not its end.
func (s *spools) join(ctx context.Context, key spoolKey, create func() (vfs.File, error), compute func(context.Context, io.Writer) error) (f *flight, joined bool, err error) {
	if f := s.find(key); f != nil {
		return f, true, nil
	}
	// Without mu: the disk may be slow.
	file, err := create()
	if err != nil {
		return nil, false, &spoolError{err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.findLocked(key); f != nil {
		return f, true, file.Close()
	}
	if s.closed {
		return nil, false, errors.Join(&spoolError{errSpoolClosed}, file.Close())
	}
	f = &flight{s: s, key: key, file: file, readers: 1, grown: make(chan struct{})}
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.flights[key] = f
	s.running.Add(1)
	go f.run(ctx, compute)
	return f, false, nil
}

func (s *spools) find(key spoolKey) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(key)
}

func (s *spools) findLocked(key spoolKey) *flight {
	f := s.flights[key]
	if f == nil {
		return nil
	}
	if f.readers == 0 {
		s.reviveLocked(f)
	}
	f.readers++
	return f
}

// reviveLocked takes a flight out of the idle ones.
func (s *spools) reviveLocked(f *flight) {
	f.expires.Stop()
	for i, g := range s.idle {
		if g == f {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			return
		}
	}
}

// leave takes one reader away. The last one ends the computation; what is
// finished waits for another reader for a while.
func (f *flight) leave() {
	s := f.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.readers--; f.readers > 0 {
		return
	}
	f.mu.Lock()
	whole := f.done && f.err == nil
	f.mu.Unlock()
	if !whole || s.closed {
		s.dropLocked(f)
		return
	}
	s.idle = append(s.idle, f)
	f.expires = time.AfterFunc(idleTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.readers == 0 && s.flights[f.key] == f {
			s.reviveLocked(f)
			s.dropLocked(f)
		}
	})
}

// dropLocked ends a flight that nobody reads.
func (s *spools) dropLocked(f *flight) {
	s.forgetLocked(f)
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		f.closeLocked()
	}
}

// forgetLocked lets nobody join a flight any more.
func (s *spools) forgetLocked(f *flight) {
	if s.flights[f.key] == f {
		delete(s.flights, f.key)
	}
}

// closeLocked gives the file back; the caller holds both mutexes.
func (f *flight) closeLocked() {
	f.s.used -= f.size
	f.size = 0
	// Its name is gone and nobody wants its bytes.
	_ = f.file.Close()
}

// run computes. A panic must not end the process: here it concerns all who
// read.
func (f *flight) run(ctx context.Context, compute func(context.Context, io.Writer) error) {
	defer f.s.running.Done()
	var err error
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
		f.finish(err)
	}()
	w := bufio.NewWriterSize(f, spoolBuffer)
	if fault := vfs.Guard(func() { err = compute(ctx, w) }); fault != nil {
		err = fault
	}
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
}

func (f *flight) finish(err error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done, f.err = true, err
	close(f.grown)
	if f.s.flights[f.key] == f && f.err == nil {
		return
	}
	// Nobody joins what failed. Those who read it go on.
	f.s.forgetLocked(f)
	if f.readers == 0 {
		f.closeLocked()
	}
}

// Write adds to the file.
func (f *flight) Write(p []byte) (int, error) {
	if err := f.s.claim(int64(len(p))); err != nil {
		return 0, err
	}
	f.mu.Lock()
	at := f.size
	f.mu.Unlock()
	n, err := f.file.WriteAt(p, at)
	f.s.giveBack(int64(len(p) - n))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size += int64(n)
	close(f.grown)
	f.grown = make(chan struct{})
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}

// claim takes n bytes of what all spools may hold, from idle ones if it must.
func (s *spools) claim(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used+n > s.maxBytes && len(s.idle) > 0 {
		f := s.idle[0]
		s.reviveLocked(f)
		s.dropLocked(f)
	}
	if s.used+n > s.maxBytes {
		return &spoolError{errSpoolFull}
	}
	s.used += n
	return nil
}

func (s *spools) giveBack(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
}

// close ends all computations and waits for them.
func (s *spools) close() {
	s.mu.Lock()
	s.closed = true
	for len(s.idle) > 0 {
		f := s.idle[0]
		s.reviveLocked(f)
		s.dropLocked(f)
	}
	for _, f := range s.flights {
		f.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// progress returns what there is to read, and what is closed when there is more.
// err is set only if it has ended.
func (f *flight) progress() (size int64, done bool, grown <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size, f.done, f.grown, f.err
}

var spoolBuffers = sync.Pool{New: func() any { return new([spoolBuffer]byte) }}

// A follower reads a flight.
type follower struct {
	f   *flight
	off int64
	sum maphash.Hash // of what was passed on
}

// copyTo passes all of the flight on to w while it grows. The error is w's, or
// ctx's, or that of the computation, which is returned as a *flightError.
func (r *follower) copyTo(ctx context.Context, w io.Writer) error {
	buf := spoolBuffers.Get().(*[spoolBuffer]byte)
	defer spoolBuffers.Put(buf)
	for {
		size, done, grown, err := r.f.progress()
		switch {
		case r.off < size:
			if err := r.copySome(w, buf[:min(int64(len(buf)), size-r.off)]); err != nil {
				return err
			}
		case done && err != nil:
			return &flightError{err}
		case done:
			return nil
		default:
			select {
			case <-grown:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (r *follower) copySome(w io.Writer, buf []byte) error {
	n, err := r.f.file.ReadAt(buf, r.off)
	if n < len(buf) {
		return &flightError{&spoolError{err}}
	}
	if _, err := w.Write(buf); err != nil {
		return err
	}
	r.sum.Write(buf)
	r.off += int64(n)
	return nil
}

// A flightError is why a computation ended before its end.
type flightError struct{ err error }

func (e *flightError) Error() string { return e.err.Error() }
func (e *flightError) Unwrap() error { return e.err }

// resume returns a writer to w for who computes for himself what r could read
// only the beginning of: that much is left out, after making sure that it is the
// same.
func (r *follower) resume(w io.Writer) io.Writer {
	c := &continued{w: w, left: r.off, want: r.sum.Sum64()}
	c.sum.SetSeed(r.sum.Seed())
	return c
}

type continued struct {
	w    io.Writer
	left int64 // to leave out
	sum  maphash.Hash
	want uint64
}

var errResume = errors.New("computed anew, the answer begins differently")

// Write implements io.Writer.
func (c *continued) Write(p []byte) (int, error) {
	all := len(p)
	if c.left > 0 {
		n := min(c.left, int64(len(p)))
		c.sum.Write(p[:n])
		c.left -= n
		p = p[n:]
		if c.left == 0 && c.sum.Sum64() != c.want {
			return 0, errResume
		}
	}
	if len(p) == 0 {
		return all, nil
	}
	if _, err := c.w.Write(p); err != nil {
		return 0, err
	}
	return all, nil
}
