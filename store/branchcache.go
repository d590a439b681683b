package store

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"vcsd/dag"
	"vcsd/hg"
)

// A BranchCache is the heads of all branches in one view of a repository, as
// hg keeps them in cache/branch2-NAME (branch2-served is what clients see):
//
//	tip node in hexadecimal, SPACE, tip rev [, SPACE, filtered hash], newline
//	head node in hexadecimal, SPACE, "o" or "c" if it closes, SPACE, branch, newline ...
//
// The heads of a branch ascend by rev. The tip is the last changeset that was
// looked at, which is not always the view's last one.
type BranchCache struct {
	Tip    hg.Node
	TipRev hg.Rev
	// Filtered is FilteredHash at TipRev; nil if nothing was filtered.
	Filtered []byte
	Heads    map[string][]BranchHead
}

// A BranchHead is a head of a branch.
type BranchHead struct {
	Node   hg.Node
	Closes bool
}

// ParseBranchCache reads a branch2 file.
func ParseBranchCache(b []byte) (*BranchCache, error) {
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	c := &BranchCache{Heads: make(map[string][]BranchHead)}
	if err := c.parseKey(first); err != nil {
		return nil, fmt.Errorf("branch cache: line %q: %w", first, hg.ErrMalformed)
	}
	for line := range bytes.Lines(rest) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) == 0 {
			continue
		}
		f := bytes.SplitN(line, []byte(" "), 3)
		if len(f) != 3 || string(f[1]) != "o" && string(f[1]) != "c" {
			return nil, fmt.Errorf("branch cache: line %q: %w", line, hg.ErrMalformed)
		}
		n, err := hg.ParseNode(f[0])
		if err != nil {
			return nil, fmt.Errorf("branch cache: %w: %w", err, hg.ErrMalformed)
		}
		name := string(trimSpace(f[2]))
		c.Heads[name] = append(c.Heads[name], BranchHead{n, f[1][0] == 'c'})
	}
	return c, nil
}

func (c *BranchCache) parseKey(line []byte) (err error) {
	f := bytes.SplitN(line, []byte(" "), 3)
	if len(f) < 2 {
		return hg.ErrMalformed
	}
	if c.Tip, err = hg.ParseNode(f[0]); err != nil {
		return err
	}
	rev, err := strconv.ParseInt(string(f[1]), 10, 32)
	if err != nil {
		return err
	}
	c.TipRev = hg.Rev(rev)
	if len(f) == 3 {
		c.Filtered, err = hex.DecodeString(string(f[2]))
	}
	return err
}

// Encode returns the file as hg writes it, by branch.
func (c *BranchCache) Encode() []byte {
	b := append(c.Tip.AppendHex(nil), ' ')
	b = strconv.AppendInt(b, int64(c.TipRev), 10)
	if c.Filtered != nil {
		b = hex.AppendEncode(append(b, ' '), c.Filtered)
	}
	b = append(b, '\n')
	for _, name := range slices.Sorted(maps.Keys(c.Heads)) {
		for _, h := range c.Heads[name] {
			state := byte('o')
			if h.Closes {
				state = 'c'
			}
			b = append(h.Node.AppendHex(b), ' ', state, ' ')
			b = append(append(b, name...), '\n')
		}
	}
	return b
}

// Valid reports whether the cache may be used for a view in which these revs
// are filtered and these are obsolete: heads up to TipRev are then those of
// the cache.
func (c *BranchCache) Valid(g RevGraph, filtered, obsolete *dag.Set) bool {
	if int(c.TipRev) >= g.Len() || c.TipRev < hg.NullRev {
		return false
	}
	tip := hg.NullNode
	if c.TipRev != hg.NullRev {
		tip = g.Node(c.TipRev)
	}
	return c.Tip == tip && bytes.Equal(c.Filtered, FilteredHash(c.TipRev, filtered, obsolete))
}

// FilteredHash is how hg's caches tell one filtering from another: the SHA-1
// of all filtered or obsolete revs up to max, each in decimal with a semicolon.
// It is nil if there are none.
func FilteredHash(max hg.Rev, filtered, obsolete *dag.Set) []byte {
	all := filtered.Clone()
	for r := range obsolete.All() {
		all.Add(r)
	}
	h, n := sha1.New(), 0
	var buf []byte
	for r := range all.All() {
		if r > max {
			break
		}
		n++
		buf = append(strconv.AppendInt(buf[:0], int64(r), 10), ';')
		h.Write(buf)
	}
	if n == 0 {
		return nil
	}
	return h.Sum(nil)
}
