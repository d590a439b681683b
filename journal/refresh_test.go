package journal_test

import (
	"errors"
	"testing"

	"vcsd/internal/vfs"
	"vcsd/internal/vfs/errfs"
	"vcsd/journal"
)

// TestRefresh wants what stands there of a record to be on the disk after a sync
// that follows a failed one, and all else as it was.
func TestRefresh(t *testing.T) {
	index, data := logOf(revisions(2, 10), false)
	tests := []struct {
		name       string
		write      journal.Write
		have, want string
		// durable is set where the record covers all that the failed sync lost.
		durable bool
	}{
		{"append that is there", write(journal.Append, "store/f", 3, "def"), "abcdefLATER", "abcdefLATER", true},
		{"append that is there in part", write(journal.Append, "store/f", 3, "de", "fg"), "abcde", "abcde", true},
		{"append of which zeros are left", write(journal.Append, "store/f", 3, "def"), "abc\x00\x00f", "abcdef", true},
		{"append that was stripped", write(journal.Append, "store/f", 3, "def"), "ab", "ab", false},
		{"append that was stripped and followed", write(journal.Append, "store/f", 3, "def"), "abcxyz!", "abcxyz!", false},
		{"replaced file", write(journal.Replace, "store/f", 0, "new"), "new", "new", true},
		{"replaced file of which zeros are left", write(journal.Replace, "store/f", 0, "new"), "n\x00\x00", "new", true},
		{"replaced file that a local hg changed", write(journal.Replace, "store/f", 0, "new"), "own", "own", false},
		{"replaced file that got longer", write(journal.Replace, "store/f", 0, "new"), "newer", "newer", true},
		{"replaced file that got shorter", write(journal.Replace, "store/f", 0, "new"), "ne", "ne", true},
		{"inline part of a log that was split", write(journal.AppendInline, "store/f", 0, index[:64], data), index, index, false},
		{"split", split("store/f", "store/f.d", 200), index, index, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := target(t, content{"store/f": "", "vcsd/x": ""})
			// The content is written, and a sync of it fails.
			f := must(errfs.FailNth(m, 0, errors.New("boom"), errfs.Sync).OpenWrite("store/f"))
			must(f.WriteAt([]byte(tc.have), 0))
			if f.Sync() == nil {
				t.Fatal("the sync did not fail")
			}
			mustDo(t, f.Close())

			j := must(journal.Open(m, "vcsd/journal", journal.Options{}))
			touched := must(j.Refresh(record(1, tc.write), m))
			if got := string(must(vfs.ReadFile(m, "store/f", 1<<20))); got != tc.want {
				t.Errorf("read back: %q, want %q", got, tc.want)
			}
			if tc.durable {
				mustDo(t, journal.SyncTouched(t.Context(), m, touched))
				if got := string(must(vfs.ReadFile(m.Crash(nil), "store/f", 1<<20))); got != tc.want {
					t.Errorf("after a power cut: %q, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestRefreshOfMissingFile(t *testing.T) {
	m := target(t, content{"vcsd/x": ""})
	j := must(journal.Open(m, "vcsd/journal", journal.Options{}))
	must(j.Refresh(record(1, write(journal.Append, "store/f", 0, "abc")), m))
	if there := must(vfs.Exists(m, "store/f")); there {
		t.Error("a file that was not there was made")
	}
}
