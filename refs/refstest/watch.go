package refstest

import (
	"context"

	"vcsd/refs"
)

var watchCases = []testCase{
	{name: "tips are told in order", run: func(b *bench) {
		x, y := b.node(refs.Options{}), b.node(refs.Options{})
		ctx, cancel := context.WithCancel(b.ctx)
		tips := y.WatchTips(ctx, b.repo)
		tip := refs.Tip{}
		for i := range byte(5) {
			tip = b.mustPush(x, tip, i)
			if got := <-tips; got != tip {
				b.Fatalf("told seq %d, want %d", got.Seq, tip.Seq)
			}
		}
		b.must(x.Delete(b.ctx, b.repo))
		if got := <-tips; got != (refs.Tip{}) {
			b.Errorf("told seq %d after delete, want none", got.Seq)
		}
		cancel()
		if got, ok := <-tips; ok {
			b.Errorf("told seq %d after the end", got.Seq)
		}
	}},
	{name: "the tip that stands is told first, and the last one in the end", run: func(b *bench) {
		x := b.node(refs.Options{})
		tip := b.mustPush(x, refs.Tip{}, 1)
		tips := x.WatchTips(b.ctx, b.repo)
		if got := <-tips; got != tip {
			b.Fatalf("told seq %d, want %d", got.Seq, tip.Seq)
		}
		for i := range byte(20) {
			tip = b.mustPush(x, tip, i)
		}
		for last := uint64(0); last != tip.Seq; {
			got := <-tips
			if got.Seq <= last {
				b.Fatalf("told seq %d after %d", got.Seq, last)
			}
			last = got.Seq
		}
	}},
	{name: "a watch that breaks is made anew", run: func(b *bench) {
		n := 0
		x := b.node(refs.Options{Fault: func(r refs.Request) refs.Fault {
			if r.Name == "watch" {
				if n++; n < 4 {
					return refs.FaultLoseRequest
				}
			}
			return refs.FaultNone
		}})
		tip := b.mustPush(x, refs.Tip{}, 1)
		if got := <-x.WatchTips(b.ctx, b.repo); got != tip {
			b.Fatalf("told seq %d, want %d", got.Seq, tip.Seq)
		}
	}},
}
