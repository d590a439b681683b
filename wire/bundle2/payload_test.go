package bundle2

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"vcsd/hg"
)

func n(i byte) hg.Node { return hg.Node{i} }

func TestCaps(t *testing.T) {
	caps := Caps{"HG20": nil, "listvaluekey": {"value 1", "value,2"}, "a b": {"http"}}
	const want = "HG20\na%20b=http\nlistvaluekey=value%201,value%2C2"
	if got := EncodeCaps(caps); got != want {
		t.Errorf("EncodeCaps = %q, want %q", got, want)
	}
	if got := DecodeCaps(want + "\n\n"); !reflect.DeepEqual(got, caps) {
		t.Errorf("DecodeCaps = %v, want %v", got, caps)
	}
	for _, tt := range []struct {
		name  string
		value []string
		want  bool
	}{
		{"HG20", nil, true}, {"HG21", nil, false}, {"HG20", []string{"x"}, false},
		{"a b", []string{"http"}, true}, {"a b", []string{"https"}, false},
	} {
		if got := caps.Has(tt.name, tt.value...); got != tt.want {
			t.Errorf("Has(%q, %q) = %v, want %v", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, tt := range []struct{ plain, quoted string }{
		{"", ""}, {"aZ09_.-~/", "aZ09_.-~/"}, {"a b", "a%20b"}, {"\xc3\xa9\n=,:%", "%C3%A9%0A%3D%2C%3A%25"},
	} {
		if got := Quote(tt.plain); got != tt.quoted {
			t.Errorf("Quote(%q) = %q, want %q", tt.plain, got, tt.quoted)
		}
		if got := Unquote(tt.quoted); got != tt.plain {
			t.Errorf("Unquote(%q) = %q, want %q", tt.quoted, got, tt.plain)
		}
	}
	for _, s := range []string{"%", "%4", "%zz", "a%4"} {
		if got := Unquote(s); got != s {
			t.Errorf("Unquote(%q) = %q, want it unchanged", s, got)
		}
	}
	if got := Unquote("%c3%C3%%41"); got != "\xc3\xc3%A" {
		t.Errorf("Unquote(%%c3%%C3%%%%41) = %q", got)
	}
}

func TestPhaseHeads(t *testing.T) {
	heads := []PhaseHead{{hg.Public, n(1)}, {hg.Draft, n(2)}, {hg.Internal, n(3)}}
	b := AppendPhaseHeads(nil, heads)
	if got, err := DecodePhaseHeads(b); err != nil || !reflect.DeepEqual(got, heads) {
		t.Errorf("DecodePhaseHeads = %v, %v, want %v", got, err, heads)
	}
	bad(t, "cut", DecodePhaseHeads, b[:30], "bad phase-heads stream")
	bad(t, "phase 7", DecodePhaseHeads, append([]byte{0, 0, 0, 7}, make([]byte, 20)...), "unknown phase 7")
	bad(t, "phase 256", DecodePhaseHeads, append([]byte{0, 0, 1, 0}, make([]byte, 20)...), "unknown phase 256")
	bad(t, "phase -1", DecodePhaseHeads, append([]byte{255, 255, 255, 255}, make([]byte, 20)...), "unknown phase -1")
}

// bad wants decode to refuse b.
func bad[T any](t *testing.T, name string, decode func([]byte) (T, error), b []byte, want string) {
	t.Helper()
	got, err := decode(b)
	abort := (*hg.Abort)(nil)
	if !errors.As(err, &abort) || abort.Message != want || !errors.Is(err, hg.ErrMalformed) {
		t.Errorf("%s: %v, %v, want %q", name, got, err, want)
	}
}

func TestBookmarks(t *testing.T) {
	marks := []Bookmark{{"@", n(1)}, {"gone", hg.WorkingNode}, {"nowhere", hg.NullNode}, {"", n(2)}, {strings.Repeat("x", 65535), n(3)}}
	b, err := AppendBookmarks(nil, marks)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeBookmarks(b); err != nil || !reflect.DeepEqual(got, marks) {
		t.Errorf("DecodeBookmarks = %v, %v, want %v", got, err, marks)
	}
	bad(t, "cut node", DecodeBookmarks, b[:21], "bad bookmark stream")
	bad(t, "cut name", DecodeBookmarks, b[:len(b)-1], "bad bookmark stream")
	if _, err := AppendBookmarks(nil, []Bookmark{{strings.Repeat("x", 65536), n(1)}}); !errors.Is(err, hg.ErrTooLarge) {
		t.Errorf("name of 65536 bytes: %v, want hg.ErrTooLarge", err)
	}
}

func TestHeads(t *testing.T) {
	heads := []hg.Node{n(1), n(2)}
	b := AppendHeads(nil, heads)
	if got, err := DecodeHeads(b); err != nil || !reflect.DeepEqual(got, heads) {
		t.Errorf("DecodeHeads = %v, %v, want %v", got, err, heads)
	}
	bad(t, "cut", DecodeHeads, b[:39], "bad heads stream of 39 bytes")
}

func TestTagsFnodes(t *testing.T) {
	fnodes := []TagsFnode{{n(1), n(2)}, {n(3), n(4)}}
	b := AppendTagsFnodes(nil, fnodes)
	if got, err := DecodeTagsFnodes(b); err != nil || !reflect.DeepEqual(got, fnodes) {
		t.Errorf("DecodeTagsFnodes = %v, %v, want %v", got, err, fnodes)
	}
	bad(t, "cut", DecodeTagsFnodes, b[:60], "bad hgtagsfnodes stream of 60 bytes")
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		text string
		kvs  []KeyValue
	}{
		{"", nil},
		{"@\t0123", []KeyValue{{"@", "0123"}}},
		{"a\t1\nb\t", []KeyValue{{"a", "1"}, {"b", ""}}},
	} {
		b, err := AppendKeys(nil, tt.kvs)
		if err != nil || string(b) != tt.text {
			t.Errorf("AppendKeys(%v) = %q, %v, want %q", tt.kvs, b, err, tt.text)
		}
		if got, err := DecodeKeys([]byte(tt.text)); err != nil || !reflect.DeepEqual(got, tt.kvs) {
			t.Errorf("DecodeKeys(%q) = %v, %v, want %v", tt.text, got, err, tt.kvs)
		}
	}
	bad(t, "no tab", DecodeKeys, []byte("a\t1\nb"), `bad pushkey entry "b"`)
	bad(t, "two tabs", DecodeKeys, []byte("a\t1\t2"), `bad pushkey entry "a\t1\t2"`)
	for _, kv := range []KeyValue{{"a\tb", ""}, {"a", "b\nc"}, {"a\r", ""}} {
		if _, err := AppendKeys(nil, []KeyValue{kv}); err == nil {
			t.Errorf("AppendKeys takes %q", kv)
		}
	}
}

func TestBranchCache(t *testing.T) {
	branches := []BranchNodes{
		{"default", []hg.Node{n(1), n(2)}, []hg.Node{}},
		{"closed", []hg.Node{}, []hg.Node{n(3)}},
	}
	b := AppendBranchCache(nil, branches)
	if got, err := DecodeBranchCache(b); err != nil || !reflect.DeepEqual(got, branches) {
		t.Errorf("DecodeBranchCache = %v, %v, want %v", got, err, branches)
	}
	const want = "bad rev-branch-cache stream"
	bad(t, "cut", DecodeBranchCache, b[:len(b)-1], want)
	bad(t, "cut counts", DecodeBranchCache, b[:11], want)
	bad(t, "huge counts", DecodeBranchCache, bytes.Repeat([]byte{255}, 40), want)
	bad(t, "huge name", DecodeBranchCache, append([]byte{0, 1, 0, 0}, make([]byte, 1<<17)...), want)
}

// FuzzPayloads wants each payload that can be read to be written as it was.
func FuzzPayloads(f *testing.F) {
	marks, err := AppendBookmarks(nil, []Bookmark{{"@", n(1)}, {"gone", hg.WorkingNode}, {"nowhere", hg.NullNode}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(marks)
	f.Add(AppendPhaseHeads(nil, []PhaseHead{{hg.Draft, n(1)}}))
	f.Add(AppendTagsFnodes(nil, []TagsFnode{{n(1), n(2)}}))
	f.Add(AppendBranchCache(nil, []BranchNodes{{"default", []hg.Node{n(1)}, nil}}))
	f.Add([]byte("a\tb\nc\td"))
	f.Add([]byte("HG20\nerror=abort,pushkey"))
	f.Fuzz(func(t *testing.T, in []byte) {
		same := func(what string, out []byte, err error) {
			if err != nil || !bytes.Equal(out, in) {
				t.Errorf("%s: % x re-encodes as % x, %v", what, in, out, err)
			}
		}
		if v, err := DecodePhaseHeads(in); err == nil {
			same("phase heads", AppendPhaseHeads(nil, v), nil)
		}
		if v, err := DecodeBookmarks(in); err == nil {
			out, err := AppendBookmarks(nil, v)
			same("bookmarks", out, err)
		}
		if v, err := DecodeHeads(in); err == nil {
			same("heads", AppendHeads(nil, v), nil)
		}
		if v, err := DecodeTagsFnodes(in); err == nil {
			same("hgtagsfnodes", AppendTagsFnodes(nil, v), nil)
		}
		if v, err := DecodeKeys(in); err == nil && !bytes.HasSuffix(in, []byte("\n")) {
			out, err := AppendKeys(nil, v)
			same("keys", out, err)
		}
		if v, err := DecodeBranchCache(in); err == nil {
			same("rev-branch-cache", AppendBranchCache(nil, v), nil)
		}
		caps := DecodeCaps(string(in))
		if again := DecodeCaps(EncodeCaps(caps)); !reflect.DeepEqual(again, caps) {
			t.Errorf("capabilities %v come back as %v", caps, again)
		}
	})
}
