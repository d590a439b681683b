package revlog

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"vcsd/hg"
)

// FuzzRead opens and reads arbitrary files: no panic, errors of the known
// kinds, and a text that is returned is the one that its node promises.
func FuzzRead(f *testing.F) {
	for _, shape := range shapes {
		b := newBuilder(shape.inline, shape.generalDelta).history(rand.New(rand.NewPCG(1, 2)), 8)
		f.Add(b.index, b.data, shape.mapped)
		f.Add(b.index[:len(b.index)-1], b.data, shape.mapped)
		f.Add(b.index[:70], b.data, shape.mapped)
	}
	f.Add([]byte{0, 1, 0}, []byte{}, true)
	f.Fuzz(func(t *testing.T, index, data []byte, mapped bool) {
		s, err := openFake(t, map[string][]byte{"log.i": index, "log.d": data}, Options{Mapped: mapped, MaxTextBytes: 1 << 20})
		if err != nil {
			checkKind(t, err)
			return
		}
		if s.Size().IndexBytes > int64(len(index)) {
			t.Fatalf("size %+v of %d bytes", s.Size(), len(index))
		}
		r := s.Reader(100)
		for rev := range hg.Rev(s.Len()) {
			readAll(t, s, r, rev)
		}
	})
}

func readAll(t *testing.T, s *Snapshot, r *Reader, rev hg.Rev) {
	p1, p2 := s.Parents(rev)
	if p1 >= rev || p2 >= rev || p1 < hg.NullRev || p2 < hg.NullRev {
		t.Fatalf("parents of %d: %d, %d", rev, p1, p2)
	}
	// A node may occur twice in a damaged log; one of them must be found.
	if got, ok := s.Rev(s.Node(rev)); !ok || s.Node(got) != s.Node(rev) {
		t.Fatalf("Rev(node %d) = %d, %v", rev, got, ok)
	}
	text, err := s.Text(rev)
	checkKind(t, err)
	again, err2 := r.Text(rev)
	checkKind(t, err2)
	if err == nil && err2 == nil && string(text) != string(again) {
		t.Fatalf("texts of %d differ", rev)
	}
	if err == nil && s.Flags(rev)&(hg.FlagCensored|hg.FlagExtStored) == 0 &&
		hg.HashText(s.Node(p1), s.Node(p2), text) != s.Node(rev) {
		t.Fatalf("text of %d is not that of its node", rev)
	}
	_, err = s.Delta(rev)
	checkKind(t, err)
	_, err = s.ChainLen(rev)
	checkKind(t, err)
}

func checkKind(t *testing.T, err error) {
	t.Helper()
	var corrupt *CorruptError
	var unsupported *UnsupportedError
	if err != nil && !errors.As(err, &corrupt) && !errors.As(err, &unsupported) &&
		!errors.Is(err, hg.ErrTooLarge) && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error of an unknown kind: %v", err)
	}
}
