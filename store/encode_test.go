package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// words are what names are made of, to hit each rule of the encodings.
var words = []string{
	"a", "b", "foo", "bar", "x.y", "A", "Foo", "FOO", "_", "__", "a_b", "~", "~7e", " ", ".", "..x", "x.", "x ", " x", ".x",
	"aux", "AUX", "aux.txt", "con", "con.", "prn.a.b", "nul", "nulx", "xnul", "com1", "com0", "com9.x", "lpt4", "lpt10", "comx", "com", "aux ",
	"x.i", "x.d", "x.hg", "x.i.hg", ".i", ".d", ".hg", "i", "d", "hg", "a:b", `c\d`, "q?", "*", "\"", "<", ">", "|", "\x01", "\x1f", "\x7f", "\x7e", "\x80", "\xff",
	"caf\xc3\xa9", "\xe6\x96\xb0", "0", "1", "00manifest.i", "data", "dh", "longer-component-name", "LONGER_COMPONENT",
}

func randomComponent(rng *rand.Rand) string {
	var b strings.Builder
	for b.Len() == 0 || rng.IntN(3) == 0 {
		switch rng.IntN(6) {
		case 0:
			for range 1 + rng.IntN(12) {
				c := byte(1 + rng.IntN(255))
				if c != '\n' && c != '\r' && c != '/' {
					b.WriteByte(c)
				}
			}
		case 1:
			b.WriteString(strings.Repeat(words[rng.IntN(len(words))], 1+rng.IntN(9)))
		default:
			b.WriteString(words[rng.IntN(len(words))])
		}
	}
	return b.String()
}

// randomName returns the name of a filelog file. Lengths gather about the
// limit where names are hashed.
func randomName(rng *rand.Rand) string {
	prefix, n := "data/", 1+rng.IntN(4)
	if rng.IntN(20) == 0 {
		prefix = "meta/"
	}
	if rng.IntN(3) == 0 {
		n = 1 + rng.IntN(25)
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = randomComponent(rng)
	}
	name := strings.Join(parts, "/")
	if want := 100 + rng.IntN(30); rng.IntN(3) == 0 && len(name) < want {
		name += strings.Repeat("e", want-len(name))
	}
	return prefix + name + []string{".i", ".d"}[rng.IntN(2)]
}

// TestEncodeAsHg compares the encodings of many names with those of hg.
func TestEncodeAsHg(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 5_000
	}
	rng := rand.New(rand.NewPCG(7, 7))
	names := make([]string, count)
	sent := make([]string, count)
	for i := range names {
		names[i] = randomName(rng)
		sent[i] = latin(names[i])
	}
	var want [][4]string
	askHg(t, `
from mercurial import store
json.dump([[enc(f(dec(n))) for f in (store._pathencode, store._plainhybridencode, store.encodefilename, store.encodedir)] for n in ask], sys.stdout)
`, sent, &want)
	hashed := 0
	for i, name := range names {
		got := [4]string{EncodeDot.Encode(name), EncodeHybrid.Encode(name), EncodePlain.Encode(name), EncodeDir(name)}
		for j, what := range []string{"EncodeDot", "EncodeHybrid", "EncodePlain", "EncodeDir"} {
			if w := unlatin(want[i][j]); got[j] != w {
				t.Fatalf("%s of %q = %q, want %q", what, name, got[j], w)
			}
		}
		if strings.HasPrefix(got[0], hashedPrefix) {
			hashed++
		}
		if back, ok := DecodePlain(got[2]); !ok || back != name {
			t.Fatalf("DecodePlain(%q) = %q, %v, want %q", got[2], back, ok, name)
		}
		if back := DecodeDir(got[3]); back != name {
			t.Fatalf("DecodeDir(%q) = %q, want %q", got[3], back, name)
		}
	}
	if hashed < count/10 || hashed > count*9/10 {
		t.Errorf("%d of %d names were hashed: the corpus is lopsided", hashed, count)
	}
}

func TestDecodePlainRefuses(t *testing.T) {
	for _, enc := range []string{"A", "_", "a_", "_1", "~", "~7", "~zz", "~41", "~7E", "a:b", "\x80", "_A", "x.d/y", "x.hg/y"} {
		if name, ok := DecodePlain(enc); ok {
			t.Errorf("DecodePlain(%q) = %q, want it refused", enc, name)
		}
	}
}

func FuzzDecodePlain(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		f.Add(EncodePlain.Encode(randomName(rng)))
	}
	f.Fuzz(func(t *testing.T, enc string) {
		name, ok := DecodePlain(enc)
		if !ok {
			return
		}
		if again := EncodePlain.Encode(name); again != enc {
			t.Errorf("%q decodes to %q, which encodes to %q", enc, name, again)
		}
	})
}

func FuzzEncode(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		f.Add(randomName(rng))
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) < prefixLen {
			return
		}
		for _, e := range []Encoder{EncodeHybrid, EncodeDot} {
			// What ends like a filelog has room for a hash.
			if enc := e.Encode("data/" + name + ".i"); len(enc) > maxEncodedLen {
				t.Errorf("%q becomes %q, of %d bytes", "data/"+name+".i", enc, len(enc))
			}
			// Another ending stays, each byte of it escaped with three, as in hg.
			if enc := e.Encode(name); len(enc) > maxEncodedLen+3*len(name) {
				t.Errorf("%q becomes %q, of %d bytes", name, enc, len(enc))
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"data/src/main/file.go.i", "data/src/Main/" + strings.Repeat("Long", 30) + ".i"} {
		b.Run(fmt.Sprintf("len=%d", len(name)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				EncodeDot.Encode(name)
			}
		})
	}
}
