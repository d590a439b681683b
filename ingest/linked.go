package ingest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"vcsd/internal/vfs"
	"vcsd/journal"
)

// linkedFile tells up to which record the store's files have been written, by
// whichever process, since the machine was started. It is not synced: after a
// power cut only the checkpoint counts. Its form is "BOOT SEQ DIGEST".
const linkedFile = vcsdDir + "/linked"

// appliedFile is the checkpoint: what is durable in the store.
const appliedFile = vcsdDir + "/applied"

// readLinked returns the last record whose writes the store's files have.
func (p *Pipeline) readLinked() (journal.ID, error) {
	linked, _, err := ReadLinked(p.fs, p.bootID)
	// What this process linked counts even if it could not be noted there.
	if id := p.checkpoint.noted(); err == nil && id.Seq > linked.Seq {
		linked = id
	}
	return linked, err
}

// ReadLinked returns the last record whose writes the files of a store have, as
// far as that was noted, and the last one that is durable there. They are zero if
// there is none. fsys is rooted at .hg; bootID names this run of the machine.
func ReadLinked(fsys vfs.FS, bootID string) (linked, applied journal.ID, err error) {
	if applied, _, err = journal.ReadApplied(fsys, appliedFile); err != nil {
		return linked, applied, err
	}
	linked = applied
	marker, err := readMarker(fsys)
	if id := parseLinked(marker, bootID); id.Seq > linked.Seq {
		linked = id
	}
	return linked, applied, err
}

// readMarker returns the line of linkedFile; it is empty if there is none.
func readMarker(fsys vfs.FS) (string, error) {
	b, err := vfs.ReadFile(fsys, linkedFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// linkedBefore returns the record that the marker names, of whichever run of the
// machine.
func (p *Pipeline) linkedBefore() (journal.ID, error) {
	marker, err := readMarker(p.fs)
	boot, _, _ := strings.Cut(marker, " ")
	return parseLinked(marker, boot), err
}

// parseLinked reads a marker of this run of the machine. One that was cut
// short by a full disk, or is of another run, says nothing.
func parseLinked(line, bootID string) journal.ID {
	f := strings.Fields(line)
	if len(f) != 3 || f[0] != bootID {
		return journal.ID{}
	}
	seq, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return journal.ID{}
	}
	digest, err := journal.ParseDigest(f[2])
	if err != nil {
		return journal.ID{}
	}
	return journal.ID{Seq: seq, Digest: digest}
}

func (p *Pipeline) writeLinked(id journal.ID) error {
	line := fmt.Sprintf("%s %d %s\n", p.bootID, id.Seq, id.Digest)
	return vfs.WriteAtomic(p.fs, linkedFile, []byte(line), false)
}

// BootID names this run of the machine.
func BootID() (string, error) {
	f, err := vfs.NewOS("/").Open("proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	defer f.Close() // read only
	b, err := io.ReadAll(f)
	return strings.TrimSpace(string(b)), err
}
