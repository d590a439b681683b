package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vcsd/bench/report"
	"vcsd/internal/hgtest"
)

func TestMain(m *testing.M) { hgtest.Main(m) }

// A run on tiny histories measures every scenario on vcsd and hg serve, with
// every answer checked.
func TestTinyRun(t *testing.T) {
	s := settings{
		sizes: []int{40}, files: 10, rounds: 1, atOnceSizes: []int{1, 3}, crowdMax: 1000, firstMax: 50,
		pushers: []int{1, 3}, pushes: 2, heads: 20, branches: 10, bookmarks: 30, serving: []int{2}, quiet: 10 * time.Millisecond,
		out: t.TempDir(), cache: t.TempDir(),
	}
	if err := measure(t.Context(), s, hgtest.Vcsd(t)); err != nil {
		t.Fatal(err)
	}
	got := results(t, s.out)
	for _, scenario := range []string{
		"clone", "3 clones at once", "stream clone", "pull without changes", "pull 1", "pull 10", "hg clone",
		"hg pull without changes", "push 1 changeset", "3 pushers on as many branches", "3 pushers on one head", "first push of all",
		"memory: 8 clones", "start-up with 2 repositories", "heads: ask for heads",
		"heads: push 1 changeset", "branches: ask for branches", "bookmarks: pull without changes",
	} {
		for _, server := range []string{nameVcsd, nameHgServe} {
			switch r, ok := got[scenario+" by "+server]; {
			case !ok:
				t.Errorf("%s: %s wasn't measured", scenario, server)
			case r.Note != "" || len(r.Wall) == 0 || r.Wall[0] <= 0 || len(r.CPU) == 0:
				t.Errorf("%s: %s: %+v", scenario, server, r)
			}
		}
	}
	for _, other := range []string{"clone by " + nameBare, "stream clone by " + nameCat, "push 1 changeset by " + nameSync} {
		if r := got[other]; len(r.Wall) == 0 || r.Wall[0] <= 0 {
			t.Errorf("%s: %+v", other, r)
		}
	}
	if r := got["memory: 8 clones by "+nameVcsd]; len(r.Peak) == 0 || r.Peak[0] < 1<<20 {
		t.Errorf("peak of memory: %+v", r)
	}
	checkFiles(t, s.out)
}

func results(t *testing.T, dir string) map[string]report.Result {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Results []report.Result }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	m := map[string]report.Result{}
	for _, r := range all.Results {
		m[r.Scenario+" by "+r.Server] = r
	}
	return m
}

func checkFiles(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]string{
		"table.md": "| clone | woven-40-files-10 | " + nameBare, "results.csv": "scenario,", "clone-cpu.svg": "</svg>", "push-wall.svg": nameSync,
	} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s lacks %q: %.2000s (%v)", name, want, b, err)
		}
	}
}

// A repository given is measured as it is, in a copy.
func TestGiven(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", "given")
	r := h.In("given")
	r.Commit("first", map[string]string{"a": "1\n"})
	node := r.Commit("second", map[string]string{"b": "2\n"})
	b := &bench{settings: settings{cache: t.TempDir()}, work: t.TempDir(), start: time.Now()}
	for range 2 { // made, and kept
		got, err := b.given(t.Context(), r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		w := got.last(1)
		if len(w.heads) != 1 || w.heads[0] != node || len(w.common) != 1 || string(got.manifest) != r.Run("debugdata", "-m", "1") {
			t.Errorf("last(1) = %+v, manifest %q", w, got.manifest)
		}
	}
}

// What isn't what was asked for gives no figure.
func TestWrongAnswersAreSeen(t *testing.T) {
	bundle := func(parts ...hgtest.Part) *hgtest.Answer {
		return &hgtest.Answer{Status: 200, Body: hgtest.Bundle2(parts...)}
	}
	first := hgtest.NewChangeset(nil, "", "first", map[string]string{"a": "1\n"})
	changegroup := hgtest.ChangegroupOf(first)
	good := hgtest.Part{Type: "CHANGEGROUP", Payload: changegroup}
	cut := hgtest.Part{Type: "CHANGEGROUP", Payload: changegroup[:len(changegroup)-30]}
	stream := func(files, bytes string) hgtest.Part {
		return hgtest.Part{Type: "STREAM2", Mandatory: []hgtest.Param{{Name: "filecount", Value: files}, {Name: "bytecount", Value: bytes}}, Payload: []byte("s\x01\x03aabc")}
	}
	for _, tt := range []struct {
		name   string
		w      want
		a      *hgtest.Answer
		wantOK bool
	}{
		{"right", want{changesets: 1}, bundle(good), true},
		{"too few", want{changesets: 2}, bundle(good), false},
		{"no part", want{changesets: 1}, bundle(), false},
		{"cut changegroup", want{changesets: 1}, bundle(cut), false},
		{"cut bundle", want{changesets: 1}, &hgtest.Answer{Body: bundle(good).Body[:80]}, false},
		{"stream", want{stream: true}, bundle(stream("1", "3")), true},
		{"stream of fewer files", want{stream: true}, bundle(stream("2", "3")), false},
		{"stream of fewer bytes", want{stream: true}, bundle(stream("1", "4")), false},
		{"changegroup for a stream", want{stream: true}, bundle(good), false},
		{"no bookmarks", want{changesets: 1, bookmarks: 3}, bundle(good), false},
	} {
		if err := tt.w.check(tt.a); (err == nil) != tt.wantOK {
			t.Errorf("%s: check = %v", tt.name, err)
		}
	}
}
