package journal

import (
	"errors"
	"fmt"
	"io/fs"

	"vcsd/internal/vfs"
)

// The checkpoint is one line of text: a word, the sequence number in decimal,
// the record's digest, the crc32c of all before in hexadecimal.
const (
	appliedWord     = "vcsd-applied-1"
	maxAppliedBytes = 256
)

// ReadApplied reads the checkpoint in the file name of fsys: the record up to
// which everything is durable in the store. ok is false if there is none yet.
func ReadApplied(fsys vfs.FS, name string) (id ID, ok bool, err error) {
	b, err := vfs.ReadFile(fsys, name, maxAppliedBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return ID{}, false, nil
	}
	if err != nil {
		return ID{}, false, err
	}
	id, err = parseApplied(string(b))
	if err != nil {
		return ID{}, false, &CorruptError{name, err}
	}
	return id, true, nil
}

// WriteApplied replaces the checkpoint durably. SyncTouched comes before it.
func WriteApplied(fsys vfs.FS, name string, id ID) error {
	return vfs.WriteAtomic(fsys, name, []byte(formatApplied(id)), true)
}

func formatApplied(id ID) string {
	s := fmt.Sprintf("%s %d %v", appliedWord, id.Seq, id.Digest)
	return fmt.Sprintf("%s %08x\n", s, Sum([]byte(s)))
}

func parseApplied(s string) (ID, error) {
	var id ID
	var digest, sum string
	if _, err := fmt.Sscanf(s, appliedWord+" %d %64s %8s\n", &id.Seq, &digest, &sum); err != nil {
		return ID{}, err
	}
	d, err := ParseDigest(digest)
	if err != nil {
		return ID{}, err
	}
	id.Digest = d
	if formatApplied(id) != s {
		return ID{}, errChecksum
	}
	return id, nil
}
