package obsmarker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
)

// TestBase85 has what Python's base64.b85encode makes of the same bytes.
func TestBase85(t *testing.T) {
	for _, tt := range []struct{ data, want string }{
		{"", ""}, {"a", "VE"}, {"ab", "VPX"}, {"abc", "VPaz"}, {"abcd", "VPa!s"}, {"abcde", "VPa!sWd"},
		{"\x00\x01\x02\x03\x04\x05\x06\x07\x08", "009C61O)~M2m"},
		{"\xff\xff\xff\xff\xff\xff\xff", "|NsC0|Ns9"}, {"\x00\x00\x00\x00", "00000"},
	} {
		if got := string(appendBase85(nil, []byte(tt.data))); got != tt.want {
			t.Errorf("%q is written as %q, want %q", tt.data, got, tt.want)
		}
		if got, err := decodeBase85(tt.want); string(got) != tt.data || err != nil {
			t.Errorf("%q is read as %q, %v, want %q", tt.want, got, err, tt.data)
		}
	}
	for _, bad := range []string{"VP\"", "~~~~~", "|NsC1", "\xff", "a\tb"} {
		if got, err := decodeBase85(bad); !errors.Is(err, hg.ErrMalformed) {
			t.Errorf("%q is read as %q, %v, want an error", bad, got, err)
		}
	}
}

func TestPushKeys(t *testing.T) {
	if keys := PushKeys(nil); len(keys) > 0 {
		t.Errorf("no markers have keys: %v", keys)
	}
	var markers []Marker
	for i := range 100 {
		m := Marker{Prec: node(byte(i)), Succs: []hg.Node{node(byte(i + 100))}, Date: Date{float64(i), 0}}
		m.Meta = []Meta{{"user", strings.Repeat("x", i)}}
		markers = append(markers, m)
	}
	slices.Reverse(markers)
	// Version 0 would take this for a parent.
	odd := Marker{Prec: node(200), Meta: []Meta{{"p1", "x"}}}
	keys := PushKeys(append(slices.Clone(markers), odd))
	var got []Marker
	for i := len(keys) - 1; i >= 0; i-- {
		key := fmt.Sprint("dump", i)
		if !IsPushKey(key) {
			t.Errorf("%q is no key", key)
		}
		part, err := DecodePushKey(keys[key])
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		got = append(got, part...)
	}
	slices.Reverse(markers)
	if len(keys) < 2 || len(got) != len(markers) {
		t.Fatalf("%d markers in %d keys, want %d in several", len(got), len(keys), len(markers))
	}
	for i := range got {
		if got[i].Key() != markers[i].Key() {
			t.Errorf("marker %d is %s, want %s", i, describe(&got[i]), describe(&markers[i]))
		}
	}
}

// TestCompare sorts as Python sorts the tuples that hg makes of markers.
func TestCompare(t *testing.T) {
	sorted := []Marker{
		{Prec: node(1)},
		{Prec: node(1), Date: Date{-1, 0}, Succs: []hg.Node{node(1)}},
		{Prec: node(1), Succs: []hg.Node{node(1)}},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Parents: []hg.Node{node(3)}, HasParents: true},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Date: Date{0, 60}},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Date: Date{1, -60}},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Meta: []Meta{{"a", "b"}}},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Meta: []Meta{{"a", "c"}}},
		{Prec: node(1), Succs: []hg.Node{node(1)}, Flags: BumpedFix},
		{Prec: node(1), Succs: []hg.Node{node(1), node(0)}},
		{Prec: node(1), Succs: []hg.Node{node(2)}},
		{Prec: node(2), Long: &LongNodes{Prec: LongNode{1, 31: 5}}},
		{Prec: node(2)},
	}
	for i := range sorted {
		for j := range sorted {
			got, want := Compare(sorted[i], sorted[j]), 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got != want {
				t.Errorf("Compare(%d, %d) = %d, want %d", i, j, got, want)
			}
		}
	}
}

func FuzzBase85(f *testing.F) {
	f.Add("009C61O)~M2m")
	f.Add("|NsC0|Ns9")
	f.Fuzz(func(t *testing.T, in string) {
		b, err := decodeBase85(in)
		if err != nil {
			return
		}
		again, err := decodeBase85(string(appendBase85(nil, b)))
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q is read as %q, and from what that is written as, %q, %v", in, b, again, err)
		}
	})
}
