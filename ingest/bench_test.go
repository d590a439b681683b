package ingest

import (
	"bytes"
	"fmt"
	"testing"

	"vcsd/bench/history"
	"vcsd/hg"
)

// wovenPush is the push of a history as vcsd/bench makes them.
func wovenPush(b *testing.B, changesets int) []byte {
	b.Helper()
	var bundle bytes.Buffer
	if err := (history.Woven{Seed: 1, Changesets: changesets, Files: 200, Lines: 3}).WriteBundle(&bundle); err != nil {
		b.Fatal(err)
	}
	return bundle.Bytes()
}

// BenchmarkPush pushes one changeset after the other on top of a history, in
// memory: what a push costs beside syncs and etcd.
func BenchmarkPush(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("history=%d/changesets=1", n), func(b *testing.B) {
			node := newNode(b)
			node.push(wovenPush(b, n))
			tip := lastOf(b, node)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bundle := tip.Grow(fmt.Sprint(i))
				b.SetBytes(int64(len(bundle)))
				node.push(bundle)
			}
		})
	}
}

// lastOf returns a tip at the node's last changeset.
func lastOf(b *testing.B, n *node) *history.Tip {
	b.Helper()
	v := n.view()
	last := hg.Rev(v.Changelog().Len() - 1)
	text, err := v.Changelog().Text(last)
	if err != nil {
		b.Fatal(err)
	}
	manifest, err := hg.ParseNode(text[:2*hg.NodeLen])
	if err != nil {
		b.Fatal(err)
	}
	rev, ok := v.Manifest().Rev(manifest)
	if !ok {
		b.Fatalf("no manifest %s", manifest)
	}
	if text, err = v.Manifest().Text(rev); err != nil {
		b.Fatal(err)
	}
	return history.NewTip(v.Changelog().Node(last), manifest, text, "default", "pushed/file")
}

// BenchmarkFirstPush pushes a whole history into an empty repository, in memory.
func BenchmarkFirstPush(b *testing.B) {
	const n = 1_000
	b.Run(fmt.Sprintf("changesets=%d", n), func(b *testing.B) {
		bundle := wovenPush(b, n)
		b.SetBytes(int64(len(bundle)))
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			node := newNode(b)
			b.StartTimer()
			node.push(bundle)
			b.StopTimer()
			node.close()
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/changeset")
	})
}
