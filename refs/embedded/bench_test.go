package embedded_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"vcsd/refs"
)

// BenchmarkPublish publishes batches of pushes, each with its branch, its lock
// and its outcome. An operation is one batch, with its transaction alone; the
// locks are taken beforehand.
func BenchmarkPublish(b *testing.B) {
	m := join(b, tempDir(b))
	for _, pushes := range []int{1, 16, 60, 300} {
		b.Run(fmt.Sprintf("pushes=%d", pushes), func(b *testing.B) {
			c := client(b, m.Endpoint(), refs.Options{})
			repo := refs.RepoID(fmt.Sprintf("publish-%d", pushes))
			var branches []string
			for i := range pushes {
				branches = append(branches, fmt.Sprintf("branch-%03d", i))
			}
			tip, _, err := c.Tip(b.Context(), repo)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				p := batch(b, c, repo, tip, branches)
				b.StartTimer()
				if err := c.Publish(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				tip = p.New
			}
			b.ReportMetric(float64(pushes*b.N)/b.Elapsed().Seconds(), "pushes/s")
		})
	}
}

func batch(b *testing.B, c *refs.Client, repo refs.RepoID, old refs.Tip, branches []string) refs.Publication {
	l, err := c.Acquire(b.Context(), repo, branches)
	if err != nil {
		b.Fatal(err)
	}
	p := refs.Publication{Repo: repo, Old: old, New: publishedTip(old.Seq + 1), Leases: []*refs.Lease{l}}
	for i, branch := range branches {
		p.Heads = append(p.Heads, refs.HeadChange{Branch: branch, Value: make([]byte, 20)})
		p.Outcomes = append(p.Outcomes, refs.Outcome{Key: [32]byte{byte(i), byte(i >> 8), byte(p.New.Seq), byte(p.New.Seq >> 8)}, Value: make([]byte, 40)})
	}
	return p
}

// BenchmarkHandOver passes one branch's lock round 64 waiters, in one process
// and spread over several. An operation is one acquisition and its release.
func BenchmarkHandOver(b *testing.B) {
	m := join(b, tempDir(b))
	for _, nodes := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("nodes=%d/waiters=64", nodes), func(b *testing.B) {
			var clients []*refs.Client
			for range nodes {
				clients = append(clients, client(b, m.Endpoint(), refs.Options{}))
			}
			handOver(b, clients, 64)
		})
	}
}

func handOver(b *testing.B, clients []*refs.Client, waiters int) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	turns := make(chan bool)
	for i := range waiters {
		c := clients[i%len(clients)]
		wg.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				l, err := c.Acquire(ctx, "handover", []string{"default"})
				if err != nil {
					continue // ctx ended
				}
				mu.Lock()
				longest = max(longest, time.Since(start))
				mu.Unlock()
				select {
				case turns <- true:
				case <-ctx.Done():
				}
				_ = l.Release(context.WithoutCancel(ctx))
			}
		})
	}
	for b.Loop() {
		<-turns
	}
	stop()
	wg.Wait()
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
}

// BenchmarkAcquire takes and gives back a lock that nobody else wants.
func BenchmarkAcquire(b *testing.B) {
	c := client(b, join(b, tempDir(b)).Endpoint(), refs.Options{})
	for b.Loop() {
		l, err := c.Acquire(b.Context(), "acquire", []string{"default"})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTip reads the tip, linearizably, with many readers at once.
func BenchmarkTip(b *testing.B) {
	c := client(b, join(b, tempDir(b)).Endpoint(), refs.Options{})
	for _, readers := range []int{1, 64} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			b.SetParallelism(readers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, _, err := c.Tip(b.Context(), "tip"); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkJoin starts and stops etcd on a directory that has data.
func BenchmarkJoin(b *testing.B) {
	dir := tempDir(b)
	for b.Loop() {
		m := join(b, dir)
		b.StopTimer()
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
