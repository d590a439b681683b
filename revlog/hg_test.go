package revlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// hgRun runs hg in dir with nobody's configuration. Without hg these tests
// fail: they are what proves that we read what hg writes.
func hgRun(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("hg", append([]string{"--config", "ui.username=test"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hg %q: %v: %s", args, err, &stderr)
	}
	return out
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// makeHgRepo makes a repository with small and large files, empty ones, binary
// ones, copies, merges and enough revisions for chains.
func makeHgRepo(t *testing.T, dir string) {
	t.Helper()
	hgRun(t, dir, "init", ".")
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf("line %d %x", i, i*7919))
	}
	for i := range 8 {
		lines[i*97] = fmt.Sprintf("changed in %d", i)
		writeFile(t, dir, "big", strings.Join(lines, "\n")+noise(i, 60_000))
		writeFile(t, dir, "small", fmt.Sprintf("content %d\n", i))
		writeFile(t, dir, fmt.Sprintf("dir/file%d", i), "")
		writeFile(t, dir, "bin", "\x00\x01"+lines[i]+"\xff\x00")
		hgRun(t, dir, "commit", "-Aqm", fmt.Sprintf("change %d", i))
	}
	hgRun(t, dir, "copy", "-q", "small", "copied")
	hgRun(t, dir, "commit", "-qm", "copy")
	hgRun(t, dir, "update", "-q", "4")
	writeFile(t, dir, "other", "on the other branch\n")
	hgRun(t, dir, "commit", "-Aqm", "branch")
	hgRun(t, dir, "merge", "-q", "-t", ":local")
	hgRun(t, dir, "commit", "-qm", "merge")
}

// noise returns n bytes that don't compress well.
func noise(seed, n int) string {
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(' ' + rng.IntN(95))
	}
	return string(b)
}

func TestAgainstHg(t *testing.T) {
	source := t.TempDir()
	makeHgRepo(t, source)
	tests := []struct {
		name         string
		config       []string
		generalDelta bool
	}{
		{"default: zstd, sparse", nil, true},
		{"zlib", []string{"format.revlog-compression=zlib"}, true},
		{"none", []string{"format.revlog-compression=none"}, true},
		{"no generaldelta", []string{"format.sparse-revlog=no", "format.usegeneraldelta=no"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := source
			if tt.config != nil {
				dir = filepath.Join(t.TempDir(), "clone")
				args := []string{"clone", "--pull", "-qU", source, dir}
				for _, c := range tt.config {
					args = append(args, "--config", c)
				}
				hgRun(t, source, args...)
			}
			for _, log := range hgLogs {
				compareLog(t, dir, log.arg, ".hg/store/"+log.radix)
			}
			checkShape(t, dir, tt.generalDelta)
		})
	}
}

// checkShape proves that the test has seen what it was to see.
func checkShape(t *testing.T, dir string, generalDelta bool) {
	t.Helper()
	for radix, inline := range map[string]bool{"data/big": false, "data/small": true} {
		s := openDisk(t, dir, ".hg/store/"+radix)
		if s.Size().Inline != inline || s.GeneralDelta() != generalDelta {
			t.Errorf("%s: inline %v, generaldelta %v, want %v, %v", radix, s.Size().Inline, s.GeneralDelta(), inline, generalDelta)
		}
		longest := 0
		for rev := range hg.Rev(s.Len()) {
			n, err := s.ChainLen(rev)
			longest = max(longest, n)
			if err != nil {
				t.Errorf("%s: ChainLen(%d): %v", radix, rev, err)
			}
		}
		if radix == "data/big" && longest == 0 {
			t.Errorf("%s has no delta", radix)
		}
	}
}

// openDisk opens a log on disk; it is closed with the test.
func openDisk(t *testing.T, dir, radix string) *Snapshot {
	t.Helper()
	l, err := Open(vfs.NewOS(dir), radix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := l.Snapshot()
	t.Cleanup(func() {
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A text that is stored elsewhere is read as the pointer to it.
func TestExtStored(t *testing.T) {
	dir := t.TempDir()
	lfs := []string{"--config", "extensions.lfs=", "--config", "lfs.track=all()", "--config", "lfs.usercache=" + t.TempDir()}
	hgRun(t, dir, append(lfs, "init", ".")...)
	writeFile(t, dir, "file", "large content\n")
	hgRun(t, dir, append(lfs, "commit", "-Aqm", "lfs")...)
	s := openDisk(t, dir, ".hg/store/data/file")
	if s.Flags(0)&hg.FlagExtStored == 0 {
		t.Errorf("Flags(0) = %04x, want extstored", s.Flags(0))
	}
	if text, err := s.Text(0); err != nil || !bytes.Contains(text, []byte("oid sha256:")) {
		t.Errorf("Text(0) = %q, %v, want the pointer", text, err)
	}
}

// hgLogs are logs of makeHgRepo's repository: what hg calls them, and where
// they are in the store.
var hgLogs = []struct{ arg, radix string }{
	{"-c", "00changelog"},
	{"-m", "00manifest"},
	{"big", "data/big"},
	{"small", "data/small"},
	{"bin", "data/bin"},
	{"copied", "data/copied"},
	{"dir/file1", "data/dir/file1"},
}

// indexRow is what hg debugindex tells of a revision; all values are strings.
type indexRow struct {
	Rev     string `json:"rev"`
	Chunk   string `json:"chunk-size"`
	Offset  string `json:"data-offset"`
	Base    string `json:"delta-base"`
	Flags   string `json:"flags"`
	TextLen string `json:"full-size"`
	Link    string `json:"linkrev"`
	Node    string `json:"nodeid"`
	P1      string `json:"p1-rev"`
	P2      string `json:"p2-rev"`
}

func compareLog(t *testing.T, dir, arg, radix string) {
	t.Helper()
	var rows []indexRow
	out := hgRun(t, dir, "debugindex", "--debug", "-T", "json", arg)
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	for _, mapped := range []bool{false, true} {
		l, err := Open(vfs.NewOS(dir), radix, Options{Mapped: mapped})
		if err != nil {
			t.Fatal(err)
		}
		s := l.Snapshot()
		if s.Len() != len(rows) || len(rows) == 0 {
			t.Errorf("%s: Len() = %d, want %d", radix, s.Len(), len(rows))
		}
		for rev, want := range rows {
			if got := rowOf(s, hg.Rev(rev)); got != want {
				t.Errorf("%s, mapped=%v: got  %+v\nwant %+v", radix, mapped, got, want)
			}
		}
		compareTexts(t, s)
		if last := hg.Rev(s.Len() - 1); mapped {
			text, _ := s.Text(last)
			if want := hgRun(t, dir, "debugdata", arg, fmt.Sprint(last)); !bytes.Equal(text, want) {
				t.Errorf("%s: Text(%d) = %.80q, want %.80q", radix, last, text, want)
			}
		}
		checkSizeOnDisk(t, s, filepath.Join(dir, radix))
		s.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func rowOf(s *Snapshot, rev hg.Rev) indexRow {
	p1, p2 := s.Parents(rev)
	return indexRow{
		Rev:     strconv.Itoa(int(rev)),
		Chunk:   fmt.Sprint(s.ChunkLen(rev)),
		Offset:  fmt.Sprint(s.offset(rev)),
		Base:    fmt.Sprint(s.entry(rev).base()),
		Flags:   fmt.Sprint(s.Flags(rev)),
		TextLen: fmt.Sprint(s.TextLen(rev)),
		Link:    fmt.Sprint(s.LinkRev(rev)),
		Node:    s.Node(rev).String(),
		P1:      fmt.Sprint(p1),
		P2:      fmt.Sprint(p2),
	}
}

// compareTexts reads all texts, whose hashes are their proof, in both ways.
func compareTexts(t *testing.T, s *Snapshot) {
	t.Helper()
	r := s.Reader(0)
	for rev := range hg.Rev(s.Len()) {
		text, err := s.Text(rev)
		if err != nil {
			t.Errorf("%s: Text(%d): %v", s.Name(), rev, err)
		}
		if again, err := r.Text(rev); err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s: Reader.Text(%d) is not Snapshot.Text: %v", s.Name(), rev, err)
		}
	}
}

func checkSizeOnDisk(t *testing.T, s *Snapshot, radix string) {
	t.Helper()
	for name, want := range map[string]int64{".i": s.Size().IndexBytes, ".d": s.Size().DataBytes} {
		info, err := os.Stat(radix + name)
		if name == ".d" && s.Size().Inline {
			if err == nil {
				t.Errorf("%s is inline and has a data file", radix)
			}
			continue
		}
		if err != nil || info.Size() != want {
			t.Errorf("%s%s: %v, %v, want %d bytes", radix, name, info, err, want)
		}
	}
}

// A censored revision is read as its tombstone.
func TestCensored(t *testing.T) {
	dir := t.TempDir()
	hgRun(t, dir, "init", ".")
	for _, text := range []string{"secret\n", "harmless\n"} {
		writeFile(t, dir, "file", text)
		hgRun(t, dir, "commit", "-Aqm", text)
	}
	hgRun(t, dir, "--config", "extensions.censor=", "censor", "-r", "0", "-t", "gone", "file")
	s := openDisk(t, dir, ".hg/store/data/file")
	if s.Flags(0)&hg.FlagCensored == 0 {
		t.Errorf("Flags(0) = %04x, want censored", s.Flags(0))
	}
	if text, err := s.Text(0); err != nil || !bytes.Contains(text, []byte("gone")) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("Text(0) = %q, %v, want the tombstone", text, err)
	}
	if text, err := s.Text(1); err != nil || string(text) != "harmless\n" {
		t.Errorf("Text(1) = %q, %v", text, err)
	}
}
