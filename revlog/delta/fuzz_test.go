package delta

import (
	"bytes"
	"errors"
	"testing"

	"vcsd/hg"
)

// slowApply is Apply in its simplest form.
func slowApply(base, delta []byte) ([]byte, error) {
	out, at := []byte{}, 0
	err := Walk(delta, len(base), func(f Fragment) bool {
		out = append(append(out, base[at:f.Start]...), f.Data...)
		at = f.End
		return true
	})
	return append(out, base[at:]...), err
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), frags(Fragment{4, 8, []byte("2\n")}))
	f.Add([]byte(""), Full([]byte("text")))
	f.Add([]byte("abc"), frags(Fragment{0, 1, nil}, Fragment{0, 1, nil}))
	f.Add([]byte("abc"), appendHeader(nil, 0, 0xffffffff, 0xffffffff))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		const limit = 1 << 16
		got, err := Apply(nil, base, delta, limit)
		if err != nil {
			if !errors.Is(err, hg.ErrMalformed) && !errors.Is(err, hg.ErrTooLarge) {
				t.Fatalf("Apply: unexpected kind of error %v", err)
			}
			return
		}
		want, err := slowApply(base, delta)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Apply = %q, want %q, %v", got, want, err)
		}
		if n, err := Check(delta, len(base)); err != nil || n != len(got) {
			t.Fatalf("Check = %d, %v, want %d", n, err, len(got))
		}
	})
}

// FuzzChain folds three deltas of arbitrary bytes.
func FuzzChain(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), Diff([]byte("a\nb\nc\n"), []byte("a\nc\n")),
		Diff([]byte("a\nc\n"), []byte("x\na\nc\n")), Diff([]byte("x\na\nc\n"), []byte("x\nc\ny\n")))
	f.Add([]byte("abcdef"), frags(Fragment{1, 2, []byte("123")}, Fragment{2, 2, []byte("4")}),
		frags(Fragment{2, 3, nil}, Fragment{4, 8, []byte("z")}), frags(Fragment{0, 0, nil}))
	f.Fuzz(func(t *testing.T, base, d1, d2, d3 []byte) {
		const limit = 1 << 16
		deltas := [][]byte{d1, d2, d3}
		want, err := base, error(nil)
		for _, d := range deltas {
			if want, err = Apply(nil, want, d, limit); err != nil {
				break
			}
		}
		got, gotErr := ApplyChain(nil, base, deltas, limit)
		if (gotErr == nil) != (err == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("ApplyChain = %q, %v, want %q, %v", got, gotErr, want, err)
		}
		folded, foldErr := Fold(len(base), deltas, limit)
		if (foldErr == nil) != (err == nil) {
			t.Fatalf("Fold: %v, want %v", foldErr, err)
		}
		if err != nil {
			return
		}
		if got, err := Apply(nil, base, folded, limit); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("folded = %q, %v, want %q", got, err, want)
		}
	})
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nc\nd"), 4)
	f.Add([]byte("\n\n\n\n"), []byte("\n\n"), 0)
	f.Add(bytes.Repeat([]byte("x\ny\nz\n"), 50), bytes.Repeat([]byte("y\nz\n"), 60), 1)
	f.Fuzz(func(t *testing.T, a, b []byte, limit int) {
		check := func(d []byte) {
			if got, err := Apply(nil, a, d, int64(len(b))); err != nil || !bytes.Equal(got, b) {
				t.Fatalf("Apply(%q, Diff) = %q, %v, want %q", a, got, err, b)
			}
			if !AlignedToLines(a, d) {
				t.Fatalf("Diff(%q, %q) = %q is not aligned to lines", a, b, d)
			}
			if len(d) > HeaderLen+len(b) {
				t.Fatalf("Diff(%q, %q) has %d bytes", a, b, len(d))
			}
		}
		check(Diff(a, b))
		check(diffLimited(a, b, 1+limit&7))
	})
}

// diffLimited is Diff for texts that are expensive: it gives up finding the
// shortest way after limit edits.
func diffLimited(a, b []byte, limit int) []byte {
	d := getDiffer()
	defer d.release()
	if !d.split(a, b) {
		return Replace(len(a), b)
	}
	if len(d.a.kept)+len(d.b.kept) > 0 {
		d.fwd.at, d.bwd.at = make([]int32, 2*limit+4), make([]int32, 2*limit+4)
		d.walk(box{0, len(d.a.kept), 0, len(d.b.kept)}, limit)
	}
	out := d.delta(b, 0)
	if len(out) > HeaderLen+len(b) {
		return Replace(len(a), b)
	}
	return out
}
