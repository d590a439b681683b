package refstest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	"vcsd/refs"
)

var publishCases = []testCase{
	{name: "publish moves the tip for all nodes", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		b.wantTip(x, refs.Tip{})
		t1 := b.mustPush(x, refs.Tip{}, 1, b.lock(x, "default"))
		b.wantTip(y, t1)
		t2 := b.mustPush(y, t1, 2, b.lock(y, "default"))
		b.wantTip(x, t2)
	}},
	{name: "publish on an old tip tells the new one", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		t1 := b.mustPush(x, refs.Tip{}, 1)
		l := b.lock(y, "stable")
		var moved *refs.TipMovedError
		if _, err := b.push(y, refs.Tip{}, 2, l); !errors.As(err, &moved) || moved.Tip != t1 || !errors.Is(err, refs.ErrTipMoved) {
			b.Fatalf("publish on nothing: %v, want a TipMovedError with seq 1", err)
		}
		t2 := b.mustPush(x, t1, 3)
		if _, err := b.push(y, t1, 4, l); !errors.As(err, &moved) || moved.Tip != t2 {
			b.Fatalf("publish on seq 1: %v, want a TipMovedError with seq 2", err)
		}
		b.must(l.Err())
		b.mustPush(y, t2, 5, l)
		if err := l.Err(); !errors.Is(err, refs.ErrReleased) {
			b.Errorf("lease after publish: %v, want ErrReleased", err)
		}
	}},
	{name: "head keys are read with the lock", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(x, "a", "b/c")
		for _, branch := range l.Branches() {
			if h := l.Heads(branch); h != nil {
				b.Errorf("head of %q = %q before any publication", branch, h)
			}
		}
		t1 := b.mustPush(x, refs.Tip{}, 1, l)
		l = b.lock(y, "b/c", "a", "a")
		for _, branch := range []string{"a", "b/c"} {
			if h := l.Heads(branch); !bytes.Equal(h, headOf(t1)) {
				b.Errorf("head of %q = %q, want %q", branch, h, headOf(t1))
			}
		}
		b.must(y.Publish(b.ctx, refs.Publication{Repo: b.repo, Old: t1, New: after(t1, 2), Leases: []*refs.Lease{l},
			Heads: []refs.HeadChange{{Branch: "a"}}}))
		l = b.lock(x, "a", "b/c")
		if a, bc := l.Heads("a"), l.Heads("b/c"); a != nil || !bytes.Equal(bc, headOf(t1)) {
			b.Errorf("heads after a removal = %q, %q; want none, %q", a, bc, headOf(t1))
		}
	}},
	{name: "head keys are restored", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		st, err := x.State(b.ctx, b.repo)
		if b.must(err); st.Tip != (refs.Tip{}) || len(st.Heads) != 0 {
			b.Errorf("state before any publication: %+v", st)
		}
		t1 := b.mustPush(x, refs.Tip{}, 1, b.lock(x, "a", "b/c"))
		want := map[string][]byte{"b/c": headOf(t1)}
		for i := range 300 { // more than a transaction takes
			want[fmt.Sprintf("branch %d", i)] = []byte("restored")
		}
		b.must(y.RestoreHeads(b.ctx, b.repo, t1, want))
		st, err = x.State(b.ctx, b.repo)
		if b.must(err); st.Tip != t1 || !maps.EqualFunc(st.Heads, want, bytes.Equal) {
			b.Errorf("state: %+v, want %d heads and seq 1", st, len(want))
		}
		var moved *refs.TipMovedError
		if err := y.RestoreHeads(b.ctx, b.repo, after(t1, 2), nil); !errors.As(err, &moved) || moved.Tip != t1 {
			b.Errorf("at another tip: %v, want a TipMovedError with seq 1", err)
		}
	}},
	{name: "a head that moved without the lock is noticed", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(x, "default")
		t1 := after(refs.Tip{}, 1)
		b.must(y.Publish(b.ctx, refs.Publication{Repo: b.repo, New: t1,
			Heads: []refs.HeadChange{{Branch: "default", Value: []byte("adopted")}}}))
		if _, err := b.push(x, refs.Tip{}, 2, l); !errors.Is(err, refs.ErrHeadMoved) || !errors.Is(err, refs.ErrTipMoved) {
			b.Fatalf("publish: %v, want ErrHeadMoved and ErrTipMoved", err)
		}
		if h := l.Heads("default"); string(h) != "adopted" {
			b.Errorf("head after the failure = %q, want it read anew", h)
		}
		b.mustPush(x, t1, 3, l)
	}},
	{name: "a lock that was taken away is noticed", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		zombie, fine := b.lock(x, "a"), b.lock(x, "b")
		b.must(y.Delete(b.ctx, b.repo)) // takes all locks away
		b.lock(y, "a")
		if _, err := b.push(x, refs.Tip{}, 1, zombie); !errors.Is(err, refs.ErrLeaseLost) {
			b.Fatalf("publish: %v, want ErrLeaseLost", err)
		}
		if err := zombie.Err(); !errors.Is(err, refs.ErrLeaseLost) {
			b.Errorf("lease: %v, want ErrLeaseLost", err)
		}
		b.must(fine.Err()) // nobody looked
		b.wantTip(x, refs.Tip{})
	}},
	{name: "delete forgets all", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		p := refs.Publication{Repo: b.repo, New: after(refs.Tip{}, 1), Outcomes: []refs.Outcome{{Key: [32]byte{1}, Value: []byte("ok")}},
			Heads: []refs.HeadChange{{Branch: "a", Value: []byte("h")}}}
		b.must(x.Publish(b.ctx, p))
		b.must(y.Delete(b.ctx, b.repo))
		b.wantTip(x, refs.Tip{})
		if _, ok, err := x.Outcome(b.ctx, b.repo, [32]byte{1}); ok || err != nil {
			b.Errorf("outcome after delete: %v, %v", ok, err)
		}
		b.must(x.Publish(b.ctx, p))
	}},
	{name: "outcomes are found by key", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		key := [32]byte{7}
		if _, ok, err := x.Outcome(b.ctx, b.repo, key); ok || err != nil {
			b.Fatalf("outcome before publish: %v, %v", ok, err)
		}
		b.must(x.Publish(b.ctx, refs.Publication{Repo: b.repo, New: after(refs.Tip{}, 1),
			Outcomes: []refs.Outcome{{Key: key, Value: []byte("added 1")}}}))
		v, ok, err := y.Outcome(b.ctx, b.repo, key)
		if string(v) != "added 1" || !ok || err != nil {
			b.Errorf("outcome = %q, %v, %v", v, ok, err)
		}
	}},
	{name: "outcomes expire", bubble: true, run: func(b *bench) {
		x := b.node(refs.Options{Retention: 10 * time.Minute})
		tip := refs.Tip{}
		for n := range byte(3) {
			p := refs.Publication{Repo: b.repo, Old: tip, New: after(tip, 1), Outcomes: []refs.Outcome{{Key: [32]byte{n}, Value: []byte("x")}}}
			b.must(x.Publish(b.ctx, p))
			tip = p.New
			time.Sleep(9 * time.Minute)
			for m := range byte(3) {
				_, ok, err := x.Outcome(b.ctx, b.repo, [32]byte{m})
				if want := m == n; ok != want || err != nil {
					b.Errorf("outcome %d after %d publications = %v, %v; want %v", m, n+1, ok, err, want)
				}
			}
		}
		// After longer than anything is kept, the next publication stands.
		time.Sleep(25 * time.Minute)
		b.mustPush(x, tip, 2)
	}},
	{name: "a batch larger than a transaction", run: func(b *bench) { largeBatch(b, 300, 100) }},
	{name: "a batch of long values", run: func(b *bench) { largeBatch(b, 40, refs.MaxValueBytes) }},
	{name: "nonsense is refused", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		l := b.lock(x, "a")
		t1 := after(refs.Tip{}, 1)
		for name, p := range map[string]refs.Publication{
			"no repository":   {New: t1},
			"bad repository":  {Repo: "a/b", New: t1},
			"seq":             {Repo: b.repo, Old: t1, New: t1},
			"foreign lease":   {Repo: b.repo, New: t1, Leases: []*refs.Lease{b.lock(y, "b")}},
			"lease twice":     {Repo: b.repo, New: t1, Leases: []*refs.Lease{l, l}},
			"head twice":      {Repo: b.repo, New: t1, Heads: []refs.HeadChange{{Branch: "a"}, {Branch: "a"}}},
			"long head":       {Repo: b.repo, New: t1, Heads: []refs.HeadChange{{Branch: "a", Value: make([]byte, refs.MaxValueBytes+1)}}},
			"outcome twice":   {Repo: b.repo, New: t1, Outcomes: []refs.Outcome{{}, {}}},
			"changelog below": {Repo: b.repo, New: refs.Tip{Seq: 1, ChangelogLen: -1}},
		} {
			if err := x.Publish(b.ctx, p); err == nil {
				b.Errorf("%s: published", name)
			}
		}
		b.wantTip(x, refs.Tip{})
	}},
}

// largeBatch publishes n branches of n leases with n outcomes.
func largeBatch(b *bench, n, size int) {
	x, y := b.node(refs.Options{}), b.node(refs.Options{})
	value := func(i int) []byte { return fmt.Appendf(make([]byte, 0, size), "%0*d", size, i) }
	p := refs.Publication{Repo: b.repo, New: after(refs.Tip{}, 1)}
	var branches []string
	for i := range n {
		branch := fmt.Sprintf("branch-%03d", i)
		branches = append(branches, branch)
		if i%7 != 0 { // the others are not leased
			p.Leases = append(p.Leases, b.lock(x, branch))
		}
		p.Heads = append(p.Heads, refs.HeadChange{Branch: branch, Value: value(i)})
		p.Outcomes = append(p.Outcomes, refs.Outcome{Key: [32]byte{byte(i), byte(i >> 8)}, Value: value(i + 1)})
	}
	// Somebody waits here for one that fits and for one that doesn't.
	first, last := b.lockLater(b.ctx, x, branches[1]), b.lockLater(b.ctx, x, branches[n-1-n%7])
	b.must(x.Publish(b.ctx, p))
	b.unlock(b.got(first), b.got(last))
	l, err := y.Acquire(b.ctx, b.repo, branches)
	b.must(err)
	for i, branch := range branches {
		if h := l.Heads(branch); !bytes.Equal(h, value(i)) {
			b.Errorf("head of %q = %.20q..., want %.20q...", branch, h, value(i))
		}
		v, ok, err := y.Outcome(b.ctx, b.repo, p.Outcomes[i].Key)
		if !ok || err != nil || !bytes.Equal(v, value(i+1)) {
			b.Errorf("outcome %d = %.20q..., %v, %v", i, v, ok, err)
		}
	}
}
