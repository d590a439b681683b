package bundle2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/compression"
	"vcsd/wire/obsmarker"
)

const testdata = "../testdata"

// streams returns the bundle2 streams that hg made, by file name.
func streams(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(testdata + "/*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(b, []byte("HG20")) {
			all[filepath.Base(name)] = b
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d streams in %s", len(all), testdata)
	}
	return all
}

// transcode reads a stream and writes it again, each payload through its own
// codec.
func transcode(in io.Reader, o bundle2.WriterOptions, recode func(*bundle2.Part, io.Writer) error) ([]byte, error) {
	r, err := bundle2.NewReader(in, bundle2.Limits{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out bytes.Buffer
	w, err := bundle2.NewWriter(&out, o)
	if err != nil {
		return nil, err
	}
	for {
		p, err := r.NextPart()
		if err == io.EOF {
			err = w.Close()
			return out.Bytes(), err
		}
		if err != nil {
			return nil, err
		}
		if err := copyPart(w, p, recode); err != nil {
			return nil, err
		}
	}
}

func copyPart(w *bundle2.Writer, p *bundle2.Part, recode func(*bundle2.Part, io.Writer) error) error {
	pw, err := w.Part(p.Type, p.Mandatory, p.Params...)
	if err != nil {
		return err
	}
	if pw.ID() != p.ID {
		return fmt.Errorf("part %d becomes %d", p.ID, pw.ID())
	}
	if err := recode(p, pw); err != nil {
		return fmt.Errorf("part %s: %w", p.Type, err)
	}
	return pw.Close()
}

// plain copies the payload.
func plain(p *bundle2.Part, w io.Writer) error {
	_, err := io.Copy(w, p)
	return err
}

// coded decodes the payload and encodes it again.
func coded(p *bundle2.Part, w io.Writer) error {
	if p.Type == "changegroup" {
		return recodeChangegroup(p, w)
	}
	in, err := p.ReadAll(1 << 20)
	if err != nil {
		return err
	}
	out, err := recodePayload(p.Type, in)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// both brings a decoder and an encoder together.
func both[T any](in []byte, decode func([]byte) (T, error), encode func([]byte, T) ([]byte, error)) ([]byte, error) {
	v, err := decode(in)
	if err != nil {
		return nil, err
	}
	return encode(nil, v)
}

// sure makes an encoder one that could fail.
func sure[T any](encode func([]byte, T) []byte) func([]byte, T) ([]byte, error) {
	return func(b []byte, v T) ([]byte, error) { return encode(b, v), nil }
}

func recodePayload(typ string, in []byte) ([]byte, error) {
	switch typ {
	case "replycaps":
		return []byte(bundle2.EncodeCaps(bundle2.DecodeCaps(string(in)))), nil
	case "phase-heads", "check:phases":
		return both(in, bundle2.DecodePhaseHeads, sure(bundle2.AppendPhaseHeads))
	case "bookmarks", "check:bookmarks":
		return both(in, bundle2.DecodeBookmarks, bundle2.AppendBookmarks)
	case "check:heads", "check:updated-heads":
		return both(in, bundle2.DecodeHeads, sure(bundle2.AppendHeads))
	case "hgtagsfnodes":
		return both(in, bundle2.DecodeTagsFnodes, sure(bundle2.AppendTagsFnodes))
	case "listkeys":
		return both(in, bundle2.DecodeKeys, bundle2.AppendKeys)
	case "cache:rev-branch-cache":
		return both(in, bundle2.DecodeBranchCache, sure(bundle2.AppendBranchCache))
	case "obsmarkers":
		_, markers, err := obsmarker.Decode(in)
		if err != nil {
			return nil, err
		}
		return obsmarker.Encode(markers)
	case "output", "reply:changegroup", "reply:obsmarkers":
		return in, nil
	}
	return nil, fmt.Errorf("no codec for %q", typ)
}

func recodeChangegroup(p *bundle2.Part, out io.Writer) error {
	version, _ := p.Param("version")
	v, ok := changegroup.ParseVersion(version)
	if !ok {
		return fmt.Errorf("changegroup version %q", version)
	}
	r := changegroup.NewReader(p, v, changegroup.Limits{})
	w := changegroup.NewWriter(out, v)
	for {
		g, err := r.NextGroup()
		if err == io.EOF {
			return w.Close()
		}
		if err != nil {
			return err
		}
		if err := recodeGroup(r, w, g); err != nil {
			return fmt.Errorf("%s: %w", g, err)
		}
	}
}

func recodeGroup(r *changegroup.Reader, w *changegroup.Writer, g changegroup.Group) error {
	var err error
	switch g.Kind {
	case changegroup.Changelog:
		err = w.StartChangelog()
	case changegroup.Manifest:
		err = w.StartManifest()
	default:
		err = w.StartFile(g.Path)
	}
	for err == nil {
		var h changegroup.Header
		var delta []byte
		if h, delta, err = r.NextDelta(); err == nil {
			err = w.WriteDelta(h, delta)
		}
	}
	if err != io.EOF {
		return err
	}
	return w.EndGroup()
}

// TestRoundTrip reads what hg wrote and wants to write the same bytes.
func TestRoundTrip(t *testing.T) {
	for name, in := range streams(t) {
		if bytes.Contains(in[:64], []byte("Compression")) {
			continue // TestCompressed
		}
		for what, recode := range map[string]func(*bundle2.Part, io.Writer) error{"plain": plain, "coded": coded} {
			out, err := transcode(iotest.HalfReader(bytes.NewReader(in)), bundle2.WriterOptions{}, recode)
			if err != nil || !bytes.Equal(out, in) {
				t.Errorf("%s, %s: %d bytes come back as %d, or others: %v", name, what, len(in), len(out), err)
			}
		}
	}
}

var compressed = map[compression.Engine]string{
	compression.Zlib: "gzip-v2.hg", compression.Bzip2: "bzip2-v2.hg", compression.Zstd: "zstd-v2.hg",
}

// TestCompressed wants the same parts in each compression, from hg and back
// from us.
func TestCompressed(t *testing.T) {
	all := streams(t)
	want := all["none-v2.hg"]
	for e, name := range compressed {
		in := all[name]
		for range 2 {
			got, err := transcode(bytes.NewReader(in), bundle2.WriterOptions{}, plain)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: parts of %d bytes, %v, want those of none-v2.hg, %d bytes", name, len(got), err, len(want))
			}
			in, err = transcode(bytes.NewReader(want), bundle2.WriterOptions{Compression: e}, plain)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBundle1 wants the changegroup of none-v1.hg in each compression.
func TestBundle1(t *testing.T) {
	var want []byte
	for _, c := range []string{"none", "gzip", "bzip2"} {
		f, err := os.Open(testdata + "/" + c + "-v1.hg")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		format, r, err := compression.OpenBundle(f, 0)
		if err != nil || format != compression.Bundle1 {
			t.Fatalf("%s: format %d, %v", c, format, err)
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if want == nil {
			want = got
		}
		if err != nil || len(got) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", c, len(got), err, len(want))
		}
	}
}

// runHg runs the real hg and returns what it prints.
func runHg(t *testing.T, args ...string) (string, error) {
	t.Helper()
	exe, err := exec.LookPath("hg")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "HGRCPATH=", "HGPLAIN=1", "HGENCODING=utf-8")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, b []byte) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "bundle.hg")
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHgReads has hg list and apply the bundles that we compress.
func TestHgReads(t *testing.T) {
	in := streams(t)["none-v2.hg"]
	want, err := runHg(t, "debugbundle", testdata+"/none-v2.hg")
	if err != nil {
		t.Fatal(want)
	}
	for _, e := range []compression.Engine{compression.None, compression.Zlib, compression.Bzip2, compression.Zstd} {
		b, err := transcode(bytes.NewReader(in), bundle2.WriterOptions{Compression: e}, coded)
		if err != nil {
			t.Fatal(err)
		}
		file := write(t, b)
		got, err := runHg(t, "debugbundle", file)
		_, gotParts, _ := strings.Cut(got, "\n")
		_, wantParts, _ := strings.Cut(want, "\n")
		if err != nil || gotParts != wantParts {
			t.Errorf("%v: hg debugbundle: %v\n%s\nwant\n%s", e, err, got, want)
		}
		repo := t.TempDir()
		if out, err := runHg(t, "clone", "-qU", file, repo); err != nil {
			t.Errorf("%v: hg clone: %v\n%s", e, err, out)
		}
		if out, err := runHg(t, "-R", repo, "verify", "-q"); err != nil {
			t.Errorf("%v: hg verify: %v\n%s", e, err, out)
		}
	}
}

// TestHgShowsAbort breaks off in the middle of a changegroup.
func TestHgShowsAbort(t *testing.T) {
	for _, e := range []compression.Engine{compression.None, compression.Zlib, compression.Zstd} {
		var b bytes.Buffer
		w, err := bundle2.NewWriter(&b, bundle2.WriterOptions{Compression: e})
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.Part("changegroup", true, bundle2.Mandatory("version", "02")...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(p, "\x00\x00\x01\x00half a chunk"); err != nil {
			t.Fatal(err)
		}
		if err := p.Interrupt("output", false, []byte("patience\n")); err != nil {
			t.Fatal(err)
		}
		if err := p.Abort(&hg.Abort{Message: "disk is gone: " + strings.Repeat("é", 200), Hint: "buy one"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err == nil {
			t.Error("Close succeeds after Abort")
		}
		repo := t.TempDir()
		if out, err := runHg(t, "init", repo); err != nil {
			t.Fatal(out)
		}
		out, err := runHg(t, "-R", repo, "unbundle", write(t, b.Bytes()))
		want := []string{"remote: patience", "abort: disk is gone: éé", "é...", "(buy one)"}
		if err == nil || slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(out, s) }) {
			t.Errorf("%v: hg unbundle: %v, prints\n%s\nwant %q", e, err, out, want)
		}
		abort := (*hg.Abort)(nil)
		if _, err := transcode(&b, bundle2.WriterOptions{}, coded); !errors.As(err, &abort) || abort.Hint != "buy one" {
			t.Errorf("%v: our reader: %v, want the abort", e, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	many := make([]bundle2.Param, 256)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	for _, tt := range []struct {
		name string
		do   func(w *bundle2.Writer) error
		want string
	}{
		{"no type", func(w *bundle2.Writer) error { _, err := w.Part("", false); return err }, `part type ""`},
		{"blank in type", func(w *bundle2.Writer) error { _, err := w.Part("a b", false); return err }, `part type "a b"`},
		{"long type", func(w *bundle2.Writer) error { _, err := w.Part(long, false); return err }, "part type"},
		{"no key", func(w *bundle2.Writer) error { _, err := w.Part("x", false, bundle2.Mandatory("", "")...); return err }, `parameter ""`},
		{"long value", func(w *bundle2.Writer) error {
			_, err := w.Part("x", false, bundle2.Advisory("k", long)...)
			return err
		}, "256 bytes"},
		{"many parameters", func(w *bundle2.Writer) error { _, err := w.Part("x", false, many...); return err }, "more than 255"},
		{"part inside a part", func(w *bundle2.Writer) error {
			_, err := w.Part("x", false)
			_, err2 := w.Part("y", false)
			return errors.Join(err, err2)
		}, "a part is open"},
		{"end inside a part", func(w *bundle2.Writer) error { _, err := w.Part("x", false); return errors.Join(err, w.Close()) }, "a part is open"},
		{"write after end", func(w *bundle2.Writer) error { w.Close(); _, err := w.WritePart("x", false, nil); return err }, "closed"},
	} {
		w, err := bundle2.NewWriter(io.Discard, bundle2.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.do(w); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: err = %v, want %q", tt.name, err, tt.want)
		}
	}
	for _, o := range []bundle2.WriterOptions{
		{Params: []bundle2.StreamParam{{Name: "1"}}}, {Params: []bundle2.StreamParam{{}}}, {Compression: compression.Zlib, Level: 99},
	} {
		if _, err := bundle2.NewWriter(io.Discard, o); err == nil {
			t.Errorf("NewWriter takes %+v", o)
		}
	}
}

func TestPartAfterClose(t *testing.T) {
	w, err := bundle2.NewWriter(io.Discard, bundle2.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Part("x", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close(), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("x")); err == nil {
		t.Error("Write succeeds after Close")
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestStreaming wants what was flushed to be readable at once.
func TestStreaming(t *testing.T) {
	for _, e := range []compression.Engine{compression.None, compression.Zlib, compression.Zstd} {
		var b bytes.Buffer
		w, err := bundle2.NewWriter(&b, bundle2.WriterOptions{Compression: e})
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.Part("output", false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(p, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		r, err := bundle2.NewReader(&b, bundle2.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		part, err := r.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(part, got); err != nil || string(got) != "hello" {
			t.Errorf("%v: %q, %v, want hello", e, got, err)
		}
	}
}

// failAfter fails the n-th Write.
type failAfter struct{ n int }

var errFull = errors.New("no space")

func (f *failAfter) Write(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriterReportsErrors(t *testing.T) {
	for n := 0; ; n++ {
		err := writeSample(&failAfter{n})
		if err == nil {
			if n < 8 {
				t.Errorf("no error after %d writes", n)
			}
			return
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("write %d failed: err = %v, want %v", n, err, errFull)
		}
	}
}

// writeSample uses every way to write.
func writeSample(out io.Writer) error {
	w, err := bundle2.NewWriter(out, bundle2.WriterOptions{})
	if err != nil {
		return err
	}
	if _, err := w.WritePart("replycaps", true, []byte("HG20")); err != nil {
		return err
	}
	p, err := w.Part("changegroup", true)
	if err != nil {
		return err
	}
	if _, err := io.Copy(p, bytes.NewReader(make([]byte, 100_000))); err != nil {
		return err
	}
	if _, err := p.ReadFrom(iotest.OneByteReader(strings.NewReader("some more"))); err != nil {
		return err
	}
	if err := p.Interrupt("output", false, make([]byte, 40_000)); err != nil {
		return err
	}
	if _, err := p.Write(make([]byte, 100_000)); err != nil {
		return err
	}
	if err := p.Close(); err != nil {
		return err
	}
	return w.Close()
}

func FuzzReader(f *testing.F) {
	for _, in := range streams(f) {
		f.Add(in)
	}
	f.Add([]byte("HG20\x00\x00\x00\x00\x00\x00\x00\x08\x01X\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		list := func(in []byte) (parts []string, err error) {
			r, err := bundle2.NewReader(bytes.NewReader(in), bundle2.Limits{MaxBytes: 1 << 20})
			if err != nil {
				return nil, err
			}
			defer r.Close()
			for {
				p, err := r.NextPart()
				if err == io.EOF {
					return parts, nil
				}
				if err != nil {
					return nil, err
				}
				b, err := p.ReadAll(1 << 20)
				if err != nil {
					return nil, err
				}
				parts = append(parts, fmt.Sprintf("%s %v %+v %q", p.Type, p.Mandatory, p.Params, b))
				if p.Type == "changegroup" {
					// It must not panic; what it says doesn't matter here.
					_ = recodeChangegroup(p, io.Discard)
				}
			}
		}
		want, err := list(in)
		if err != nil {
			return
		}
		out, err := transcode(bytes.NewReader(in), bundle2.WriterOptions{}, plain)
		if err != nil {
			return // types and ids that we wouldn't write
		}
		got, err := list(out)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.1000q come back as %.1000q, %v", want, got, err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("payload=%d", size), func(b *testing.B) {
			var buf bytes.Buffer
			w, err := bundle2.NewWriter(&buf, bundle2.WriterOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := w.WritePart("x", false, make([]byte, size)); err != nil {
				b.Fatal(err)
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r, err := bundle2.NewReader(bytes.NewReader(buf.Bytes()), bundle2.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				p, err := r.NextPart()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
