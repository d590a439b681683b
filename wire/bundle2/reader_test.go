package bundle2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"vcsd/hg"
	"vcsd/wire/compression"
)

// be returns big-endian integers of 4 bytes.
func be(ns ...int32) string {
	var b []byte
	for _, n := range ns {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return string(b)
}

// sized returns s after its length.
func sized(s string) string { return be(int32(len(s))) + s }

// head returns a part's header.
func head(t testing.TB, typ string, mandatory bool, ps ...Param) string {
	t.Helper()
	b, err := appendHeader(nil, 7, typ, mandatory, ps)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readAll reads a stream to its end or the first error, and returns what the
// parts say.
func readAll(in io.Reader, lim Limits, interrupt func(*Part) error) (got string, err error) {
	r, err := NewReader(in, lim)
	if err != nil {
		return "", err
	}
	defer r.Close()
	r.Interrupt = interrupt
	for {
		p, err := r.NextPart()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		payload, err := io.ReadAll(p)
		if err != nil {
			return got, err
		}
		got += p.Type + "[" + string(payload) + "]"
	}
}

func TestStreamParams(t *testing.T) {
	for _, tt := range []struct {
		blob string
		want string // of the error; "" if the stream is taken
		part string // the parameter that is refused
	}{
		{"", "", ""},
		{"zzfoo=1", "", ""},
		{"a b=c%20d", "", ""},
		{"a=1 a=2", "", ""},
		{"a=%zz", "", ""},
		{"Compression=UN", "", ""},
		{"=1", "stream parameters: empty parameter name", ""},
		{" ", "stream parameters: empty parameter name", ""},
		{"1a=2", "stream parameters: non letter first character: 1a", ""},
		{"Zz=1", "missing support for Zz", "Zz"},
		{"%5aoo", "missing support for Zoo", "Zoo"},
		{"Compression=XX", "missing support for Compression", "Compression"},
		{"Compression", "missing support for Compression", "Compression"},
		{"Compression=GZ Zz=1", "missing support for Zz", "Zz"},
	} {
		r, err := NewReader(strings.NewReader(magic+sized(tt.blob)+be(0)), Limits{})
		if tt.want == "" {
			if err != nil {
				t.Errorf("%q: %v", tt.blob, err)
				continue
			}
			if _, err := r.NextPart(); err != io.EOF {
				t.Errorf("%q: NextPart: %v, want io.EOF", tt.blob, err)
			}
			continue
		}
		if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%q: err = %v, want %q", tt.blob, err, tt.want)
		}
		u := (*hg.UnsupportedContent)(nil)
		if errors.As(err, &u) != (tt.part != "") || u != nil && (len(u.Params) != 1 || u.Params[0] != tt.part) {
			t.Errorf("%q: %#v, want parameter %q", tt.blob, err, tt.part)
		}
	}
}

func TestStreamParamValues(t *testing.T) {
	r, err := NewReader(strings.NewReader(magic+sized("a b=c%20d%3D")+be(0)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (StreamParam{"b", "c d="}); len(r.Params) != 2 || r.Params[1] != want {
		t.Errorf("Params = %v, want the second to be %v", r.Params, want)
	}
}

func TestPartHeader(t *testing.T) {
	ps := append(Mandatory("version", "02", "empty", ""), Advisory("hint", "x\x00y")...)
	in := magic + be(0) + head(t, "changegroup", true, ps...) + be(0, 0)
	r, err := NewReader(iotest.OneByteReader(strings.NewReader(in)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.NextPart()
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != 7 || p.Type != "changegroup" || !p.Mandatory || len(p.Params) != 3 {
		t.Errorf("part %+v, want 7, changegroup, mandatory, 3 parameters", p)
	}
	for _, want := range ps {
		if got, ok := p.Param(want.Key); got != want.Value || !ok {
			t.Errorf("Param(%q) = %q, %v, want %q", want.Key, got, ok, want.Value)
		}
	}
	if v, ok := p.Param("zz"); ok {
		t.Errorf("Param(zz) = %q, want none", v)
	}
	if err := p.CheckParams("version", "empty"); err != nil {
		t.Errorf("CheckParams: %v", err)
	}
	u := (*hg.UnsupportedContent)(nil)
	if err := p.CheckParams("version"); !errors.As(err, &u) || u.PartType != "changegroup" || u.Params[0] != "empty" {
		t.Errorf("CheckParams(version) = %#v, want changegroup, empty", err)
	}
	if got := p.Unsupported().Error(); got != "missing support for changegroup" {
		t.Errorf("Unsupported = %q", got)
	}
}

func TestMalformed(t *testing.T) {
	const most = math.MaxInt32
	cg := head(t, "changegroup", true)
	for _, tt := range []struct {
		name string
		in   string // after magic and stream parameters, unless it has them
		want string // of the Abort; the texts are hg's where it has one
		is   error
	}{
		{"no magic", "magic:", "stream ended unexpectedly (got 0 bytes, expected 4)", io.ErrUnexpectedEOF},
		{"other magic", "magic:XX20", "not a Mercurial bundle", hg.ErrMalformed},
		{"other version", "magic:HG21", "unknown bundle version 21", hg.ErrMalformed},
		{"huge stream parameters", "magic:HG20" + be(most) + "x", "size of stream parameters 2147483647 exceeds the server's limit of 65536", hg.ErrTooLarge},
		{"cut stream parameters", "magic:HG20" + be(10) + "x", "stream ended unexpectedly (got 1 bytes, expected 10)", io.ErrUnexpectedEOF},
		{"negative stream parameters", "magic:HG20" + be(-3), "negative bundle param size: -3", hg.ErrMalformed},
		{"no end", "", "stream ended unexpectedly (got 0 bytes, expected 4)", io.ErrUnexpectedEOF},
		{"huge header", be(most) + "xx", "part header size 2147483647 exceeds the server's limit of 261382", hg.ErrTooLarge},
		{"cut header", be(200000) + "xx", "stream ended unexpectedly (got 2 bytes, expected 200000)", io.ErrUnexpectedEOF},
		{"negative header", be(-2) + "xx", "negative part header size: -2", hg.ErrMalformed},
		{"length of type lies", be(4) + "\xffabc", "part header: ends too early", hg.ErrMalformed},
		{"no id", sized("\x01Xabc"), "part header: ends too early", hg.ErrMalformed},
		{"no counts", sized("\x01Xabcd\x00"), "part header: ends too early", hg.ErrMalformed},
		{"no sizes", sized("\x01Xabcd\x00\x01\x01"), "part header: ends too early", hg.ErrMalformed},
		{"sizes lie", sized("\x01Xabcd\x01\x00\xff\xff"), "part header: ends too early", hg.ErrMalformed},
		{"more than parameters", sized("\x01Xabcd\x00\x00zz"), "part header: 2 bytes after the parameters", hg.ErrMalformed},
		{"more than one parameter", sized("\x01Xabcd\x01\x00\x01\x00kzz"), "part header: 2 bytes after the parameters", hg.ErrMalformed},
		{"parameter twice", sized("\x01Xabcd\x01\x01\x01\x00\x01\x00kk"), `part header: parameter "k" comes twice`, hg.ErrMalformed},
		{"no payload", cg, "stream ended unexpectedly (got 0 bytes, expected 4)", io.ErrUnexpectedEOF},
		{"huge chunk", cg + be(most) + "1234567890", "stream ended unexpectedly  (got 10 bytes, expected 2147483647)", io.ErrUnexpectedEOF},
		{"negative chunk", cg + be(-9), "negative payload chunk size: -9", hg.ErrMalformed},
		{"interrupts without a part", cg + strings.Repeat(be(-1), 10), "negative part header size: -1", hg.ErrMalformed},
		{"interrupt by the end", cg + be(-1, 0), "stream ended unexpectedly (got 0 bytes, expected 4)", hg.ErrMalformed},
		{"interrupts ever deeper", strings.Repeat(head(t, "x", false)+be(-1), 10), "depth of interrupts 5 exceeds the server's limit of 4", hg.ErrTooLarge},
		{"too many parts", strings.Repeat(head(t, "x", false)+be(0), 11), "number of parts 11 exceeds the server's limit of 10", hg.ErrTooLarge},
		{"too many interrupts", cg + strings.Repeat(be(-1)+head(t, "x", false)+be(0), 10), "number of parts 11 exceeds the server's limit of 10", hg.ErrTooLarge},
	} {
		in, whole := strings.CutPrefix(tt.in, "magic:")
		if !whole {
			in = magic + be(0) + in
		}
		_, err := readAll(strings.NewReader(in), Limits{MaxParts: 10}, nil)
		abort := (*hg.Abort)(nil)
		if !errors.As(err, &abort) || abort.Message != tt.want || !errors.Is(err, tt.is) {
			t.Errorf("%s: err = %v, want %q and %v", tt.name, err, tt.want, tt.is)
		}
	}
}

func TestErrorsAreSticky(t *testing.T) {
	in := magic + be(0) + head(t, "x", false) + be(-9)
	r, err := NewReader(strings.NewReader(in), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.NextPart()
	if err != nil {
		t.Fatal(err)
	}
	_, first := r.NextPart()
	if !errors.Is(first, hg.ErrMalformed) || !strings.Contains(first.Error(), "bundle2 part 7 (x), byte") {
		t.Errorf("NextPart = %v, want hg.ErrMalformed in part 7", first)
	}
	if _, again := r.NextPart(); again != first {
		t.Errorf("NextPart again = %v, want %v", again, first)
	}
	if _, err := p.Read(make([]byte, 1)); err != first {
		t.Errorf("Read = %v, want %v", err, first)
	}
}

func TestInterrupt(t *testing.T) {
	boom := errors.New("boom")
	in := func(part string) string {
		return magic + be(0) + head(t, "outer", true) + sized("abc") + be(-1) + part + sized("def") + be(0, 0)
	}
	nested := head(t, "in", false) + sized("1") + be(-1) + head(t, "deep", false) + sized("2") + be(0) + sized("3") + be(0)
	for _, tt := range []struct {
		name   string
		in     string
		handle func(*Part) error
		want   string
		err    string
	}{
		{"advisory", in(head(t, "foo", false) + sized("skip me") + be(0)), nil, "outer[abcdef]", ""},
		{"mandatory", in(head(t, "foo", true) + be(0)), nil, "", "missing support for foo"},
		{"nested", in(nested), nil, "outer[abcdef]", ""},
		{"abort", in(head(t, "error:abort", false, Mandatory("message", "oh no", "hint", "go home")...) + be(0)), nil, "", "oh no (go home)"},
		{"handler that reads nothing", in(head(t, "foo", true) + sized("skip me") + be(0)), func(*Part) error { return nil }, "outer[abcdef]", ""},
		{"handler that fails", in(head(t, "foo", false) + be(0)), func(*Part) error { return boom }, "", "boom"},
	} {
		got, err := readAll(iotest.OneByteReader(strings.NewReader(tt.in)), Limits{}, tt.handle)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %q, %v, want %q, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
	var seen string
	_, err := readAll(strings.NewReader(in(nested)), Limits{}, func(p *Part) error {
		b, err := io.ReadAll(p)
		seen += p.Type + string(b) + " "
		return err
	})
	if want := "deep2 in13 "; err != nil || seen != want {
		t.Errorf("handler saw %q, %v, want %q", seen, err, want)
	}
}

func TestReadAllLimit(t *testing.T) {
	in := magic + be(0) + head(t, "x", false) + sized("12345") + sized("67890") + be(0, 0)
	for _, tt := range []struct {
		limit int64
		ok    bool
	}{{10, true}, {9, false}, {0, false}} {
		r, err := NewReader(strings.NewReader(in), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.ReadAll(tt.limit)
		if tt.ok && (err != nil || string(b) != "1234567890") || !tt.ok && !errors.Is(err, hg.ErrTooLarge) {
			t.Errorf("ReadAll(%d) = %q, %v, want ok %v", tt.limit, b, err, tt.ok)
		}
	}
}

// TestBomb sends 64 MiB in a few KiB.
func TestBomb(t *testing.T) {
	for _, e := range []compression.Engine{compression.Zlib, compression.Zstd, compression.Bzip2} {
		var b bytes.Buffer
		w, err := NewWriter(&b, WriterOptions{Compression: e})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WritePart("x", false, make([]byte, 4<<20)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := readAll(&b, Limits{MaxBytes: 1 << 20}, nil); !errors.Is(err, hg.ErrTooLarge) {
			t.Errorf("%v: err = %v, want hg.ErrTooLarge", e, err)
		}
	}
}

// TestLengthsCostNothing claims the most of everything and sends little.
func TestLengthsCostNothing(t *testing.T) {
	for _, in := range []string{
		be(maxHeaderBytes) + "x",
		head(t, "x", false) + be(math.MaxInt32) + "x",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readAll(strings.NewReader(magic+be(0)+in), Limits{}, nil)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("err = %v, want io.ErrUnexpectedEOF", err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 512<<10 {
			t.Errorf("%d bytes allocated for % x", got, in[:8])
		}
	}
}
