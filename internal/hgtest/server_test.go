package hgtest

import (
	"bytes"
	"context"
	"testing"

	"vcsd/hg"
)

// The wire client and the runner are proved on the server whose answers are
// the reference.
func TestClientAgainstStock(t *testing.T) {
	h := New(t)
	h.Run("init", "r")
	h.Run("init", "clone")
	c := h.In("clone")
	first := c.Commit("first", map[string]string{"a": "one\n"})
	s := Serve(t, ServerOptions{Root: h.Dir, Stock: true})
	w := s.Client("r")
	if got := w.Heads(); len(got) != 1 || !got[0].IsNull() {
		t.Errorf("heads of an empty repository = %v", got)
	}

	push(t, w, Reply{Return: 1}, nil, c.Changegroup("0"))
	if got := w.Known(first, hg.WorkingNode); !got[0] || got[1] {
		t.Errorf("known = %v, want [true false]", got)
	}
	second := c.Commit("second", map[string]string{"a": "two\n"})
	push(t, w, Reply{Error: "pushraced", Reason: "remote repository changed while pushing - please try again"},
		[]hg.Node{second}, c.Changegroup("1", "0"))

	stream := w.GetBundle([]hg.Node{first}, nil, nil)
	if !bytes.HasPrefix(stream, []byte{0, 0}) {
		t.Errorf("getbundle without bundlecaps starts with %q, want a bare changegroup", stream[:min(8, len(stream))])
	}
	w.Proto = ProtoV2
	parts, err := ParseBundle2(w.GetBundle([]hg.Node{first}, nil, Args{"bundlecaps": "HG20,bundle2=HG20%0Achangegroup%3D02", "cg": "1"}))
	if err != nil || len(parts) == 0 {
		t.Errorf("getbundle with bundle2: %v, %v", parts, err)
	}

	s.Stop()
	s.Start()
	h.Run("clone", "-q", s.URL+"/r", "again")
	if got := h.In("again").Node("tip"); got != first {
		t.Errorf("tip of a clone after a restart = %v, want %v", got, first)
	}
}

func push(t *testing.T, w *Client, want Reply, updates []hg.Node, changegroup []byte) {
	t.Helper()
	a, err := w.Unbundle(context.Background(), Force, Bundle2(PushParts(updates, changegroup)...))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseReply(a)
	got.Output = ""
	if err != nil || got != want {
		t.Errorf("reply = %+v, %v, want %+v", got, err, want)
	}
}
