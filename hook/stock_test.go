package hook

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"vcsd/config"
	"vcsd/hg"
)

// A ran is one hook that stock hg ran, as testdata/record.sh noted it.
type ran struct {
	point Point
	vars  Vars
}

var nodeWord = regexp.MustCompile(`\bN([0-9]+)\b`)

// nodeAt stands for the changeset with that number in a recording.
func nodeAt(r int) hg.Node {
	var n hg.Node
	for i := range n {
		n[i] = byte(r + 1)
	}
	return n
}

// recorded reads the hooks of a recording.
func recorded(t *testing.T, scene string) []ran {
	t.Helper()
	var all []ran
	for line := range strings.SplitSeq(recording(t, scene), "\n") {
		if i := strings.Index(line, "== "); i >= 0 {
			all = append(all, ran{Point(line[i+3:]), Vars{}})
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "HG_"), "=")
		if !ok || !strings.HasPrefix(line, "HG_") {
			continue
		}
		value = nodeWord.ReplaceAllStringFunc(value, func(s string) string {
			r, _ := strconv.Atoi(s[1:]) // matched digits
			return nodeAt(r).String()
		})
		all[len(all)-1].vars[name] = value
	}
	return all
}

func recording(t *testing.T, scene string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/stock", scene+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A script makes the calls that a server makes for an exchange.
type script struct{ calls []ran }

func (s *script) call(p Point, v Vars) { s.calls = append(s.calls, ran{p, v}) }

func (s *script) listkeys(namespace string, values map[string]string) {
	s.call(PreListkeys, Namespace(namespace))
	s.call(Listkeys, Values(namespace, values))
}

const localURL = "remote:http:127.0.0.1:"

func bundle2() *Txn {
	return &Txn{ID: "TXN:ID", Name: TxnServe, Bundle2: true, Source: "serve", URL: localURL}
}

// group runs the hooks of a changegroup until it is pending, and returns what
// its hooks afterwards get.
func (s *script) group(t *Txn, first, last int) Vars {
	s.call(PreChangegroup, t.Vars())
	t.Node, t.NodeLast = nodeAt(first), nodeAt(last)
	v := t.Vars().Group(t.Node, t.NodeLast)
	s.call(PreTxnChangegroup, v)
	return v
}

// after runs the hooks of a changegroup when all is done.
func (s *script) after(v Vars, first, last int) {
	s.call(Changegroup, v)
	for r := first; r <= last; r++ {
		s.call(Incoming, v.Incoming(nodeAt(r)))
	}
}

func (s *script) newPhases(p Point, v Vars, first, last int, phase hg.Phase) {
	for r := first; r <= last; r++ {
		s.call(p, v.NewPhase(nodeAt(r), phase))
	}
}

var publishing = map[string]string{"publishing": "True"}

func TestVarsAreThoseOfStock(t *testing.T) {
	none := map[string]string{}
	tests := []struct {
		scene string
		run   func(s *script)
	}{
		{"first", func(s *script) {
			s.listkeys("phases", publishing)
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			g := s.group(x, 0, 1)
			s.newPhases(PreTxnClosePhase, x.Vars(), 0, 1, hg.Public)
			s.call(PreTxnClose, x.Vars())
			s.newPhases(TxnClosePhase, x.Vars(), 0, 1, hg.Public)
			s.call(TxnClose, x.Vars())
			s.after(g, 0, 1)
			s.listkeys("phases", publishing)
		}},
		{"bookmark-new", func(s *script) {
			s.listkeys("phases", publishing)
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			g := s.group(x, 2, 4)
			key := x.Vars().CompatKey("bk", hg.NullNode, nodeAt(4))
			s.call(PrePushkey, key)
			x.BookmarkMoved = true
			s.call(PreTxnCloseBookmark, x.Vars().Bookmark("bk", hg.NullNode, nodeAt(4)))
			s.newPhases(PreTxnClosePhase, x.Vars(), 2, 4, hg.Public)
			s.call(PreTxnClose, x.Vars())
			s.call(Pushkey, key)
			s.call(TxnCloseBookmark, x.Vars().Bookmark("bk", hg.NullNode, nodeAt(4)))
			s.newPhases(TxnClosePhase, x.Vars(), 2, 4, hg.Public)
			s.call(TxnClose, x.Vars())
			s.after(g, 2, 4)
			s.listkeys("phases", publishing)
		}},
		{"bookmark-delete", func(s *script) {
			s.listkeys("phases", publishing)
			s.listkeys("bookmarks", map[string]string{"bk": nodeAt(0).String()})
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			key := x.Vars().CompatKey("bk", nodeAt(0), hg.NullNode)
			s.call(PrePushkey, key)
			x.BookmarkMoved = true
			s.call(PreTxnCloseBookmark, x.Vars().Bookmark("bk", nodeAt(0), hg.NullNode))
			s.call(PreTxnClose, x.Vars())
			s.call(Pushkey, key)
			s.call(TxnCloseBookmark, x.Vars().Bookmark("bk", nodeAt(0), hg.NullNode))
			s.call(TxnClose, x.Vars())
			s.listkeys("phases", publishing)
		}},
		{"phase-and-draft", func(s *script) {
			s.listkeys("phases", map[string]string{nodeAt(2).String(): "1"})
			s.listkeys("bookmarks", none)
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			g := s.group(x, 3, 3)
			x.PhasesMoved = true
			phases := func(p Point) {
				s.call(p, x.Vars().Phase(nodeAt(2), hg.Draft, hg.Public))
				s.call(p, x.Vars().NewPhase(nodeAt(3), hg.Draft))
			}
			phases(PreTxnClosePhase)
			s.call(PreTxnClose, x.Vars())
			phases(TxnClosePhase)
			s.call(TxnClose, x.Vars())
			s.after(g, 3, 3)
			s.listkeys("phases", map[string]string{nodeAt(3).String(): "1"})
		}},
		{"obsmarkers-only", func(s *script) {
			s.listkeys("phases", map[string]string{nodeAt(0).String(): "1"})
			s.listkeys("namespaces", map[string]string{"bookmarks": "", "namespaces": "", "obsolete": "", "phases": ""})
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			x.NewObsmarkers = 1
			s.call(PreTxnClose, x.Vars())
			s.call(TxnClose, x.Vars())
			s.listkeys("phases", map[string]string{nodeAt(0).String(): "1"})
		}},
		{"pushvars", func(s *script) {
			s.listkeys("phases", publishing)
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			x.SetUserVar("one", "1")
			x.SetUserVar("Two", "a b")
			g := s.group(x, 0, 0)
			s.newPhases(PreTxnClosePhase, x.Vars(), 0, 0, hg.Public)
			s.call(PreTxnClose, x.Vars())
			s.newPhases(TxnClosePhase, x.Vars(), 0, 0, hg.Public)
			s.call(TxnClose, x.Vars())
			s.after(g, 0, 0)
			s.listkeys("phases", publishing)
		}},
		{"pushkey", func(s *script) {
			key := Vars(nil).Pushkey("bookmarks", "raw", "", nodeAt(0).String())
			s.call(PrePushkey, key)
			x := &Txn{ID: "TXN:ID", Name: TxnPushkeyBookmark}
			s.call(PreTxnOpen, x.OpenVars())
			x.BookmarkMoved = true
			s.call(PreTxnCloseBookmark, x.Vars().Bookmark("raw", hg.NullNode, nodeAt(0)))
			s.call(PreTxnClose, x.Vars())
			s.call(TxnCloseBookmark, x.Vars().Bookmark("raw", hg.NullNode, nodeAt(0)))
			s.call(TxnClose, x.Vars())
			s.call(Pushkey, key.Ret(true))
		}},
		{"phase-raw", func(s *script) {
			key := Vars(nil).Pushkey("phases", nodeAt(4).String(), "1", "0")
			s.call(PrePushkey, key)
			x := &Txn{ID: "TXN:ID", Name: TxnPushkeyPhase}
			s.call(PreTxnOpen, x.OpenVars())
			x.PhasesMoved = true
			s.call(PreTxnClosePhase, x.Vars().Phase(nodeAt(4), hg.Draft, hg.Public))
			s.call(PreTxnClose, x.Vars())
			s.call(TxnClosePhase, x.Vars().Phase(nodeAt(4), hg.Draft, hg.Public))
			s.call(TxnClose, x.Vars())
			s.call(Pushkey, key.Ret(true))
		}},
		{"pull", func(s *script) {
			s.call(PreOutgoing, Outgo())
			s.listkeys("bookmarks", none)
			s.call(Outgoing, OutgoFrom(nodeAt(0)))
		}},
		{"veto-pretxnchangegroup", func(s *script) {
			s.listkeys("phases", publishing)
			s.listkeys("bookmarks", none)
			x := bundle2()
			s.call(PreTxnOpen, x.OpenVars())
			s.group(x, 0, 0)
			s.call(TxnAbort, x.Vars())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.scene, func(t *testing.T) {
			want := recorded(t, tt.scene)
			s := &script{}
			tt.run(s)
			for i := range max(len(want), len(s.calls)) {
				if i >= len(want) || i >= len(s.calls) {
					t.Fatalf("%d hooks, want %d", len(s.calls), len(want))
				}
				w := want[i]
				_, w.vars = pending(w)
				if got := s.calls[i]; !reflect.DeepEqual(got, w) {
					t.Errorf("hook %d: %v %v\nwant %v %v", i, got.point, got.vars, w.point, w.vars)
				}
			}
		})
	}
}

// pending tells whether a hook was told of a pending view, and its other
// variables.
func pending(r ran) (string, Vars) { return r.vars["PENDING"], r.vars.without("PENDING") }

// Stock tells of pending changes at no other points than ours.
func TestPendingPointsAreThoseOfStock(t *testing.T) {
	names, err := filepath.Glob("testdata/stock/*.txt")
	if err != nil || len(names) < 40 {
		t.Fatalf("%d recordings, %v", len(names), err)
	}
	for _, name := range names {
		scene := strings.TrimSuffix(filepath.Base(name), ".txt")
		for _, r := range recorded(t, scene) {
			if p, _ := pending(r); p != "" && !r.point.SeesPending() {
				t.Errorf("%s: %s sees what is pending", scene, r.point)
			}
			if !known(r.point) {
				t.Errorf("%s: unknown point %s", scene, r.point)
			}
		}
	}
}

// The sentences that clients read are those of stock.
func TestSentencesAreThoseOfStock(t *testing.T) {
	const fails = "echo said by the hook; exit 3"
	tests := []struct {
		scene string
		point Point
		text  string
	}{
		{"veto-prechangegroup", PreChangegroup, fails},
		{"veto-pretxnchangegroup", PreTxnChangegroup, fails},
		{"veto-pretxnopen", PreTxnOpen, fails},
		{"veto-pretxnclose", PreTxnClose, fails},
		{"veto-pretxnclose-bookmark", PreTxnCloseBookmark, fails},
		{"veto-pretxnclose-phase", PreTxnClosePhase, fails},
		{"veto-prepushkey", PrePushkey, fails},
		{"veto-changegroup", Changegroup, fails},
		{"veto-txnclose", TxnClose, fails},
		{"veto-prelistkeys", PreListkeys, fails},
		{"veto-preoutgoing", PreOutgoing, fails},
		{"veto-pushkey-raw", PrePushkey, fails},
		{"veto-signal", PreTxnOpen, "kill -9 $$"},
	}
	for _, tt := range tests {
		r := New(config.New(config.Item{Section: "hooks", Key: string(tt.point) + ".no", Value: tt.text}), t.TempDir(), Options{})
		var out strings.Builder
		err := r.Run(context.Background(), Call{Point: tt.point}, &out)
		said := strings.TrimSpace(strings.TrimPrefix(out.String(), "said by the hook\n"))
		if tt.point.Vetoes() {
			if err == nil || said != "" {
				t.Errorf("%s: no veto, but %q", tt.scene, said)
				continue
			}
			said = err.Error()
		} else if err != nil {
			t.Errorf("%s: %v", tt.scene, err)
		}
		if text := recording(t, tt.scene); !strings.Contains(text, said+"\n") {
			t.Errorf("%s: %q is not what stock says:\n%s", tt.scene, said, text)
		}
	}
}
