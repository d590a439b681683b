package revlog

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// logFiles are the files of a log of 20 revisions, to be damaged.
type logFiles struct {
	index, data []byte
	pos         []int // of the entries in index
}

func (f *logFiles) put32(rev, off int, v int32) {
	binary.BigEndian.PutUint32(f.index[f.pos[rev]+off:], uint32(v))
}

func (f *logFiles) put16(rev, off int, v uint16) {
	binary.BigEndian.PutUint16(f.index[f.pos[rev]+off:], v)
}

// corruptions are damages of a log, by name.
var corruptions = []struct {
	name   string
	shapes string // "inline", "split" or empty for both; "gd" or "prev" too
	damage func(*logFiles)

	openErr string // what Open says; empty if it succeeds
	wantLen int    // revisions that are left; 0 means all 20
	badRev  hg.Rev // rev that can't be read; the ones before it can
	textErr string // what Text says of badRev
}{
	{name: "version 0", damage: func(f *logFiles) { f.put32(0, 0, 0) }, openErr: "unsupported version 0"},
	{name: "version 2", damage: func(f *logFiles) { f.put32(0, 0, 2) }, openErr: "unsupported version 2"},
	{name: "version dead", damage: func(f *logFiles) { f.put32(0, 0, 0xdead) }, openErr: "unsupported version 57005"},
	{name: "unknown header flag", damage: func(f *logFiles) { f.index[1] |= 4 }, openErr: "unsupported header flags 0x0004"},
	{name: "ellipsis", damage: func(f *logFiles) { f.put16(7, offFlags, uint16(hg.FlagEllipsis)) }, openErr: "rev 7: unsupported revision flag ellipsis"},
	{name: "unknown revision flag", damage: func(f *logFiles) { f.put16(7, offFlags, 3) }, openErr: "rev 7: unsupported revision flags 0x0003"},
	{name: "parent is itself", damage: func(f *logFiles) { f.put32(7, offP1, 7) }, openErr: "rev 7: parent out of range"},
	{name: "parent ahead", damage: func(f *logFiles) { f.put32(7, offP2, 19) }, openErr: "rev 7: parent out of range"},
	{name: "parent below null", damage: func(f *logFiles) { f.put32(7, offP1, -2) }, openErr: "rev 7: parent out of range"},
	{name: "null node", damage: func(f *logFiles) { clear(f.index[f.pos[7]+offNode:][:20]) }, openErr: "rev 7: node is null"},
	{name: "zeros at the end", shapes: "split", damage: func(f *logFiles) { f.index = append(f.index, make([]byte, 64)...) }, openErr: "rev 20: node is null"},

	{name: "torn entry", damage: func(f *logFiles) { f.index = f.index[:f.pos[12]+63] }, wantLen: 12},
	{name: "torn chunk", shapes: "inline", damage: func(f *logFiles) { f.index = f.index[:f.pos[12]-1] }, wantLen: 11},
	{name: "negative length inline", shapes: "inline", damage: func(f *logFiles) { f.put32(7, offChunkLen, -5) }, openErr: "rev 7: chunk length is negative"},
	{name: "negative length", shapes: "split", damage: func(f *logFiles) { f.put32(7, offChunkLen, -5) }, badRev: 7, textErr: "chunk length is negative"},
	{name: "offset moved", shapes: "inline", damage: func(f *logFiles) { f.put32(7, 2, 5<<16) }, badRev: 7, textErr: "offset differs"},

	{name: "base ahead", damage: func(f *logFiles) { f.put32(7, offBase, 8) }, badRev: 7, textErr: "delta base out of range: 8"},
	{name: "base below null", damage: func(f *logFiles) { f.put32(7, offBase, -2) }, badRev: 7, textErr: "delta base out of range: -2"},
	{name: "cycle", damage: func(f *logFiles) { f.put32(7, offBase, 9); f.put32(9, offBase, 7) }, badRev: 7, textErr: "delta base out of range: 9"},
	{name: "no full text", shapes: "prev", damage: func(f *logFiles) { f.put32(0, offBase, -1) }, badRev: 0, textErr: "without a full text"},
	{name: "delta against nothing", shapes: "gd", damage: func(f *logFiles) { f.put32(0, offBase, -1) }, badRev: 0, textErr: "delta ends inside"},
	{name: "data ends early", shapes: "split", damage: func(f *logFiles) { f.data = f.data[:len(f.data)-1] }, badRev: 19, textErr: "chunk lies outside the data"},
	{name: "no data", shapes: "split", damage: func(f *logFiles) { f.data = nil }, badRev: 0, textErr: "chunk lies outside the data"},
	{name: "offset far out", shapes: "split", damage: func(f *logFiles) { f.put32(7, 0, -1) }, badRev: 7, textErr: "chunk lies outside the data"},
	{name: "length far out", shapes: "split", damage: func(f *logFiles) { f.put32(7, offChunkLen, maxChunkLen) }, badRev: 7, textErr: "chunk lies outside the data"},
	{name: "text length", damage: func(f *logFiles) { f.put32(7, offTextLen, 99) }, badRev: 7, textErr: "length of the text differs"},
	{name: "text length huge", damage: func(f *logFiles) { f.put32(7, offTextLen, maxChunkLen) }, badRev: 7, textErr: "length of the text differs"},
	{name: "node", damage: func(f *logFiles) { f.index[f.pos[7]+offNode+19] ^= 1 }, badRev: 7, textErr: "does not match its node"},
	{name: "other parent", damage: func(f *logFiles) { f.put32(7, offP1, 2) }, badRev: 7, textErr: "does not match its node"},
	{name: "chunk kind", shapes: "inline", damage: func(f *logFiles) { f.index[f.pos[0]+entrySize] = 'q' }, badRev: 0, textErr: "chunk"},
	{name: "chunk kind", shapes: "split", damage: func(f *logFiles) { f.data[0] = 'q' }, badRev: 0, textErr: "chunk"},
}

func TestCorruptions(t *testing.T) {
	for _, shape := range shapes {
		for _, c := range corruptions {
			if !applies(c.shapes, shape.inline, shape.generalDelta) {
				continue
			}
			t.Run(shape.name+"/"+c.name, func(t *testing.T) {
				b := newBuilder(shape.inline, shape.generalDelta).history(rand.New(rand.NewPCG(11, 11)), 20)
				f := filesOf(b)
				c.damage(f)
				s, err := openFake(t, map[string][]byte{"log.i": f.index, "log.d": f.data}, Options{Mapped: shape.mapped})
				if c.openErr != "" || err != nil {
					checkDamage(t, "Open", err, c.openErr)
					return
				}
				checkDamaged(t, s, b, c.wantLen, c.badRev, c.textErr)
			})
		}
	}
}

func applies(want string, inline, generalDelta bool) bool {
	switch want {
	case "inline":
		return inline
	case "split":
		return !inline
	case "gd":
		return generalDelta
	case "prev":
		return !generalDelta
	}
	return true
}

func filesOf(b *builder) *logFiles {
	f := &logFiles{index: b.index, data: b.data}
	for rev, size := range b.sizes[:len(b.sizes)-1] {
		pos := int(size.IndexBytes)
		if size.Revs != rev {
			panic("sizes are not by revision")
		}
		f.pos = append(f.pos, pos)
	}
	return f
}

// checkDamaged checks that what is not damaged can be read, and how the rest is
// refused.
func checkDamaged(t *testing.T, s *Snapshot, b *builder, wantLen int, badRev hg.Rev, textErr string) {
	t.Helper()
	if wantLen == 0 {
		wantLen = len(b.texts)
	}
	if s.Len() != wantLen {
		t.Fatalf("Len() = %d, want %d", s.Len(), wantLen)
	}
	bad := badRev
	if textErr == "" {
		bad = hg.Rev(wantLen)
	}
	for rev := range bad {
		if text, err := s.Text(rev); err != nil || string(text) != string(b.texts[rev]) {
			t.Errorf("Text(%d): %v", rev, err)
		}
	}
	if textErr != "" {
		_, err := s.Text(bad)
		checkDamage(t, "Text", err, textErr)
	}
	// Nothing may panic, whatever is asked.
	r := s.Reader(0)
	for rev := range hg.Rev(s.Len()) {
		_, _ = r.Text(rev)
		_, _ = s.Delta(rev)
		_, _ = s.ChainLen(rev)
		_, _ = s.ChainBytes(rev)
		s.ChunkLen(rev)
	}
}

func checkDamage(t *testing.T, op string, err error, want string) {
	t.Helper()
	var corrupt *CorruptError
	var unsupported *UnsupportedError
	switch {
	case err == nil || want == "" || !strings.Contains(err.Error(), want):
		t.Errorf("%s: %v, want %q", op, err, want)
	case errors.Is(err, hg.ErrMalformed):
		t.Errorf("%s: %v counts as a client's fault", op, err)
	case !errors.As(err, &corrupt) && !errors.As(err, &unsupported):
		t.Errorf("%s: %v is a %T, want *CorruptError or *UnsupportedError", op, err, err)
	}
}

// When somebody cuts the mapped index, calls fail and the process lives.
func TestFaultIsAnError(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log.i")
	if err := os.WriteFile(name, syntheticIndex(1000), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "log.d"), make([]byte, 100), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := Open(vfs.NewOS(dir), "log", Options{Mapped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := l.Snapshot()
	defer s.Close()
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	var fault *vfs.FaultError
	if _, err := s.Text(999); !errors.As(err, &fault) {
		t.Errorf("Text: %v, want a *vfs.FaultError", err)
	}
	if err := l.Extend(Size{Revs: 2000, IndexBytes: 128000}); !errors.As(err, &fault) {
		t.Errorf("Extend: %v, want a *vfs.FaultError", err)
	}
}
