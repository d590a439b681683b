package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// conf makes a Config of the text of an hgrc.
func conf(t *testing.T, text string) *Config {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"hgrc": text})
	c, err := newTestLoader(map[string]string{"HGRCPATH": filepath.Join(dir, "hgrc")}).System()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseBool(t *testing.T) {
	tests := []struct {
		in        string
		value, ok bool
	}{
		{"1", true, true}, {"Yes", true, true}, {"TRUE", true, true}, {"on", true, true}, {"always", true, true},
		{"0", false, true}, {"no", false, true}, {"False", false, true}, {"off", false, true}, {"never", false, true},
		{"", false, false}, {"2", false, false}, {"y", false, false}, {" yes", false, false},
	}
	for _, tt := range tests {
		if v, ok := ParseBool(tt.in); v != tt.value || ok != tt.ok {
			t.Errorf("ParseBool(%q) = %v, %v; want %v, %v", tt.in, v, ok, tt.value, tt.ok)
		}
	}
}

func TestParseBytes(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"42", 42, true}, {"42.5 kb", 43520, true}, {"7 MB", 7 << 20, true}, {"6M", 6 << 20, true}, {"2.2kb", 2252, true},
		{"1g", 1 << 30, true}, {"3b", 3, true}, {" 5 ", 5, true}, {"-1k", -1024, true},
		{"", 0, false}, {"k", 0, false}, {"1.5", 0, false}, {"1t", 0, false}, {"nank", 0, false}, {"infk", 0, false}, {"1e30g", 0, false},
	}
	for _, tt := range tests {
		if v, ok := ParseBytes(tt.in); v != tt.want || ok != tt.ok {
			t.Errorf("ParseBytes(%q) = %v, %v; want %v, %v", tt.in, v, ok, tt.want, tt.ok)
		}
	}
}

func TestParseDuration(t *testing.T) {
	tests := []struct {
		in   string
		want time.Duration
		ok   bool
	}{
		{"90", 90 * time.Second, true}, {"1m30s", 90 * time.Second, true}, {"0.5", time.Second / 2, true}, {"", 0, false}, {"x", 0, false}, {"1e300", 0, false},
	}
	for _, tt := range tests {
		if v, ok := ParseDuration(tt.in); ok != tt.ok || ok && v != tt.want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v, %v", tt.in, v, ok, tt.want, tt.ok)
		}
	}
}

func TestParseOverride(t *testing.T) {
	tests := []struct {
		in   string
		want Item
		err  string
	}{
		{"a.b=c", Item{"a", "b", "c", "--config"}, ""},
		{" a.b.c = d = e ", Item{"a", "b.c", "d = e", "--config"}, ""},
		{"a.b=", Item{"a", "b", "", "--config"}, ""},
		{"x", Item{}, "malformed --config option: 'x' (use --config section.name=value)"},
		{"a=b", Item{}, "malformed --config option: 'a=b' (use --config section.name=value)"},
		{".b=c", Item{}, "malformed --config option: '.b=c' (use --config section.name=value)"},
		{"a.=c", Item{}, "malformed --config option: 'a.=c' (use --config section.name=value)"},
	}
	for _, tt := range tests {
		got, err := ParseOverride(tt.in)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("ParseOverride(%q) = %+v, %v; want %+v, %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestTypedErrors(t *testing.T) {
	c := conf(t, "[a]\nb = x\n")
	_, boolErr := c.Bool("a", "b", false)
	_, intErr := c.Int("a", "b", 0)
	_, bytesErr := c.Bytes("a", "b", 0)
	for err, want := range map[error]string{
		boolErr:  "config error: a.b is not a boolean ('x')",
		intErr:   "config error: a.b is not a valid integer ('x')",
		bytesErr: "config error: a.b is not a byte quantity ('x')",
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestWeb(t *testing.T) {
	tests := []struct {
		name string
		text string
		get  func(Web) any
		want any
	}{
		{"allow-push", "[web]\nallow-push = a, b\n", func(w Web) any { return w.AllowPush }, []string{"a", "b"}},
		{"allow_push", "[web]\nallow_push = a\n", func(w Web) any { return w.AllowPush }, []string{"a"}},
		{"of both in a file, the name of today", "[web]\nallow-push = a\nallow_push = b\n", func(w Web) any { return w.AllowPush }, []string{"a"}},
		{"nobody by default", "", func(w Web) any { return w.AllowPush }, []string(nil)},
		{"push_ssl by default", "", func(w Web) any { return w.PushSSL }, true},
		{"push_ssl", "[web]\npush_ssl = no\n", func(w Web) any { return w.PushSSL }, false},
		{"allowpull", "[web]\nallowpull = no\n", func(w Web) any { return w.AllowPull }, false},
		{"refreshinterval", "[web]\nrefreshinterval = -1\n", func(w Web) any { return w.RefreshInterval }, -time.Second},
		{"refreshinterval by default", "", func(w Web) any { return w.RefreshInterval }, 20 * time.Second},
		{"prefix", "[web]\nprefix = a/b/\n", func(w Web) any { return w.Prefix }, "/a/b"},
		{"no prefix", "[web]\nprefix = /\n", func(w Web) any { return w.Prefix }, ""},
		{"port", "[web]\nport = 80\n", func(w Web) any { return w.Port }, 80},
		{"port by name", "[web]\nport = http\n", func(w Web) any { return w.Port }, 80},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := conf(t, tt.text).Web()
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.get(w); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%q: got %#v, want %#v", tt.text, got, tt.want)
			}
		})
	}
}

func TestAliasSetLater(t *testing.T) {
	c := conf(t, "[web]\nallow-push = a\n").With(Item{"web", "allow_push", "b", "test"})
	w, err := c.Web()
	if err != nil || !slices.Equal(w.AllowPush, []string{"b"}) {
		t.Errorf("allow-push = %q, %v; want what was set last", w.AllowPush, err)
	}
}

func TestBundle1(t *testing.T) {
	tests := []struct {
		text         string
		action       string
		generalDelta bool
		want         bool
	}{
		{"", "pull", true, true},
		{"bundle1 = no", "pull", true, false},
		{"bundle1gd = no", "pull", true, false},
		{"bundle1gd = no", "pull", false, true},
		{"bundle1.push = no", "pull", true, true},
		{"bundle1.push = no", "push", true, false},
		{"bundle1 = no\nbundle1.push = yes", "push", true, true},
		{"bundle1.push = no\nbundle1gd.push = yes", "push", true, true},
		{"bundle1.push = no\nbundle1gd = yes", "push", true, false},
		{"bundle1 = no\nbundle1gd = yes", "push", false, false},
	}
	for _, tt := range tests {
		s, err := conf(t, "[server]\n"+tt.text+"\n").Server()
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Bundle1(tt.action, tt.generalDelta); got != tt.want {
			t.Errorf("%q: Bundle1(%s, %v) = %v, want %v", tt.text, tt.action, tt.generalDelta, got, tt.want)
		}
	}
}

func TestObsmarkers(t *testing.T) {
	tests := []struct {
		text string
		want bool
	}{
		{"", false},
		{"evolution = all", true},
		{"evolution = yes", true},
		{"evolution = no", false},
		{"evolution = createmarkers", false},
		{"evolution = createmarkers, exchange", true},
		{"evolution = exchange", false},
		{"evolution.createmarkers = yes\nevolution.exchange = yes", true},
		{"evolution = all\nevolution.exchange = no", false},
		{"evolution.exchange = yes", false},
	}
	for _, tt := range tests {
		e, err := conf(t, "[experimental]\n"+tt.text+"\n").Exchange()
		if err != nil {
			t.Fatal(err)
		}
		if e.Obsmarkers != tt.want {
			t.Errorf("%q: Obsmarkers = %v, want %v", tt.text, e.Obsmarkers, tt.want)
		}
	}
}

func TestSingleHead(t *testing.T) {
	for _, tt := range []struct {
		text                       string
		single, publicOnly, closed bool
	}{
		{"", false, false, false},
		{"single-head-per-branch = yes", true, false, false},
		{"single-head-per-branch = yes\nsingle-head-per-branch:public-changes-only = on", true, true, false},
		{"single-head-per-branch = 1\nsingle-head-per-branch:account-closed-heads = true\nsingle-head-per-branch:public-changes-only = no", true, false, true},
	} {
		e, err := conf(t, "[experimental]\n"+tt.text+"\n").Exchange()
		if err != nil || e.SingleHead != tt.single || e.SingleHeadPublicOnly != tt.publicOnly || e.SingleHeadClosed != tt.closed {
			t.Errorf("%q: %+v, %v, want %v %v %v", tt.text, e, err, tt.single, tt.publicOnly, tt.closed)
		}
	}
}

func TestVcsd(t *testing.T) {
	v, err := conf(t, "[vcsd]\nnode = x\nmax-push-bytes = 10MB\nlease-ttl = 2.5\netcd = a:1 b:2\n").Vcsd()
	if err != nil {
		t.Fatal(err)
	}
	if v.Node != "x" || v.MaxPushBytes != 10<<20 || v.LeaseTTL != 2500*time.Millisecond || len(v.Etcd) != 2 {
		t.Errorf("got %+v", v)
	}
	tests := []struct{ text, want string }{
		{"htpaswd = /x", "config error at HGRC:2: unknown key vcsd.htpaswd"},
		{"lease-ttl = soon", "config error at HGRC:2: vcsd.lease-ttl is not a duration ('soon')"},
		{"max-push-bytes = -1", "config error at HGRC:2: vcsd.max-push-bytes is not a byte quantity ('-1')"},
		{"\npush-slots = x\nb=c", "config error at HGRC:3: vcsd.push-slots is not a number in range ('x')\nconfig error at HGRC:4: unknown key vcsd.b"},
	}
	for _, tt := range tests {
		c := conf(t, "[vcsd]\n"+tt.text+"\n")
		_, err := c.Vcsd()
		if err == nil {
			t.Errorf("%q: no error", tt.text)
			continue
		}
		file, _, _ := strings.Cut(c.Items("vcsd")[0].Source, ":")
		if got := strings.ReplaceAll(err.Error(), file, "HGRC"); got != tt.want {
			t.Errorf("%q: error %q, want %q", tt.text, got, tt.want)
		}
	}
}
