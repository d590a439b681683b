package dag

import (
	"iter"
	"math/bits"

	"vcsd/hg"
)

// Revs are kept in pages that exist only where a rev was added, so that a few
// revs at the end of a long history cost nothing for what is below them.
const (
	pageShift = 12
	pageRevs  = 1 << pageShift
	pageWords = pageRevs / 64
)

type page [pageWords]uint64

// A Set is a set of revs. The zero value is empty and usable. NullRev is
// never a member, and adding it does nothing.
type Set struct {
	pages []*page
	n     int
}

// NewSet returns an empty set with room for revs below n; it grows beyond
// them when it has to.
func NewSet(n int) *Set {
	return &Set{pages: make([]*page, (n+pageRevs-1)>>pageShift)}
}

// SetOf returns the set of revs.
func SetOf(revs ...hg.Rev) *Set {
	s := new(Set)
	for _, r := range revs {
		s.Add(r)
	}
	return s
}

// Len returns the number of members. A nil Set has none.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.n
}

// Has reports whether r is a member. A nil Set has none.
func (s *Set) Has(r hg.Rev) bool {
	if s == nil || r < 0 {
		return false
	}
	i := int(r >> pageShift)
	if i >= len(s.pages) || s.pages[i] == nil {
		return false
	}
	return s.pages[i][r>>6%pageWords]&(1<<(r&63)) != 0
}

// Add makes r a member and reports whether it was none before.
func (s *Set) Add(r hg.Rev) bool {
	if r < 0 {
		return false
	}
	w, bit := s.word(r), uint64(1)<<(r&63)
	if *w&bit != 0 {
		return false
	}
	*w |= bit
	s.n++
	return true
}

// Remove makes r no member and reports whether it was one.
func (s *Set) Remove(r hg.Rev) bool {
	if !s.Has(r) {
		return false
	}
	*s.word(r) &^= 1 << (r & 63)
	s.n--
	return true
}

// word returns the word that holds r's bit, in a page made for it if there is
// none.
func (s *Set) word(r hg.Rev) *uint64 {
	i := int(r >> pageShift)
	if i >= len(s.pages) {
		s.pages = append(s.pages, make([]*page, i+1-len(s.pages))...)
	}
	if s.pages[i] == nil {
		s.pages[i] = new(page)
	}
	return &s.pages[i][r>>6%pageWords]
}

// All iterates over the members, ascending. The set must not be changed
// meanwhile.
func (s *Set) All() iter.Seq[hg.Rev] {
	return func(yield func(hg.Rev) bool) {
		if s == nil {
			return
		}
		for i, p := range s.pages {
			if p == nil {
				continue
			}
			for j, w := range p {
				for ; w != 0; w &= w - 1 {
					if !yield(hg.Rev(i<<pageShift + j<<6 + bits.TrailingZeros64(w))) {
						return
					}
				}
			}
		}
	}
}

// Revs returns the members, ascending. The slice is the caller's.
func (s *Set) Revs() []hg.Rev {
	revs := make([]hg.Rev, 0, s.Len())
	for r := range s.All() {
		revs = append(revs, r)
	}
	return revs
}

// Clone returns a copy that shares nothing with s.
func (s *Set) Clone() *Set {
	if s == nil {
		return new(Set)
	}
	c := &Set{pages: make([]*page, len(s.pages)), n: s.n}
	for i, p := range s.pages {
		if p != nil {
			q := *p
			c.pages[i] = &q
		}
	}
	return c
}

// prev returns the highest member that is not above r, NullRev if there is
// none.
func (s *Set) prev(r hg.Rev) hg.Rev {
	i := int(r >> pageShift)
	if i >= len(s.pages) {
		i, r = len(s.pages)-1, hg.Rev(len(s.pages)<<pageShift-1)
	}
	for ; i >= 0; i-- {
		if p := s.pages[i]; p != nil {
			if got := p.prev(int(r) - i<<pageShift); got >= 0 {
				return hg.Rev(i<<pageShift + got)
			}
		}
		r = hg.Rev(i<<pageShift - 1)
	}
	return hg.NullRev
}

// prev returns the highest bit of p that is not above at, -1 if there is none.
func (p *page) prev(at int) int {
	j := at >> 6
	w := p[j] & (^uint64(0) >> (63 - at&63))
	for w == 0 {
		if j--; j < 0 {
			return -1
		}
		w = p[j]
	}
	return j<<6 + bits.Len64(w) - 1
}
