package hgtest

import "testing"

// What is made without hg is what hg takes and verifies.
func TestChangesetsAreAccepted(t *testing.T) {
	h := New(t)
	h.Run("init", "r")
	first := NewChangeset(nil, "", "first", map[string]string{"a": "1\n", "d/b": "2\n"})
	second := NewChangeset(first, "other", "second", map[string]string{"a": "3\n"})
	s := Serve(t, ServerOptions{Root: h.Dir, Stock: true})
	push(t, s.Client("r"), Reply{Return: 1}, nil, ChangegroupOf(first, second))
	r := h.In("r")
	r.Verify()
	if got := r.Run("log", "-T", "{node} {branch} {desc} {files}\n"); got != second.Node().String()+" other second a\n"+first.Node().String()+" default first a d/b\n" {
		t.Errorf("log = %s", got)
	}
}
