package hgtest

import (
	"strings"
	"testing"
)

func TestHistoryIsReproducible(t *testing.T) {
	var said [2]string
	for i := range said {
		h := New(t)
		History{Seed: 7, Steps: 60, Evolution: true}.Make(t, h)
		h.Verify()
		said[i] = h.Describe()
	}
	if said[0] != said[1] {
		t.Errorf("same seed, different histories:\n%s\n%s", said[0], said[1])
	}
	if n := strings.Count(said[0], "\n"); n < 20 {
		t.Errorf("only %d lines from 60 steps:\n%s", n, said[0])
	}
}
