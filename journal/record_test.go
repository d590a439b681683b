package journal_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"vcsd/journal"
)

func TestRecordSurvivesEncoding(t *testing.T) {
	for name, want := range map[string]*journal.Record{"full": fullRecord(), "empty": record(1)} {
		b := want.Append(nil)
		got, err := journal.Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", name, got, want)
		}
		if again := got.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%s: re-encodes differently", name)
		}
	}
}

// TestFormatIsFixed fails when the format changes: records on disk would no
// longer have the digests that name them.
func TestFormatIsFixed(t *testing.T) {
	const want = "cce2c839105da639c4d1b135d59350d49fd7e391cac6419494783fa3a956b137"
	if got := journal.DigestOf(fullRecord().Append(nil)).String(); got != want {
		t.Errorf("digest of the fixed record = %s, want %s", got, want)
	}
}

func TestTimeZoneDoesNotMatter(t *testing.T) {
	a, b := fullRecord(), fullRecord()
	b.Time = b.Time.In(time.FixedZone("east", 3600))
	if !bytes.Equal(a.Append(nil), b.Append(nil)) {
		t.Error("the same moment in another zone encodes differently")
	}
}

func TestDecodeNoticesEveryDamage(t *testing.T) {
	whole := fullRecord().Append(nil)
	for i := range whole {
		if _, err := journal.Decode(whole[:i]); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", i, len(whole))
		}
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(whole)
			b[i] ^= bit
			if _, err := journal.Decode(b); err == nil {
				t.Errorf("byte %d changed: no error", i)
			}
		}
	}
	if _, err := journal.Decode(append(whole, 0)); err == nil {
		t.Error("a byte too much: no error")
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(r *journal.Record)
		want   string // in the error; empty for none
	}{
		{"as it is", func(r *journal.Record) {}, ""},
		{"no sequence", func(r *journal.Record) { r.Seq = 0 }, "sequence"},
		{"first with a record before", func(r *journal.Record) { r.Seq = 1 }, "before"},
		{"later without", func(r *journal.Record) { r.Prev = journal.Digest{} }, "before"},
		{"kind", func(r *journal.Record) { r.Kind = 9 }, "kind"},
		{"negative length", func(r *journal.Record) { r.ChangelogLen = -1 }, "changelog"},
		{"revision", func(r *journal.Record) { r.Pushes[0].FirstRev = -2 }, "revision"},
		{"path", func(r *journal.Record) { r.Writes[0].Path = "../x" }, "path"},
		{"length", func(r *journal.Record) { r.Writes[0].Length++ }, "parts have 10 bytes, want 11"},
		{"negative offset", func(r *journal.Record) { r.Writes[0].Offset = -1 }, "at -1"},
		{"offset overflows", func(r *journal.Record) { r.Writes[0].Offset = 1<<63 - 5 }, "bytes at"},
		{"range overflows", func(r *journal.Record) { r.Writes[0].Parts[0].Offset = 1<<63 - 1 }, "segment"},
		{"segment name", func(r *journal.Record) { r.Writes[0].Parts[0].Segment = "../../etc/passwd" }, "segment name"},
		{"op", func(r *journal.Record) { r.Writes[0].Op = 77 }, "op 77"},
		{"replace at an offset", func(r *journal.Record) { r.Writes[3].Offset = 1 }, "offset 1"},
		{"split with parts", func(r *journal.Record) { r.Writes[1].Parts = []journal.Part{{}} }, "split"},
		{"split onto itself", func(r *journal.Record) { r.Writes[1].DataPath = r.Writes[1].Path }, "split"},
		{"split to nowhere", func(r *journal.Record) { r.Writes[1].DataPath = "" }, "path"},
		{"append with data path", func(r *journal.Record) { r.Writes[0].DataPath = "store/x" }, "data path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fullRecord()
			tt.change(r)
			err := r.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestValidPath(t *testing.T) {
	tests := []struct {
		path string
		want bool
	}{
		{"store/00changelog.i", true},
		{"store/data/a/b.i", true},
		{"store/data/...i", true},
		{"bookmarks", true},
		{"", false},
		{".", false},
		{"store", false},
		{"store/", false},
		{"/store/a", false},
		{"store//a", false},
		{"store/./a", false},
		{"store/../hgrc", false},
		{"../store/a", false},
		{"store/a\x00b", false},
		{"store/lock", false},
		{"hgrc", false},
		{"vcsd/applied", false},
		{"bookmarks/x", false},
		{"store/" + strings.Repeat("a", 256), false},
		{"store/" + strings.Repeat("a/", 3000) + "a", false},
	}
	for _, tt := range tests {
		if err := journal.ValidPath(tt.path); (err == nil) != tt.want {
			t.Errorf("ValidPath(%.40q) = %v, want valid: %v", tt.path, err, tt.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(fullRecord().Append(nil))
	f.Add(record(1).Append(nil))
	f.Add(record(2, write(journal.Append, "store/fncache", 5, "a\n")).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := journal.Decode(b)
		if err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%+v re-encodes differently", r)
		}
	})
}
