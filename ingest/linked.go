package ingest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	applied, _, err := journal.ReadApplied(p.repo.FS(), appliedFile)
	if err != nil {
		return applied, err
	}
	b, err := vfs.ReadFile(p.repo.FS(), linkedFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return applied, nil
	}
	if err != nil {
		return applied, err
	}
	boot, rest, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	if boot != p.bootID {
		return applied, nil
	}
	var linked journal.ID
	var digest string
	if _, err := fmt.Sscanf(rest, "%d %64s", &linked.Seq, &digest); err != nil {
		return applied, nil // cut short by a full disk: the checkpoint still counts
	}
	if linked.Digest, err = journal.ParseDigest(digest); err != nil || linked.Seq < applied.Seq {
		return applied, nil
	}
	return linked, nil
}

func (p *Pipeline) writeLinked(id journal.ID) error {
	line := fmt.Sprintf("%s %d %s\n", p.bootID, id.Seq, id.Digest)
	return vfs.WriteAtomic(p.repo.FS(), linkedFile, []byte(line), false)
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
