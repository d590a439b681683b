package outgoing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/hgtest"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
)

// A fakeSink is a client's connection.
type fakeSink struct {
	bytes.Buffer
	engine  compression.Engine
	encoded bool
	size    int64 // -1: not told
}

func newSink(e compression.Engine) *fakeSink { return &fakeSink{engine: e, size: -1} }

func (s *fakeSink) Engine() (compression.Engine, int, bool) { return s.engine, 0, true }

func (s *fakeSink) Encoded(e compression.Engine) bool {
	s.encoded = e == s.engine
	return s.encoded
}

func (s *fakeSink) SetSize(n int64) { s.size = n }

// parts decodes what came.
func (s *fakeSink) parts(t testing.TB) []hgtest.Part {
	t.Helper()
	if s.size >= 0 && s.size != int64(s.Len()) {
		t.Errorf("%d bytes came of %d that were told", s.Len(), s.size)
	}
	data := s.Bytes()
	if s.encoded {
		r, err := compression.NewReader(s.engine, bytes.NewReader(data), compression.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := hgtest.ParseBundle2(data)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// A served is a repository of its own for a test, and its bundles.
type served struct {
	*hgtest.HG
	t        *testing.T
	prepared *Prepared
	pulls    *Pulls
	options  MakeOptions
}

func newServed(t *testing.T, dag string) *served {
	t.Helper()
	h := hgtest.New(t)
	h.Run("init")
	h.Run("debugbuilddag", "-m", "-n", dag)
	h.Run("phase", "--public", "-r", "all()")
	s := &served{HG: h, t: t, prepared: NewPrepared(vfs.NewOS(filepath.Join(h.Dir, ".hg"))), pulls: NewPulls(0)}
	s.pulls.least = 4
	s.options = MakeOptions{Engine: compression.Zstd, Least: 8, Publishing: true}
	t.Cleanup(s.pulls.Close)
	return s
}

// view opens the repository anew, as another process would.
func (s *served) view() *store.View {
	s.t.Helper()
	return viewOf(s.t, openAt(s.t, s.Dir))
}

// refresh makes bundles and checks how many changesets the new one has.
func (s *served) refresh(want int) {
	s.t.Helper()
	made, err := s.prepared.Refresh(s.t.Context(), s.view(), s.options)
	if err != nil || made != want {
		s.t.Fatalf("Refresh made a bundle of %d changesets, %v; want %d", made, err, want)
	}
}

// pull asks, and compares with what is made for one request alone. prepared
// tells whether bundles made ahead have to be used.
func (s *served) pull(prepared bool, change func(*Args)) []hgtest.Part {
	s.t.Helper()
	a := full()
	a.Bookmarks, a.Phases, a.Publishing, a.Several = true, true, s.options.Publishing, true
	if change != nil {
		change(&a)
	}
	v := s.view()
	before := s.pulls.Stats().Prepared
	sink := newSink(s.options.Engine)
	if err := s.pulls.Answer(s.t.Context(), Pull{View: v, Args: a, Keys: noKeys, Prepared: s.prepared}, sink); err != nil {
		s.t.Fatal(err)
	}
	if used := s.pulls.Stats().Prepared > before; used != prepared {
		s.t.Errorf("bundles made ahead were used: %v, want %v", used, prepared)
	}
	parts := sink.parts(s.t)
	s.compare(v, a, parts)
	return parts
}

// compare checks that the parts come to the same as those of one bundle.
func (s *served) compare(v *store.View, a Args, parts []hgtest.Part) {
	s.t.Helper()
	want := getBundle(s.t, v, a)
	m := newModel(s.t, v)
	has := make(map[id]bool)
	for _, n := range a.Common {
		if r, ok := v.Rev(n); ok {
			for k := range m.withAncestors(r) {
				has[k] = true
			}
		}
	}
	wanted, _ := decode(s.t, payload(s.t, want, "changegroup"), changegroup.V02, m.client(has))
	have, got := m.client(has), make(map[id]sent)
	var rest []string
	for _, p := range parts {
		switch strings.ToLower(p.Type) {
		case "changegroup":
			revs, _ := decode(s.t, p.Payload, changegroup.V02, have)
			for k, r := range revs {
				if _, twice := got[k]; twice {
					s.t.Errorf("%s %s is sent in two parts", k.log, k.node)
				}
				got[k] = r
			}
		case "vcsd:seam":
		default:
			rest = append(rest, fmt.Sprintf("%q", p))
		}
	}
	for k := range got {
		if _, ok := wanted[k]; !ok && has[k] {
			delete(got, k)
		}
	}
	compareSent(s.t, wanted, got)
	var wantRest []string
	for _, p := range want {
		if !strings.EqualFold(p.Type, "changegroup") {
			wantRest = append(wantRest, fmt.Sprintf("%q", p))
		}
	}
	if !slices.Equal(rest, wantRest) {
		s.t.Errorf("other parts: %v\nwant %v", rest, wantRest)
	}
}

// pieces returns the files of bundles.
func (s *served) pieces() []string {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir, ".hg", piecesDir, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return filepath.Base(n) == "lock" || filepath.Base(n) == "index" })
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	return names
}

func countParts(parts []hgtest.Part, typ string) (n int) {
	for _, p := range parts {
		if strings.EqualFold(p.Type, typ) {
			n++
		}
	}
	return n
}

// TestPreparedGrows follows a repository while it grows: pieces are made, put
// together and swept by the rule.
func TestPreparedGrows(t *testing.T) {
	for _, engine := range []compression.Engine{compression.Zstd, compression.None} {
		t.Run(engine.String(), func(t *testing.T) {
			t.Parallel()
			s := newServed(t, "+6")
			s.options.Engine = engine
			s.refresh(0) // too few
			s.pull(false, nil)
			session, k := s.Session(), 0
			session.Run("update", "-q")
			more := func(n int) {
				for range n {
					k++
					s.Write("f", fmt.Sprint(k))
					session.Run("commit", "-q", "-A", "-m", fmt.Sprint("more ", k))
				}
				session.Run("phase", "--public", "-r", "all()")
			}
			steps := []struct{ more, made, files, changegroups int }{
				{14, 20, 1, 1}, // 20
				{7, 0, 1, 2},   // 27, 7 of them in no piece
				{1, 8, 2, 2},   // 28: 20 and 8
				{8, 36, 1, 1},  // 36: 8 and 8 become 16, which 20 is not twice as large as
				{8, 8, 2, 2},   // 44: 36 and 8
				{7, 0, 2, 3},
			}
			for i, step := range steps {
				more(step.more)
				s.refresh(step.made)
				if got := s.pieces(); len(got) != step.files {
					t.Fatalf("step %d: files %v, want %d", i, got, step.files)
				}
				parts := s.pull(true, nil)
				if n := countParts(parts, "changegroup"); n != step.changegroups {
					t.Errorf("step %d: %d changegroups, want %d", i, n, step.changegroups)
				}
			}
		})
	}
}

func TestPreparedRequests(t *testing.T) {
	s := newServed(t, "+20:a +12 <a +5 @b +6")
	s.refresh(43)
	s.Run("update", "-q", "tip")
	s.Commit("tail", map[string]string{"tail": "x"})
	s.Run("phase", "--public", "-r", "all()")
	node := func(rev string) []hg.Node { return []hg.Node{s.Node(rev)} }
	tests := []struct {
		name     string
		prepared bool
		change   func(*Args)
	}{
		{"clone", true, nil},
		{"without bookmarks and phases", true, func(a *Args) { a.Bookmarks, a.Phases = false, false }},
		{"only one changegroup", false, func(a *Args) { a.Several = false }},
		{"only one branch wanted", false, func(a *Args) { a.Heads = node("31") }},
		{"all heads named", true, func(a *Args) { a.Heads = append(node("31"), node("tip")...) }},
		{"client has the most", false, func(a *Args) { a.Common = node("30") }},
		{"client has a little", true, func(a *Args) { a.Common = node("2") }},
		{"client has something else", true, func(a *Args) { a.Common = []hg.Node{{1}} }},
		{"changegroup 01", false, func(a *Args) { a.Caps["changegroup"] = []string{"01"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := *s
			c.t = t
			c.HG = s.For(t)
			if tt.name == "changegroup 01" {
				// Only the choice is looked at.
				a := full()
				tt.change(&a)
				sink := newSink(s.options.Engine)
				before := s.pulls.Stats().Prepared
				if err := s.pulls.Answer(t.Context(), Pull{View: c.view(), Args: a, Keys: noKeys, Prepared: s.prepared}, sink); err != nil || s.pulls.Stats().Prepared > before {
					t.Errorf("err = %v, prepared %d times", err, s.pulls.Stats().Prepared-before)
				}
				return
			}
			c.pull(tt.prepared, tt.change)
		})
	}
	sink := newSink(compression.Zlib)
	before := s.pulls.Stats().Prepared
	if err := s.pulls.Answer(t.Context(), Pull{View: s.view(), Args: full(), Keys: noKeys, Prepared: s.prepared}, sink); err != nil || s.pulls.Stats().Prepared > before {
		t.Errorf("for zlib: %v, prepared %d times", err, s.pulls.Stats().Prepared-before)
	}
	sink.parts(t)
}

// TestPreparedWhole: a bundle that has all that is wanted serves anybody.
func TestPreparedWhole(t *testing.T) {
	s := newServed(t, "+20")
	s.refresh(20)
	parts := s.pull(true, func(a *Args) { a.Several = false })
	if n := countParts(parts, "changegroup"); n != 1 {
		t.Errorf("%d changegroups, want 1", n)
	}
}

// TestPreparedHidesNothingNew: what is hidden, secret, stripped or replaced
// after a bundle was made is not served from it.
func TestPreparedIsNotUsed(t *testing.T) {
	tests := []struct {
		name   string
		change func(*served)
		sound  bool // the bundle may be used still
	}{
		{"nothing", func(*served) {}, true},
		{"made secret", func(s *served) { s.Run("phase", "--force", "--secret", "-r", "30") }, false},
		{"made draft", func(s *served) { s.Run("phase", "--force", "--draft", "-r", "30") }, true},
		{"hidden", func(s *served) {
			s.Run("phase", "--force", "--draft", "-r", "39")
			s.With("experimental.evolution=all").Run("debugobsolete", s.Node("39").String())
		}, false},
		{"stripped", func(s *served) { s.With("extensions.strip=").Run("strip", "--no-backup", "-r", "39") }, false},
		{"stripped and committed", func(s *served) {
			s.With("extensions.strip=").Run("strip", "--no-backup", "-r", "39")
			s.Run("update", "-q", "tip")
			s.Commit("another", map[string]string{"other": "x"})
		}, false},
		{"filelog replaced", func(s *served) {
			name := filepath.Join(s.Dir, ".hg", "store", "data", "mf.i")
			b, err := os.ReadFile(name)
			if err != nil {
				s.t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(name+".new", b, 0o644), os.Rename(name+".new", name)); err != nil {
				s.t.Fatal(err)
			}
		}, false},
		{"file cut", func(s *served) {
			name := filepath.Join(s.Dir, ".hg", piecesDir, s.pieces()[0])
			if err := os.Truncate(name, 100); err != nil {
				s.t.Fatal(err)
			}
		}, false},
		{"file gone", func(s *served) {
			if err := os.Remove(filepath.Join(s.Dir, ".hg", piecesDir, s.pieces()[0])); err != nil {
				s.t.Fatal(err)
			}
		}, false},
		{"index broken", func(s *served) { s.Write(".hg/"+indexName, "{") }, false},
		{"index of another format", func(s *served) { s.Write(".hg/"+indexName, `{"Format": 99, "Pieces": [{}]}`) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newServed(t, "+40")
			s.refresh(40)
			tt.change(s)
			s.prepared = NewPrepared(vfs.NewOS(filepath.Join(s.Dir, ".hg")))
			s.pull(tt.sound, nil)
		})
	}
}

// TestPreparedContents: only public changesets go in, or all visible ones if
// the repository isn't publishing.
func TestPreparedContents(t *testing.T) {
	for _, publishing := range []bool{true, false} {
		s := newServed(t, "+20")
		s.options.Publishing = publishing
		s.Run("update", "-q")
		for i := range 6 {
			s.Commit(fmt.Sprint("draft ", i), map[string]string{"d": fmt.Sprint(i)})
		}
		s.Run("phase", "--secret", "--force", "-r", "25")
		want := 20
		if !publishing {
			want = 25
		}
		s.refresh(want)
		s.pull(true, nil)
	}
}

// TestPreparedSoundAgain: after changesets of a bundle were hidden, another one
// is made.
func TestPreparedSoundAgain(t *testing.T) {
	s := newServed(t, "+40")
	s.refresh(40)
	old := s.pieces()
	s.Run("phase", "--force", "--secret", "-r", "39")
	s.refresh(39)
	if now := s.pieces(); len(now) != 1 || now[0] == old[0] {
		t.Errorf("files %v, before %v", now, old)
	}
	s.pull(true, nil)
	s.options.Engine = compression.None
	s.refresh(39)
	s.pull(true, nil)
	s.options.Engine = compression.Zlib
	s.refresh(0)
}

// TestPreparedLongTail: a rest that is not kept in memory.
func TestPreparedLongTail(t *testing.T) {
	s := newServed(t, "+40")
	s.refresh(40)
	s.Run("update", "-q")
	noise := make([]byte, maxTailBytes)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	s.Commit("noise", map[string]string{"noise": string(noise)})
	s.Run("phase", "--public", "-r", "all()")
	s.pull(true, nil)
	for i := range 5 {
		s.Commit(fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)})
	}
	s.Run("phase", "--public", "-r", "all()")
	s.pull(true, nil)
	if st := s.pulls.Stats(); st.Computed != 1 {
		t.Errorf("%+v, want one computation, of the second tail", st)
	}
}

func TestPreparedOneMaker(t *testing.T) {
	s := newServed(t, "+40")
	fsys := vfs.NewOS(filepath.Join(s.Dir, ".hg"))
	if err := fsys.MkdirAll(piecesDir); err != nil {
		t.Fatal(err)
	}
	lock, err := fsys.Lock(piecesLock)
	if err != nil {
		t.Fatal(err)
	}
	s.refresh(0)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	s.refresh(40)
}
