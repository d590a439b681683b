package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire/compression"
)

// TestIdenticalPulls: many who ask for the same at once cost one computation,
// and each gets what it would have got alone.
func TestIdenticalPulls(t *testing.T) {
	for _, e := range []compression.Engine{compression.None, compression.Zlib, compression.Zstd} {
		r, _ := openRepo(t, "names")
		p := NewPulls(0)
		p.least = 1
		const clients = 200
		sinks := make([]*fakeSink, clients)
		var wg sync.WaitGroup
		for i := range clients {
			sinks[i] = newSink(e)
			wg.Go(func() {
				v, err := r.View(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer v.Close()
				if err := p.Answer(t.Context(), Pull{View: v, Args: full(), Keys: noKeys}, sinks[i]); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p.Close()
		if s := p.Stats(); s != (PullStats{Computed: 1, Joined: clients - 1}) {
			t.Errorf("%v: %+v, want one computation", e, s)
		}
		for i, s := range sinks {
			if !bytes.Equal(s.Bytes(), sinks[0].Bytes()) {
				t.Fatalf("%v: answers 0 and %d differ", e, i)
			}
		}
		want := getBundle(t, viewOf(t, r), full())
		if got := sinks[0].parts(t); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%v: shared answer differs from one made alone", e)
		}
	}
}

// TestDifferentPulls: what may be different is not shared.
func TestDifferentPulls(t *testing.T) {
	r, h := openRepo(t, "branches")
	p := NewPulls(0)
	defer p.Close()
	p.least = 1
	v := viewOf(t, r)
	nodes := v.Heads()
	tests := []struct {
		name   string
		change func(*Args)
		joined bool
	}{
		{"first", func(*Args) {}, false},
		{"the same", func(*Args) {}, true},
		{"no heads", func(a *Args) { a.Heads = nodes[:1] }, false},
		{"common", func(a *Args) { a.Common = nodes[:1] }, false},
		{"bookmarks", func(a *Args) { a.Bookmarks = true }, false},
		{"phases", func(a *Args) { a.Phases = true }, false},
		{"phases of a publishing repository", func(a *Args) { a.Phases, a.Publishing = true, true }, false},
		{"version", func(a *Args) { a.Caps["changegroup"] = []string{"01"} }, false},
		{"bundle1", func(a *Args) { a.Bundle2 = false }, false},
		{"heads in one order", func(a *Args) { a.Heads = []hg.Node{nodes[0], nodes[1]} }, false},
		{"heads in another order", func(a *Args) { a.Heads = []hg.Node{nodes[1], nodes[0]} }, true},
	}
	for _, tt := range tests {
		a := full()
		tt.change(&a)
		before := p.Stats().Joined
		if err := p.Answer(t.Context(), Pull{View: v, Args: a, Keys: noKeys}, newSink(compression.Zstd)); err != nil {
			t.Fatal(err)
		}
		if joined := p.Stats().Joined > before; joined != tt.joined {
			t.Errorf("%s: joined = %v, want %v", tt.name, joined, tt.joined)
		}
	}
	before := p.Stats().Joined
	if err := p.Answer(t.Context(), Pull{View: v, Args: full(), Keys: noKeys}, newSink(compression.Zlib)); err != nil {
		t.Fatal(err)
	}
	h.Run("bookmark", "-r", "0", "another")
	if err := p.Answer(t.Context(), Pull{View: viewOf(t, r), Args: full(), Keys: noKeys}, newSink(compression.Zstd)); err != nil {
		t.Fatal(err)
	}
	if p.Stats().Joined > before {
		t.Error("another compression, or another state of the repository, was shared")
	}
}

// TestPullWithoutSpool: where there is no room everyone is on his own.
func TestPullWithoutSpool(t *testing.T) {
	r, _ := openRepo(t, "linear")
	p := NewPulls(1)
	p.least = 1
	defer p.Close()
	v := viewOf(t, r)
	sink := newSink(compression.Zstd)
	if err := p.Answer(t.Context(), Pull{View: v, Args: full(), Keys: noKeys}, sink); err != nil {
		t.Fatal(err)
	}
	if got, want := sink.parts(t), getBundle(t, v, full()); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Error("an answer whose spool was full differs")
	}
}

// TestPullOutlivesItsFirst: the one who started a computation may go, and with
// him the View that it was to be made from.
func TestPullOutlivesItsFirst(t *testing.T) {
	r, _ := openRepo(t, "branches")
	p := NewPulls(0)
	release := make(chan struct{})
	heads := func(_ context.Context, v *store.View, w io.Writer) error {
		<-release
		_, err := fmt.Fprint(w, v.Heads())
		return err
	}
	ask := func(ctx context.Context, w io.Writer) (done chan error) {
		done = make(chan error, 1)
		go func() {
			v, err := r.View(ctx)
			if err != nil {
				done <- err
				return
			}
			err = p.share(ctx, &Pull{View: v}, spoolKey{1}, w, heads)
			v.Close()
			done <- err
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := ask(ctx, io.Discard)
	for p.Stats().Computed == 0 {
		runtime.Gosched()
	}
	var got bytes.Buffer
	second := ask(t.Context(), &got)
	for p.Stats().Joined == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("first: %v", err)
	}
	close(release)
	if err := <-second; err != nil {
		t.Errorf("second: %v", err)
	}
	if want := fmt.Sprint(viewOf(t, r).Heads()); got.String() != want {
		t.Errorf("second got %q, want %q", got.String(), want)
	}
	p.Close()
	checkEmpty(t, p.spools)
}

// countingHooks count what they are told.
type countingHooks struct {
	before, after atomic.Int32
	refuse        error
}

func (h *countingHooks) Before(context.Context) error {
	h.before.Add(1)
	return h.refuse
}

func (h *countingHooks) After(context.Context, hg.Node) { h.after.Add(1) }

// TestPullHooks: they hear of each client, whoever computes; a refusal is that
// client's alone.
func TestPullHooks(t *testing.T) {
	r, _ := openRepo(t, "branches")
	p := NewPulls(0)
	defer p.Close()
	p.least = 1
	no := errors.New("no")
	var hooks countingHooks
	for i, h := range []*countingHooks{&hooks, {refuse: no}, &hooks, &hooks} {
		a := full()
		a.Hooks = h
		sink := newSink(compression.Zstd)
		if err := p.Answer(t.Context(), Pull{View: viewOf(t, r), Args: a, Keys: noKeys}, sink); !errors.Is(err, h.refuse) || (sink.Len() == 0) != (h.refuse != nil) {
			t.Errorf("client %d: %v after %d bytes, want %v", i, err, sink.Len(), h.refuse)
		}
	}
	if hooks.before.Load() != 3 || hooks.after.Load() != 3 || p.Stats() != (PullStats{Computed: 1, Joined: 2}) {
		t.Errorf("hooks before %d and after %d answers, %+v; want 3 of which 2 joined", hooks.before.Load(), hooks.after.Load(), p.Stats())
	}
}

// TestPullError: a damaged file is told inside the bundle to all who read it,
// and before its first byte to each as to one alone.
func TestPullError(t *testing.T) {
	r, h := openRepo(t, "linear")
	v := viewOf(t, r)
	var name string
	err := filepath.WalkDir(filepath.Join(h.Dir, ".hg", "store", "data"), func(path string, d os.DirEntry, err error) error {
		if name == "" && strings.HasSuffix(path, ".i") {
			name = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Behind the entry of the first revision: there is no such compression.
	if _, err := f.WriteAt([]byte{0xff}, 64); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p := NewPulls(0)
	defer p.Close()
	p.least = 1
	for range 2 {
		sink := newSink(compression.None)
		if err := p.Answer(t.Context(), Pull{View: v, Args: full(), Keys: noKeys}, sink); err == nil {
			t.Error("a damaged file went unnoticed")
		}
		if !bytes.Contains(sink.Bytes(), []byte("error:abort")) {
			t.Errorf("no error in a bundle of %d bytes", sink.Len())
		}
	}
}

// BenchmarkAnswer shows what sharing costs one who shares with nobody.
func BenchmarkAnswer(b *testing.B) {
	r, _ := openRepo(b, "split")
	v := viewOf(b, r)
	for _, least := range []int{1, 1 << 30} {
		b.Run(fmt.Sprintf("least=%d", least), func(b *testing.B) {
			p := NewPulls(0)
			defer p.Close()
			p.least = least
			a := full()
			for i := 0; b.Loop(); i++ {
				a.Common = []hg.Node{{byte(i), byte(i >> 8), byte(i >> 16), 1}}
				sink := &discardSink{}
				if err := p.Answer(b.Context(), Pull{View: v, Args: a, Keys: noKeys}, sink); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discardSink is a client that takes everything at once.
type discardSink struct{}

func (d *discardSink) Write(p []byte) (int, error)             { return len(p), nil }
func (d *discardSink) ReadFrom(r io.Reader) (int64, error)     { return io.Copy(io.Discard, r) }
func (d *discardSink) Engine() (compression.Engine, int, bool) { return compression.None, 0, true }
func (d *discardSink) Encoded(compression.Engine) bool         { return true }
func (d *discardSink) SetSize(int64)                           {}
