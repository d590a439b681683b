package delta

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
)

const noLimit = 1 << 40

func frags(fs ...Fragment) []byte {
	var out []byte
	for _, f := range fs {
		out = AppendFragment(out, f)
	}
	return out
}

func TestApply(t *testing.T) {
	base := []byte("one\ntwo\nthree\n")
	for _, tt := range []struct {
		name  string
		delta []byte
		max   int64
		want  string
		err   error
	}{
		{"empty delta", nil, 99, "one\ntwo\nthree\n", nil},
		{"replace a line", frags(Fragment{4, 8, []byte("2\n")}), 99, "one\n2\nthree\n", nil},
		{"insert at both ends", frags(Fragment{0, 0, []byte("0\n")}, Fragment{14, 14, []byte("4\n")}), 99, "0\none\ntwo\nthree\n4\n", nil},
		{"touching ranges", frags(Fragment{0, 4, nil}, Fragment{4, 8, []byte("x\n")}), 99, "x\nthree\n", nil},
		{"two inserts at one place", frags(Fragment{4, 4, []byte("a")}, Fragment{4, 4, []byte("b")}), 99, "one\nabtwo\nthree\n", nil},
		{"delete all", frags(Fragment{0, 14, nil}), 99, "", nil},
		{"at the limit", frags(Fragment{0, 14, []byte("abc")}), 3, "abc", nil},
		{"beyond the limit", frags(Fragment{0, 14, []byte("abcd")}), 3, "", hg.ErrTooLarge},
		{"overlap", frags(Fragment{0, 4, nil}, Fragment{3, 8, nil}), 99, "", hg.ErrMalformed},
		{"out of order", frags(Fragment{8, 9, nil}, Fragment{0, 1, nil}), 99, "", hg.ErrMalformed},
		{"end before start", frags(Fragment{8, 7, nil}), 99, "", hg.ErrMalformed},
		{"beyond the base", frags(Fragment{8, 15, nil}), 99, "", hg.ErrMalformed},
		{"4 GiB of data claimed", appendHeader(nil, 0, 0, 0xffffffff), 99, "", hg.ErrMalformed},
		{"4 GiB of base claimed", appendHeader(nil, 0, 0xffffffff, 0), 99, "", hg.ErrMalformed},
		{"short header", make([]byte, HeaderLen-1), 99, "", hg.ErrMalformed},
		{"short data", appendHeader(nil, 0, 0, 1), 99, "", hg.ErrMalformed},
	} {
		got, err := Apply([]byte("dst:"), base, tt.delta, tt.max)
		if !errors.Is(err, tt.err) || string(got) != "dst:"+tt.want {
			t.Errorf("%s: Apply = %q, %v; want %q, %v", tt.name, got, err, "dst:"+tt.want, tt.err)
		}
	}
}

// texts returns n texts, each an edit of the one before.
func texts(rng *rand.Rand, n, lines int) [][]byte {
	cur := make([]string, lines)
	for i := range cur {
		cur[i] = randLine(rng)
	}
	var out [][]byte
	for range n {
		for range 1 + rng.IntN(4) {
			switch at := rng.IntN(len(cur) + 1); {
			case at == len(cur) || rng.IntN(3) == 0:
				cur = append(cur[:at:at], append([]string{randLine(rng)}, cur[at:]...)...)
			case rng.IntN(2) == 0:
				cur = append(cur[:at:at], cur[at+1:]...)
			default:
				cur = append([]string(nil), cur...)
				cur[at] = randLine(rng)
			}
		}
		out = append(out, []byte(strings.Join(cur, "")))
	}
	return out
}

func randLine(rng *rand.Rand) string {
	if rng.IntN(5) == 0 {
		return "}\n"
	}
	return fmt.Sprintf("line %d of %d\n", rng.IntN(30), rng.IntN(30))
}

func chain(ts [][]byte) [][]byte {
	var ds [][]byte
	for i := 1; i < len(ts); i++ {
		ds = append(ds, Diff(ts[i-1], ts[i]))
	}
	return ds
}

func TestFoldAndChainAgreeWithApply(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 60; n++ {
		ts := texts(rng, n, 1+rng.IntN(40))
		ds := chain(ts)
		want := ts[len(ts)-1]
		got, err := ApplyChain([]byte("dst:"), ts[0], ds, noLimit)
		if err != nil || string(got) != "dst:"+string(want) {
			t.Fatalf("ApplyChain of %d deltas = %q, %v; want %q", len(ds), got, err, want)
		}
		if len(ds) == 0 {
			continue
		}
		got, err = applyEach(nil, ts[0], ds, noLimit)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("applyEach of %d deltas = %q, %v; want %q", len(ds), got, err, want)
		}
		folded, err := Fold(len(ts[0]), ds, noLimit)
		if err != nil {
			t.Fatal(err)
		}
		got, err = Apply(nil, ts[0], folded, noLimit)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Apply of %d folded deltas = %q, %v; want %q", len(ds), got, err, want)
		}
	}
}

func TestChainChecksEachText(t *testing.T) {
	grow := frags(Fragment{0, 0, []byte("0123456789")})
	shrink := frags(Fragment{0, 10, nil})
	if _, err := ApplyChain(nil, nil, [][]byte{grow, shrink}, 9); !errors.Is(err, hg.ErrTooLarge) {
		t.Errorf("text between beyond the limit: err = %v, want %v", err, hg.ErrTooLarge)
	}
	if _, err := ApplyChain(nil, nil, [][]byte{grow, shrink, shrink}, 99); !errors.Is(err, hg.ErrMalformed) {
		t.Errorf("third delta beyond its base: err = %v, want %v", err, hg.ErrMalformed)
	}
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, a, b string }{
		{"both empty", "", ""},
		{"equal", "a\nb\n", "a\nb\n"},
		{"from empty", "", "a\n"},
		{"to empty", "a\n", ""},
		{"append", "a\n", "a\nb\n"},
		{"prepend", "b\n", "a\nb\n"},
		{"no newline at the end of a", "a\nb", "a\nb\nc"},
		{"no newline at the end of b", "a\nb\nc\n", "a\nb\nc"},
		{"suffix cuts a line", "xa\nb\n", "ya\nb\n"},
		{"suffix is all of a", "a\n", "xa\n"},
		{"suffix is all of b", "xa\n", "a\n"},
		{"repeated lines", "a\na\na\n", "a\na\na\na\n"},
		{"moved block", "1\n2\n3\n4\n5\n", "4\n5\n1\n2\n3\n"},
		{"nothing shared", "a\nb\n", "c\nd\ne\n"},
		{"one line without newline", "abc", "abd"},
		{"reversed", "1\n2\n3\n4\n", "4\n3\n2\n1\n"},
	} {
		d := Diff([]byte(tt.a), []byte(tt.b))
		got, err := Apply(nil, []byte(tt.a), d, noLimit)
		if err != nil || string(got) != tt.b {
			t.Errorf("%s: Apply(%q, Diff) = %q, %v; want %q", tt.name, tt.a, got, err, tt.b)
		}
		if !AlignedToLines([]byte(tt.a), d) {
			t.Errorf("%s: Diff(%q, %q) = %q, not aligned to lines", tt.name, tt.a, tt.b, d)
		}
		if max := len(tt.b) + HeaderLen; len(d) > max {
			t.Errorf("%s: Diff has %d bytes, want at most %d", tt.name, len(d), max)
		}
	}
}

func TestFullHeader(t *testing.T) {
	for textLen, want := range map[int]string{
		0: "",
		5: "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05",
	} {
		if got := AppendFullHeader(nil, textLen); string(got) != want {
			t.Errorf("before a text of %d bytes: %q, want %q", textLen, got, want)
		}
	}
}
