package journal_test

import (
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"vcsd/journal"
)

// exampleRecord is the record that doc/format/record.md shows in bytes.
func exampleRecord() *journal.Record {
	r := record(2, write(journal.Append, "store/fncache", 11, "data/b.i\n"))
	r.Prev = journal.Digest{0xaa, 31: 0xbb}
	r.Time = time.Unix(1700000000, 0).UTC()
	r.ChangelogLen = 1
	r.Tip[0] = 0xcc
	return r
}

func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile("../doc/format/record.md")
	mustDo(t, err)
	_, block, _ := strings.Cut(string(page), "```hex\n")
	block, _, _ = strings.Cut(block, "```")
	var digits strings.Builder
	for line := range strings.Lines(block) {
		bytesOnly, _, _ := strings.Cut(line, "|")
		digits.WriteString(strings.Join(strings.Fields(bytesOnly), ""))
	}
	b, err := hex.DecodeString(digits.String())
	mustDo(t, err)
	got, err := journal.Decode(b)
	if err != nil || !reflect.DeepEqual(got, exampleRecord()) {
		t.Errorf("the page's bytes are %+v, %v; want %+v\nwhich is %x", got, err, exampleRecord(), exampleRecord().Append(nil))
	}
}
