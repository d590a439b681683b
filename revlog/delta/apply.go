package delta

import (
	"fmt"
	"slices"

	"vcsd/hg"
)

// Apply appends to dst the text that delta makes of base. It fails with a
// wrapped hg.ErrMalformed if delta doesn't fit base, and with a wrapped
// hg.ErrTooLarge, before it allocates, if the text is longer than maxLen
// bytes. dst must not share memory with base or delta.
func Apply(dst, base, delta []byte, maxLen int64) ([]byte, error) {
	size, err := Check(delta, len(base))
	if err != nil {
		return dst, err
	}
	if err := checkLen(size, maxLen); err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, size)
	at := 0
	for pos := 0; pos < len(delta); {
		f, after, err := next(delta, pos, at, len(base))
		if err != nil {
			return dst, err
		}
		dst = append(dst, base[at:f.Start]...)
		dst = append(dst, f.Data...)
		pos, at = after, f.End
	}
	return append(dst, base[at:]...), nil
}

func checkLen(size int, maxLen int64) error {
	if int64(size) > maxLen {
		return fmt.Errorf("text of %d bytes, limit %d: %w", size, maxLen, hg.ErrTooLarge)
	}
	return nil
}

// maxFolded bounds the fragments that are held in memory at once: 24 MiB of
// them. A chain that has more is applied one delta after the other.
const maxFolded = 1 << 19

// ApplyChain appends to dst the text that deltas make of base when they are
// applied one after the other. The deltas are folded first, so the text is
// copied once. Each text between must be within maxLen as well. Errors and
// aliasing are as for Apply; the error names the place of the delta in deltas.
func ApplyChain(dst, base []byte, deltas [][]byte, maxLen int64) ([]byte, error) {
	switch len(deltas) {
	case 0:
		if err := checkLen(len(base), maxLen); err != nil {
			return dst, err
		}
		return append(dst, base...), nil
	case 1:
		return Apply(dst, base, deltas[0], maxLen)
	}
	lens, count, err := chainLens(len(base), deltas, maxLen)
	if err != nil {
		return dst, err
	}
	if count > maxFolded {
		return applyEach(dst, base, deltas, maxLen)
	}
	folded := fold(deltas, lens)
	dst = slices.Grow(dst, lens[len(deltas)])
	at := 0
	for _, f := range folded {
		dst = append(dst, base[at:f.Start]...)
		dst = append(dst, f.Data...)
		at = f.End
	}
	return append(dst, base[at:]...), nil
}

// chainLens checks every delta against the length of the text before it. It
// returns the lengths of all texts, the base's first, and the number of
// fragments.
func chainLens(baseLen int, deltas [][]byte, maxLen int64) (lens []int, count int, err error) {
	lens = make([]int, len(deltas)+1)
	lens[0] = baseLen
	for i, d := range deltas {
		size, n, err := check(d, lens[i])
		if err == nil {
			err = checkLen(size, maxLen)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("delta %d of %d in chain: %w", i+1, len(deltas), err)
		}
		lens[i+1] = size
		count += n
	}
	return lens, count, nil
}

// applyEach is ApplyChain without folding; it holds two texts besides dst.
func applyEach(dst, base []byte, deltas [][]byte, maxLen int64) ([]byte, error) {
	var cur, spare []byte
	cur = base
	last := len(deltas) - 1
	for i, d := range deltas[:last] {
		text, err := Apply(spare[:0], cur, d, maxLen)
		if err != nil {
			return dst, err
		}
		if i > 0 {
			spare = cur // never write to base
		} else {
			spare = nil
		}
		cur = text
	}
	return Apply(dst, cur, deltas[last], maxLen)
}
