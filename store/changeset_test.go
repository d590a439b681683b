package store

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"vcsd/hg"
)

const someManifest = "0123456789abcdef0123456789abcdef01234567"

func TestParseChangeset(t *testing.T) {
	n, err := hg.ParseNode(someManifest)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, text, branch string
		closes             bool
		files              string
		desc               string
		unix               int64
		west               int
	}{
		{"plain", someManifest + "\nu\n1 -3600\na\nb\n\nd\n\ne", "default", false, "a b", "d\n\ne", 1, -3600},
		{"no files", someManifest + "\nu\n1 0\n\nd", "default", false, "", "d", 1, 0},
		{"no description", someManifest + "\nu\n1 0\na\n\n", "default", false, "a", "", 1, 0},
		{"branch", someManifest + "\nu\n1 0 branch:b x\na\n\nd", "b x", false, "a", "d", 1, 0},
		{"closed", someManifest + "\nu\n1 0 branch:b\x00close:1\n\nd", "b", true, "", "d", 1, 0},
		{"closed default", someManifest + "\nu\n1 0 close:1\n\nd", "default", true, "", "d", 1, 0},
		{"value like a key", someManifest + "\nu\n1 0 source:branch:x\x00foo:close:1\n\nd", "default", false, "", "d", 1, 0},
		{"escapes", someManifest + "\nu\n1 0 branch:a\\\\b\\nc\\0d\n\nd", "a\\b\nc\x00d", false, "", "d", 1, 0},
		{"twice", someManifest + "\nu\n1 0 branch:a\x00branch:b\n\nd", "b", false, "", "d", 1, 0},
		{"fraction", someManifest + "\nu\n1234567890.5 0\n\nd", "default", false, "", "d", 1234567890, 0},
		{"negative", someManifest + "\nu\n-2208988800 3600\n\nd", "default", false, "", "d", -2208988800, 3600},
		{"zone that is none", someManifest + "\nu\n5 x\n\nd", "default", false, "", "d", 5, 0},
	}
	for _, tt := range tests {
		c, err := ParseChangeset([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		unix, west, ok := c.Date()
		files := string(bytes.Join(c.Files(), []byte(" ")))
		if c.Manifest != n || string(c.User) != "u" || c.Branch() != tt.branch || c.Closes() != tt.closes || files != tt.files ||
			string(c.Description) != tt.desc || !ok || unix != tt.unix || west != tt.west {
			t.Errorf("%s: %q: branch %q closes %v files %q description %q date %d %d %v", tt.name, tt.text, c.Branch(), c.Closes(), files, c.Description, unix, west, ok)
		}
	}
}

func TestParseChangesetRefuses(t *testing.T) {
	for _, text := range []string{
		"x", "\n", someManifest, someManifest + "\nu", someManifest + "\nu\n1 0", someManifest + "\nu\n1 0\n", someManifest + "\nu\n1 0\na\n",
		"zz" + someManifest[2:] + "\nu\n1 0\n\nd", someManifest[1:] + "\nu\n1 0\n\nd",
	} {
		if _, err := ParseChangeset([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if c, err := ParseChangeset(nil); err != nil || !c.Manifest.IsNull() || c.Branch() != "default" || c.Check() != nil {
		t.Errorf("empty text: %+v, %v", c, err)
	}
}

func TestCheckChangeset(t *testing.T) {
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"plain", someManifest + "\nu\n1 0 branch:x\na/b\n\nd", true},
		{"odd user", someManifest + "\nJ\xfcrg \"q\" <x@y>\n1 0\na\n\nd", true},
		{"odd date", someManifest + "\nu\n4300000000.0 -45900\na\n\nd", true},
		{"unknown escape", someManifest + "\nu\n1 0 k:\\q\n\nd", true},
		{"unsafe file", someManifest + "\nu\n1 0\n../a\n\nd", false},
		{"empty file", someManifest + "\nu\n1 0\n/\n\nd", false},
		{"no date", someManifest + "\nu\nx 0\na\n\nd", false},
		{"one number", someManifest + "\nu\n1\na\n\nd", false},
		{"not a number", someManifest + "\nu\nnan 0\na\n\nd", false},
		{"extra without colon", someManifest + "\nu\n1 0 k\na\n\nd", false},
		{"extra ends in backslash", someManifest + "\nu\n1 0 k:v\\\na\n\nd", false},
		{"bad escape", someManifest + "\nu\n1 0 k:\\xz1\na\n\nd", false},
		{"newline in branch", someManifest + "\nu\n1 0 branch:a\\nb\na\n\nd", false},
	}
	for _, tt := range tests {
		c, err := ParseChangeset([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if err := c.Check(); (err == nil) != tt.ok {
			t.Errorf("%s: Check = %v, want ok %v", tt.name, err, tt.ok)
		}
	}
}

// randomChangeset makes texts that are right, odd or broken.
func randomChangeset(rng *rand.Rand) string {
	pieces := []string{"branch:", "close:1", "close:", "k:", "v", "\x00", "\x00", "\\\\", "\\n", "\\r", "\\0", "\\0123", "\\x41", "\\101", "\\q", "\\'", "b\xc3\xa4", " ", "default", "\\"}
	var extra strings.Builder
	for range rng.IntN(8) {
		extra.WriteString(pieces[rng.IntN(len(pieces)-rng.IntN(2))])
	}
	date := []string{"0 0", "1 -3600", "-5 7200", "1.5 0", "12345 x", "9e9 0"}[rng.IntN(6)]
	if extra.Len() > 0 {
		date += " " + extra.String()
	}
	files := []string{"", "a\n", "a\nb\n", "dir/x\ny z\n"}[rng.IntN(4)]
	desc := []string{"", "d", "d\n\ne\n", "\n"}[rng.IntN(4)]
	return someManifest + "\nuser \xc3\xa9\n" + date + "\n" + files + "\n" + desc
}

func TestParseChangesetAsHg(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	texts, sent := make([]string, 5000), make([]string, 5000)
	for i := range texts {
		texts[i] = randomChangeset(rng)
		sent[i] = latin(texts[i])
	}
	type parsed struct {
		User, Branch, Desc string
		Files              []string
		Closes             bool
		Unix               float64
		West               int
		Broken             bool
	}
	var want []parsed
	askHg(t, `
from mercurial import changelog
def parse(text):
    try:
        c = changelog.changelogrevision(None, text, {}, False)
        b, closes = c.branchinfo
        return {'User': enc(c.user), 'Branch': enc(b), 'Desc': enc(c.description), 'Files': [enc(f) for f in c.files],
                'Closes': closes, 'Unix': c.date[0], 'West': c.date[1], 'Broken': False}
    except ValueError:
        return {'Broken': True}
json.dump([parse(dec(t)) for t in ask], sys.stdout)
`, sent, &want)
	broken := 0
	for i, text := range texts {
		c, err := ParseChangeset([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		w := want[i]
		if w.Broken {
			broken++
			if c.Check() == nil {
				t.Errorf("%q: Check takes it, hg can't read it", text)
			}
			continue
		}
		var files []string
		for _, f := range c.Files() {
			files = append(files, string(f))
		}
		unix, west, _ := c.Date()
		if string(c.User) != unlatin(w.User) || c.Branch() != unlatin(w.Branch) || c.Closes() != w.Closes || string(c.Description) != unlatin(w.Desc) ||
			strings.Join(files, "\n") != unlatin(strings.Join(w.Files, "\n")) || unix != int64(w.Unix) || west != w.West {
			t.Errorf("%q: branch %q closes %v files %q date %d %d, want %+v", text, c.Branch(), c.Closes(), files, unix, west, w)
		}
		if err := c.Check(); err != nil && !strings.ContainsAny(c.Branch(), "\x00\n\r") {
			t.Errorf("%q: Check refuses it: %v", text, err)
		}
	}
	if broken == 0 || broken > len(texts)/2 {
		t.Errorf("%d of %d texts are broken: the corpus is lopsided", broken, len(texts))
	}
}

func FuzzParseChangeset(f *testing.F) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 20 {
		f.Add([]byte(randomChangeset(rng)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseChangeset(text)
		if err != nil || len(text) == 0 {
			return
		}
		c.Check()
		c.Closes()
		b := c.Manifest.AppendHex(nil)
		b = append(append(append(b, '\n'), c.User...), '\n')
		b = append(b, c.date...)
		if len(c.extra) > 0 {
			b = append(append(b, ' '), c.extra...)
		}
		b = append(b, '\n')
		for _, name := range c.Files() {
			b = append(append(b, name...), '\n')
		}
		b = append(append(b, '\n'), c.Description...)
		// A node in capitals and an extra that is there but empty are lost.
		if len(b) == len(text) && !bytes.EqualFold(b, text) {
			t.Errorf("%q comes back as %q", text, b)
		}
	})
}

func BenchmarkParseChangeset(b *testing.B) {
	text := []byte(someManifest + "\nuser <u@example.com>\n1700000000 -3600 branch:feature\nsrc/a.go\nsrc/b.go\n\nfix: a thing")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := ParseChangeset(text)
		if err != nil || c.Branch() != "feature" {
			b.Fatal(err)
		}
	}
}
