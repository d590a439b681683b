package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vcsd/internal/vfs"
)

// memSpool makes spools in memory.
func memSpool(t testing.TB) func() (vfs.File, error) {
	t.Helper()
	fsys := vfs.NewMem()
	return func() (vfs.File, error) { return createSpool(fsys) }
}

// collector is a writer that can be told when to take more.
type collector struct {
	mu   sync.Mutex
	got  bytes.Buffer
	gate chan struct{} // closed: take everything; nil too
	fail error
}

func (c *collector) Write(p []byte) (int, error) {
	if c.gate != nil {
		<-c.gate
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return 0, c.fail
	}
	return c.got.Write(p)
}

// pattern writes size bytes in pieces, until ctx ends.
func pattern(size int) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		for i := 0; i < size; i += 16 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%015d\n", i); err != nil {
				return err
			}
		}
		return nil
	}
}

func patternBytes(t testing.TB, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := pattern(size)(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSpoolShared: many read what is computed once, whoever is slow.
func TestSpoolShared(t *testing.T) {
	s := newSpools(0)
	defer s.close()
	var runs atomic.Int32
	started, release := make(chan struct{}), make(chan struct{})
	compute := func(ctx context.Context, w io.Writer) error {
		if runs.Add(1) == 1 {
			close(started)
		}
		<-release
		return pattern(1<<20)(ctx, w)
	}
	create := memSpool(t)
	slow := &collector{gate: make(chan struct{})}
	readers := []*collector{slow}
	for range 50 {
		readers = append(readers, new(collector))
	}
	done := make(chan error, len(readers))
	for _, c := range readers {
		f, _, err := s.join(t.Context(), spoolKey{1}, create, compute)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer f.leave()
			done <- (&follower{f: f}).copyTo(t.Context(), c)
		}()
	}
	<-started
	close(release)
	for range len(readers) - 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	close(slow.gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	want := patternBytes(t, 1<<20)
	for i, c := range readers {
		if !bytes.Equal(c.got.Bytes(), want) {
			t.Errorf("reader %d got %d bytes, want %d", i, c.got.Len(), len(want))
		}
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d computations, want 1", n)
	}
}

// TestSpoolKeys: other keys are other computations.
func TestSpoolKeys(t *testing.T) {
	s := newSpools(0)
	defer s.close()
	create := memSpool(t)
	for i, tt := range []struct {
		key    spoolKey
		joined bool
	}{{spoolKey{1}, false}, {spoolKey{2}, false}, {spoolKey{1}, true}} {
		f, joined, err := s.join(t.Context(), tt.key, create, pattern(100))
		if err != nil || joined != tt.joined {
			t.Errorf("join %d: joined = %v, %v; want %v", i, joined, err, tt.joined)
		}
		defer f.leave()
	}
}

// TestSpoolCancellation: a client that goes is missed by nobody, and when the
// last one has gone, so is the computation.
func TestSpoolCancellation(t *testing.T) {
	s := newSpools(0)
	defer s.close()
	ended, go1 := make(chan error, 1), make(chan struct{})
	compute := func(ctx context.Context, w io.Writer) error {
		if err := pattern(1<<20)(ctx, w); err != nil {
			return err
		}
		close(go1)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	create := memSpool(t)
	firstCtx, cancelFirst := context.WithCancel(t.Context())
	f, _, err := s.join(firstCtx, spoolKey{1}, create, compute)
	if err != nil {
		t.Fatal(err)
	}
	g, joined, err := s.join(t.Context(), spoolKey{1}, create, compute)
	if err != nil || !joined {
		t.Fatalf("second: joined = %v, %v", joined, err)
	}
	<-go1
	cancelFirst()
	if err := (&follower{f: f}).copyTo(firstCtx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled reader: %v", err)
	}
	f.leave()
	select {
	case err := <-ended:
		t.Fatalf("the computation ended with its first reader: %v", err)
	default:
	}
	secondCtx, cancelSecond := context.WithCancel(t.Context())
	var got collector
	read := make(chan error, 1)
	go func() { read <- (&follower{f: g}).copyTo(secondCtx, &got) }()
	for n := 0; n < 1<<19; {
		got.mu.Lock()
		n = got.got.Len()
		got.mu.Unlock()
		runtime.Gosched()
	}
	cancelSecond()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Errorf("second reader: %v", err)
	}
	g.leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("computation: %v", err)
	}
	s.running.Wait()
	checkEmpty(t, s)
}

// checkEmpty makes sure that no spool is left.
func checkEmpty(t *testing.T, s *spools) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used != 0 || len(s.flights) != 0 || len(s.idle) != 0 {
		t.Errorf("%d bytes, %d flights, %d idle are left", s.used, len(s.flights), len(s.idle))
	}
}

// TestSpoolErrors: an error of the computation reaches those who have read
// something; a slow or failing client is its own matter.
func TestSpoolErrors(t *testing.T) {
	s := newSpools(0)
	defer s.close()
	broken := errors.New("broken")
	f, _, err := s.join(t.Context(), spoolKey{1}, memSpool(t), func(ctx context.Context, w io.Writer) error {
		return errors.Join(pattern(1<<10)(ctx, w), broken)
	})
	if err != nil {
		t.Fatal(err)
	}
	var got collector
	var failed *flightError
	if err := (&follower{f: f}).copyTo(t.Context(), &got); !errors.As(err, &failed) || !errors.Is(err, broken) || got.got.Len() != 1<<10 {
		t.Errorf("after %d bytes: %v, want %v after %d", got.got.Len(), err, broken, 1<<10)
	}
	mine := errors.New("connection lost")
	err = (&follower{f: f}).copyTo(t.Context(), &collector{fail: mine})
	if !errors.Is(err, mine) || errors.As(err, &failed) {
		t.Errorf("client that fails: %v, want %v", err, mine)
	}
	// Whoever comes now starts anew.
	g, joined, err := s.join(t.Context(), spoolKey{1}, memSpool(t), pattern(10))
	if err != nil || joined {
		t.Errorf("after a failure: joined = %v, %v", joined, err)
	}
	g.leave()
	f.leave()
}

func TestSpoolPanic(t *testing.T) {
	s := newSpools(0)
	f, _, err := s.join(t.Context(), spoolKey{1}, memSpool(t), func(context.Context, io.Writer) error { panic("oh") })
	if err != nil {
		t.Fatal(err)
	}
	var failed *flightError
	if err := (&follower{f: f}).copyTo(t.Context(), io.Discard); !errors.As(err, &failed) {
		t.Errorf("err = %v, want a flightError", err)
	}
	f.leave()
	s.close()
	checkEmpty(t, s)
}

// TestSpoolFull: what doesn't fit is computed by each reader from where the
// spool ended.
func TestSpoolFull(t *testing.T) {
	s := newSpools(3 * spoolBuffer)
	f, _, err := s.join(t.Context(), spoolKey{1}, memSpool(t), pattern(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	var got collector
	r := &follower{f: f}
	var full *spoolError
	if err := r.copyTo(t.Context(), &got); !errors.As(err, &full) || !errors.Is(err, errSpoolFull) {
		t.Fatalf("copyTo: %v, want a spoolError", err)
	}
	if got.got.Len() != 3*spoolBuffer {
		t.Errorf("read %d bytes of a spool for %d", got.got.Len(), 3*spoolBuffer)
	}
	if err := pattern(1<<20)(t.Context(), r.resume(&got)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.got.Bytes(), patternBytes(t, 1<<20)) {
		t.Errorf("%d bytes, and not those wanted", got.got.Len())
	}
	f.leave()
	s.close()
	checkEmpty(t, s)
}

// TestResumeDiffers: an answer that turns out another one must not go on.
func TestResumeDiffers(t *testing.T) {
	s := newSpools(2 * spoolBuffer)
	defer s.close()
	f, _, err := s.join(t.Context(), spoolKey{1}, memSpool(t), pattern(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer f.leave()
	r := &follower{f: f}
	_ = r.copyTo(t.Context(), io.Discard)
	if r.off == 0 {
		t.Fatal("nothing was read")
	}
	if _, err := r.resume(io.Discard).Write(make([]byte, 1<<20)); !errors.Is(err, errResume) {
		t.Errorf("err = %v, want %v", err, errResume)
	}
}

// TestSpoolIdle: what is finished serves for a while, and makes room for what
// is needed.
func TestSpoolIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpools(4 * spoolBuffer)
		create := memSpool(t)
		read := func(key byte) (joined bool) {
			f, joined, err := s.join(t.Context(), spoolKey{key}, create, pattern(3*spoolBuffer))
			if err != nil {
				t.Fatal(err)
			}
			defer f.leave()
			if err := (&follower{f: f}).copyTo(t.Context(), io.Discard); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return joined
		}
		for i, tt := range []struct {
			key  byte
			wait time.Duration // before
			want bool
		}{
			{1, 0, false}, {1, idleTime - 1, true}, {1, idleTime - 1, true}, {1, idleTime + 1, false},
			{2, 0, false}, {1, 0, false}, {2, 0, false},
		} {
			time.Sleep(tt.wait)
			if got := read(tt.key); got != tt.want {
				t.Errorf("step %d: joined = %v, want %v", i, got, tt.want)
			}
		}
		time.Sleep(idleTime + 1)
		checkEmpty(t, s)
		read(3)
		s.close()
		checkEmpty(t, s)
	})
}
