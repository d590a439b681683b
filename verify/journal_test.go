package verify_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"vcsd/ingest"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/refs"
	"vcsd/verify"
)

// served returns a repository with pushes by vcsd: to inline and split logs,
// of a new branch, and of a bookmark alone.
func served(t *testing.T) (dir string, pushes int) {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init", "r")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir})
	url := s.URL + "/r"
	h.Run("clone", "-q", url, "c")
	c := h.In("c")
	noise := func(seed string, n int) string { return strings.Repeat(seed+" has a line that is long\n", n) }
	for i := range 4 {
		c.Commit(fmt.Sprint(i), map[string]string{"f": fmt.Sprintf("%d\n", i), fmt.Sprintf("big%d", i): noise(fmt.Sprint(i), 50*i+1)})
		c.Run("push", "-q", url)
		pushes++
	}
	c.Run("branch", "-q", "side")
	c.Commit("side", map[string]string{"g": "g\n"})
	c.Run("push", "-q", "--new-branch", url)
	c.Run("bookmark", "-q", "mark")
	c.Fail("push", "-q", "-B", "mark", url) // hg's way to say that there are no changesets
	s.Stop()
	return filepath.Join(h.Dir, "r"), pushes + 2
}

// A told is a coordination service that tells one state, or an error.
type told struct {
	state refs.State
	err   error
}

func (f told) State(context.Context, refs.RepoID) (refs.State, error) { return f.state, f.err }

// tipOf returns the tip as the journal of a repository has it.
func tipOf(t *testing.T, dir string) refs.Tip {
	t.Helper()
	fsys := vfs.NewOS(filepath.Join(dir, ".hg"))
	linked, _, err := ingest.ReadLinked(fsys, "")
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(fsys, ingest.JournalDir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := j.Get(linked.Seq, linked.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return refs.Tip{Seq: linked.Seq, Digest: linked.Digest, ChangelogLen: rec.ChangelogLen, Node: rec.Tip}
}

func TestJournal(t *testing.T) {
	original, pushes := served(t)
	tip := tipOf(t, original)
	sound := told{state: refs.State{Tip: tip}}
	behind, other, empty := sound, sound, told{}
	behind.state.Tip.Seq--
	other.state.Tip.Digest[0]++
	keys := sound
	keys.state.Heads = map[string][]byte{"side": []byte(fmt.Sprintf(`{"seq":%d,"count":1,"hash":"%040d"}`, tip.Seq, 7))}
	record := func(hgDir string, i int) string {
		names, err := filepath.Glob(filepath.Join(hgDir, "vcsd/journal/*.rec"))
		if err != nil || len(names) != pushes {
			t.Fatalf("%d records, want %d: %v", len(names), pushes, err)
		}
		return names[(i+len(names))%len(names)]
	}
	damageRecord := func(i int) func(*testing.T, string) {
		return func(t *testing.T, hgDir string) {
			edit(relTo(hgDir, record(hgDir, i)), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })(t, hgDir)
		}
	}
	nothing := func(*testing.T, string) {}
	tests := []struct {
		name   string
		do     func(t *testing.T, hgDir string)
		refs   verify.Refs
		file   string // of a finding; empty: none at all
		want   string // in it
		remedy string
		note   string
	}{
		{"sound", nothing, sound, "", "", "", ""},
		{"sound, without refs", nothing, nil, "", "", "", ""},
		{"no answer", nothing, told{err: errors.New("away")}, "", "", "", "away"},
		{"record damaged", damageRecord(2), sound, "vcsd/journal/0000000000000003-", "its digest is", "none needed", ""},
		{"last record damaged", damageRecord(-1), sound, "vcsd/journal/", "its digest is", "", ""},
		{"record missing", func(t *testing.T, hgDir string) { remove(relTo(hgDir, record(hgDir, 2)))(t, hgDir) }, nil,
			"vcsd/journal/0000000000000003-", "missing, though record 1 is there", "none needed", ""},
		{"oldest record missing", func(t *testing.T, hgDir string) { remove(relTo(hgDir, record(hgDir, 0)))(t, hgDir) }, nil, "", "", "", ""},
		{"checkpoint damaged", edit("vcsd/applied", func(b []byte) []byte { return b[:len(b)/2] }), nil, "vcsd/applied", "", "", ""},
		{"no refs any more", nothing, empty, "vcsd/journal", "has no tip", "vcsd recover --rebuild-refs", ""},
		{"older refs", nothing, behind, "vcsd/journal", "lags behind", "vcsd recover --rebuild-refs", ""},
		{"other refs", nothing, other, "vcsd/journal", "", "vcsd recover --rebuild-refs", ""},
		{"another head key", nothing, keys, "etcd: head key of branch side", "other heads", "vcsd recover --rebuild-refs", ""},
		{"appended bytes differ", edit("store/00changelog.i", func(b []byte) []byte { b[70] ^= 1; return b }), sound, "store/00changelog.i", "what record 1 appended", "", ""},
		{"pushes lost", func(t *testing.T, hgDir string) {
			h := hgtest.New(t).With("extensions.strip=").In(filepath.Dir(hgDir))
			h.Run("strip", "-q", "--no-backup", "-r", "tip")
		}, sound, "store/00changelog.i", "there are 4", "none if a local hg removed it", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r")
			if err := hgtest.CopyTree(original, dir); err != nil {
				t.Fatal(err)
			}
			tt.do(t, filepath.Join(dir, ".hg"))
			c, found := run(t, dir, verify.Options{Refs: tt.refs, RepoID: "r"})
			for _, f := range found {
				t.Log(f)
			}
			if tt.file == "" {
				if len(found) > 0 || tt.name == "sound" && c.Records != pushes {
					t.Errorf("%d findings, %d records, want %d", len(found), c.Records, pushes)
				}
			} else if !slices.ContainsFunc(found, func(f verify.Finding) bool {
				return strings.HasPrefix(f.File, tt.file) && strings.Contains(f.Problem, tt.want) && strings.HasPrefix(f.Remedy, tt.remedy)
			}) {
				t.Errorf("nothing found in %s with %q and the remedy %q", tt.file, tt.want, tt.remedy)
			}
			if notes := strings.Join(c.Notes, "\n"); (tt.note == "") != (notes == "") || !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q", notes, tt.note)
			}
		})
	}
}

func relTo(dir, name string) string {
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		panic(err)
	}
	return filepath.ToSlash(rel)
}

// While pushes go on nothing is found, in whichever moment it is looked at.
func TestWhilePushing(t *testing.T) {
	h := hgtest.New(t)
	h.Run("init", "r")
	s := hgtest.Serve(t, hgtest.ServerOptions{Root: h.Dir, Config: []string{"phases.publish=no"}})
	url := s.URL + "/r"
	boot, err := ingest.BootID()
	if err != nil {
		t.Fatal(err)
	}
	var pushers sync.WaitGroup
	for i := range 2 {
		c := h.In(fmt.Sprintf("c%d", i))
		h.Run("clone", "-q", url, c.Dir)
		c.Run("branch", "-q", fmt.Sprintf("branch%d", i))
		pushers.Go(func() {
			for n := range 12 {
				// From 128 KiB on the log is split.
				big := strings.Repeat(fmt.Sprintf("%d %d\n", i, n), 9000)
				c.Commit(fmt.Sprint(n), map[string]string{fmt.Sprintf("new%d-%d", i, n): "n\n", fmt.Sprintf("f%d", i): big})
				c.Run("bookmark", "-q", "-f", fmt.Sprintf("mark%d", i))
				c.Run("push", "-q", "-f", "--new-branch", "-B", fmt.Sprintf("mark%d", i), url)
			}
		})
	}
	done := make(chan struct{})
	go func() { pushers.Wait(); close(done) }()
	runs, records := 0, 0
	for going := true; going; runs++ {
		select {
		case <-done:
			going = false
		default:
		}
		c, found := run(t, s.Repo("r"), verify.Options{BootID: boot, MaxNames: 8})
		records = c.Records
		for _, f := range found {
			t.Errorf("run %d: %s", runs, f)
		}
	}
	if records < 12 {
		t.Errorf("%d records", records)
	}
	t.Logf("%d runs while pushing", runs)
}

// A verifier may be stopped, and says so.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := verify.Run(ctx, vfs.NewOS(filepath.Join(hgtest.Repo(t, "split"), ".hg")), verify.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want %v", err, context.Canceled)
	}
}
