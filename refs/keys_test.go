package refs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"vcsd/hg"
)

func TestTipValue(t *testing.T) {
	full := Tip{Seq: 1<<64 - 1, Digest: [32]byte{1, 31: 2}, ChangelogLen: maxChangelogLen, Node: hg.WorkingNode}
	tests := []struct {
		name string
		tip  Tip
	}{
		{"first", Tip{Seq: 1}},
		{"full", full},
	}
	for _, tt := range tests {
		got, err := parseTip(tt.tip.appendTo(nil))
		if got != tt.tip || err != nil {
			t.Errorf("%s: parseTip(appendTo(%+v)) = %+v, %v", tt.name, tt.tip, got, err)
		}
	}
	value := full.appendTo(nil)
	bad := map[string][]byte{
		"empty":         nil,
		"short":         value[:tipSize-1],
		"long":          append(bytes.Clone(value), 0),
		"version":       append([]byte{2}, value[1:]...),
		"seq 0":         append(append([]byte{tipVersion}, make([]byte, 8)...), value[9:]...),
		"changelog len": append(append(bytes.Clone(value[:tipOffChangelog]), 0xff), value[tipOffChangelog+1:]...),
	}
	for name, b := range bad {
		if tip, err := parseTip(b); err == nil {
			t.Errorf("%s: parseTip(%x) = %+v", name, b, tip)
		}
	}
}

func FuzzParseTip(f *testing.F) {
	f.Add(Tip{Seq: 1}.appendTo(nil))
	f.Add(Tip{Seq: 7, Digest: [32]byte{1}, ChangelogLen: 9, Node: hg.Node{2}}.appendTo(nil))
	f.Add([]byte{tipVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		tip, err := parseTip(b)
		if err == nil && !bytes.Equal(tip.appendTo(nil), b) {
			t.Errorf("tip %+v re-encodes differently from %x", tip, b)
		}
	})
}

func TestKeys(t *testing.T) {
	k := keys("vcsd/1/")
	tests := []struct{ name, got, want string }{
		{"session", k.session("c.1"), "vcsd/1/s/c.1"},
		{"tip", k.tip("R"), "vcsd/1/r/R/tip"},
		{"head", k.head("R", "a/b"), "vcsd/1/r/R/h/a/b"},
		{"lock", k.lock("R", "a/b"), "vcsd/1/r/R/l/a/b"},
		{"outcome", k.outcome("R", [32]byte{0xab}), "vcsd/1/r/R/o/ab" + strings.Repeat("00", 31)},
		{"witness", k.witness("R", "c"), "vcsd/1/r/R/w/c"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: key = %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	for _, id := range []RepoID{"", "a/b", "a b", "a\n", RepoID(strings.Repeat("x", 129))} {
		if checkRepo(id) == nil {
			t.Errorf("repository ID %q is accepted", id)
		}
	}
}

func TestJitter(t *testing.T) {
	for n := range 100 {
		if d := jitter(time.Millisecond, 50*time.Millisecond, n); d <= 0 || d > min(time.Millisecond<<min(n, 10), 50*time.Millisecond) {
			t.Errorf("pause after attempt %d: %v", n, d)
		}
	}
}
