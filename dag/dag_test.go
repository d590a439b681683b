package dag

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"vcsd/hg"

	"pgregory.net/rapid"
)

// parents is a Graph that counts how often it is asked.
type parents struct {
	of    [][2]hg.Rev
	asked int
}

func (g *parents) Len() int { return len(g.of) }

func (g *parents) Parents(r hg.Rev) (hg.Rev, hg.Rev) {
	g.asked++
	return g.of[r][0], g.of[r][1]
}

// drawGraph draws a graph in which far parents, merges and further roots
// happen now and then.
func drawGraph(t *rapid.T) *parents {
	n := rapid.IntRange(0, 40).Draw(t, "n")
	g := &parents{of: make([][2]hg.Rev, n)}
	near := rapid.IntRange(1, 10).Draw(t, "near")
	for i := range n {
		g.of[i] = [2]hg.Rev{hg.NullRev, hg.NullRev}
		for k := range rapid.IntRange(0, 2).Draw(t, "parents") {
			low := max(-1, i-near)
			if rapid.IntRange(0, 9).Draw(t, "far") == 0 {
				low = -1
			}
			g.of[i][k] = hg.Rev(rapid.IntRange(low, i-1).Draw(t, "parent"))
		}
	}
	return g
}

func drawRevs(t *rapid.T, g Graph, name string) []hg.Rev {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hg.Rev {
		return hg.Rev(rapid.IntRange(-1, g.Len()-1).Draw(t, "rev"))
	}), 0, 6).Draw(t, name)
}

// reach is the dumb twin of all: ancestors by recursion, in a map.
func reach(g Graph, r hg.Rev, into map[hg.Rev]bool) {
	if r == hg.NullRev || into[r] {
		return
	}
	into[r] = true
	p1, p2 := g.Parents(r)
	reach(g, p1, into)
	reach(g, p2, into)
}

func dumbAncestors(g Graph, revs []hg.Rev) map[hg.Rev]bool {
	m := make(map[hg.Rev]bool)
	for _, r := range revs {
		reach(g, r, m)
	}
	return m
}

func filter(n int, keep func(hg.Rev) bool) []hg.Rev {
	var revs []hg.Rev
	for r := range hg.Rev(n) {
		if keep(r) {
			revs = append(revs, r)
		}
	}
	return revs
}

func same(t *rapid.T, what string, got, want []hg.Rev) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s = %v, want %v", what, got, want)
	}
}

func TestAgainstDumbTwins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		a, b := drawRevs(t, g, "a"), drawRevs(t, g, "b")
		ofA, ofB := dumbAncestors(g, a), dumbAncestors(g, b)
		same(t, "Ancestors", Ancestors(g, a).Revs(), filter(g.Len(), func(r hg.Rev) bool { return ofA[r] }))
		same(t, "Missing", Missing(g, a, b), filter(g.Len(), func(r hg.Rev) bool { return ofB[r] && !ofA[r] }))
		same(t, "HeadsOf", HeadsOf(g, a), filter(g.Len(), func(r hg.Rev) bool {
			return slices.Contains(a, r) && !slices.ContainsFunc(a, func(o hg.Rev) bool {
				return o != r && dumbAncestors(g, []hg.Rev{o})[r]
			})
		}))
		// All but heads are doubtful, and some heads.
		heads := HeadsOf(g, a)
		doubtful := slices.DeleteFunc(slices.Clone(a), func(r hg.Rev) bool { return slices.Contains(heads, r) && !ofB[r] })
		same(t, "HeadsAmong", HeadsAmong(g, a, doubtful), heads)
		descends := func(r hg.Rev) bool {
			of := dumbAncestors(g, []hg.Rev{r})
			return slices.ContainsFunc(a, func(o hg.Rev) bool { return of[o] })
		}
		same(t, "Descendants", Descendants(g, a).Revs(), filter(g.Len(), descends))
		same(t, "Roots", Roots(g, SetOf(b...)), filter(g.Len(), func(r hg.Rev) bool {
			p1, p2 := g.Parents(r)
			has := func(r hg.Rev) bool { return r >= 0 && slices.Contains(b, r) }
			return has(r) && !has(p1) && !has(p2)
		}))
	})
}

func TestHeadsAgainstDumbTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		hidden := drawRevs(t, g, "hidden")
		visible := func(r hg.Rev) bool { return !slices.Contains(hidden, r) }
		hasChild := func(r hg.Rev) bool {
			return slices.ContainsFunc(filter(g.Len(), visible), func(c hg.Rev) bool {
				return g.of[c][0] == r || g.of[c][1] == r
			})
		}
		same(t, "Heads", Heads(g, visible), filter(g.Len(), func(r hg.Rev) bool { return visible(r) && !hasChild(r) }))
		hidden = nil
		same(t, "Heads of all", Heads(g, nil), filter(g.Len(), func(r hg.Rev) bool { return !hasChild(r) }))
	})
}

func TestSetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := NewSet(rapid.IntRange(0, 3*pageRevs).Draw(t, "room")), make(map[hg.Rev]bool)
		rev := rapid.Custom(func(t *rapid.T) hg.Rev {
			page := rapid.IntRange(0, 5).Draw(t, "page") << pageShift
			return hg.Rev(page + rapid.SampledFrom([]int{-1, 0, 1, 62, 63, 64, 65, 127, pageRevs - 1}).Draw(t, "at"))
		})
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			r := rev.Draw(t, "rev")
			if rapid.Bool().Draw(t, "add") {
				if got, want := s.Add(r), r >= 0 && !m[r]; got != want {
					t.Fatalf("Add(%d) = %v, want %v", r, got, want)
				}
				if r >= 0 {
					m[r] = true
				}
				continue
			}
			if got := s.Remove(r); got != m[r] {
				t.Fatalf("Remove(%d) = %v, want %v", r, got, m[r])
			}
			delete(m, r)
		}
		var want []hg.Rev
		for r := range m {
			want = append(want, r)
		}
		slices.Sort(want)
		c := s.Clone()
		c.Add(7*pageRevs + 1)
		same(t, "Revs", s.Revs(), want)
		if s.Len() != len(want) {
			t.Fatalf("Len = %d, want %d", s.Len(), len(want))
		}
		at := rev.Draw(t, "at")
		i, _ := slices.BinarySearch(want, at+1)
		prev := hg.NullRev
		if i > 0 {
			prev = want[i-1]
		}
		if got := s.prev(at); got != prev {
			t.Fatalf("prev(%d) in %v = %d, want %d", at, want, got, prev)
		}
	})
}

func TestNilSet(t *testing.T) {
	var s *Set
	if s.Has(0) || s.Len() != 0 || len(s.Revs()) != 0 || s.Clone().Len() != 0 {
		t.Error("a nil Set has members")
	}
}

// history returns a graph of n revs in which each of lines of development
// goes on in turn, now and then merged.
func history(n, lines int) *parents {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	g := &parents{of: make([][2]hg.Rev, n)}
	for i := range n {
		g.of[i] = [2]hg.Rev{max(hg.NullRev, hg.Rev(i-lines)), hg.NullRev}
		if i > lines && rng.IntN(20) == 0 {
			g.of[i][1] = hg.Rev(i - 1 - rng.IntN(lines))
		}
	}
	return g
}

// TestMissingCost holds Missing to its promise: ten changesets pulled cost the
// same in a short history and in a long one.
func TestMissingCost(t *testing.T) {
	for _, n := range []int{1_000, 100_000} {
		g := history(n, 3)
		common := []hg.Rev{hg.Rev(n - 11), hg.Rev(n - 12), hg.Rev(n - 13)}
		got := Missing(g, common, Heads(g, nil))
		if len(got) != 10 {
			t.Errorf("n=%d: %d missing, want 10", n, len(got))
		}
		g.asked = 0
		heads := []hg.Rev{hg.Rev(n - 1), hg.Rev(n - 2), hg.Rev(n - 3)}
		Missing(g, common, heads)
		if g.asked > 20 {
			t.Errorf("n=%d: %d revs walked for 10 missing, want at most 20", n, g.asked)
		}
	}
}

func BenchmarkMissing(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			g := history(n, 3)
			common := []hg.Rev{hg.Rev(n - 11), hg.Rev(n - 12), hg.Rev(n - 13)}
			heads := []hg.Rev{hg.Rev(n - 1), hg.Rev(n - 2), hg.Rev(n - 3)}
			b.ReportAllocs()
			for b.Loop() {
				Missing(g, common, heads)
			}
		})
	}
}

func BenchmarkHeads(b *testing.B) {
	for _, lines := range []int{3, 20_000} {
		b.Run(fmt.Sprintf("history=100000/heads=%d", lines), func(b *testing.B) {
			g := history(100_000, lines)
			b.ReportAllocs()
			for b.Loop() {
				Heads(g, nil)
			}
		})
	}
}
