package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"vcsd/internal/vfs"
)

// Options sets a journal's limits.
type Options struct {
	// MaxRecordBytes is the longest record file to write or read, in bytes.
	// 0 means 256 MiB.
	MaxRecordBytes int64
	// MaxInlineBytes is how many literal bytes a record carries, in all its
	// writes. Put moves those of a longer one to a segment. 0 means 8 MiB.
	MaxInlineBytes int64
	// OrphanAge is how old a file that belongs to no record must be before
	// Prune removes it: another process may be about to name it. 0 means 24 h.
	OrphanAge time.Duration
	// Now is the clock for OrphanAge. nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxRecordBytes == 0 {
		o.MaxRecordBytes = 256 << 20
	}
	if o.MaxInlineBytes == 0 {
		o.MaxInlineBytes = 8 << 20
	}
	if o.OrphanAge == 0 {
		o.OrphanAge = 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Journal is a directory of records and segments.
type Journal struct {
	fs  vfs.FS  // constant
	dir string  // constant
	o   Options // constant

	// failed is the first failed sync. It never goes back to nil.
	failed atomic.Pointer[SyncError]
}

// Open opens the journal in dir of fsys, and makes the directory durably if it
// is missing.
func Open(fsys vfs.FS, dir string, o Options) (*Journal, error) {
	j := &Journal{fs: fsys, dir: dir, o: o.withDefaults()}
	there, err := vfs.Exists(fsys, dir)
	if err != nil || there {
		return j, err
	}
	return j, vfs.MkdirAllSync(fsys, dir)
}

// Err returns the *SyncError after which the journal takes nothing more, or
// nil. Reading goes on.
func (j *Journal) Err() error {
	if err := j.failed.Load(); err != nil {
		return err
	}
	return nil
}

// synced remembers a failed sync of name for good.
func (j *Journal) synced(name string, err error) error {
	if err == nil {
		return nil
	}
	j.failed.CompareAndSwap(nil, &SyncError{File: name, Err: err})
	return j.Err()
}

func (j *Journal) path(name string) string { return path.Join(j.dir, name) }

// An ID names a record: several may stand at one sequence number, of which at
// most one was published.
type ID struct {
	Seq    uint64
	Digest Digest
}

const (
	recordSuffix  = ".rec"
	segmentSuffix = ".seg"
	tempSuffix    = ".tmp"
)

func (id ID) String() string { return fmt.Sprintf("%016x-%v", id.Seq, id.Digest) }

func (id ID) file() string { return id.String() + recordSuffix }

// parseID reads the name of a record's file.
func parseID(file string) (ID, bool) {
	base, isRecord := strings.CutSuffix(file, recordSuffix)
	seqHex, digestHex, hasDash := strings.Cut(base, "-")
	if !isRecord || !hasDash || len(seqHex) != 16 {
		return ID{}, false
	}
	seq, err := strconv.ParseUint(seqHex, 16, 64)
	if err != nil {
		return ID{}, false
	}
	d, err := ParseDigest(digestHex)
	id := ID{seq, d}
	return id, err == nil && id.file() == file
}

// Put makes a record durable, with the segments that it names, and returns its
// digest. It may be repeated. A record that nobody publishes does no harm.
//
// Order: the record's bytes go to a temporary file; that is synced; it is
// renamed to its name; the directory is synced. The segments were synced by
// AdoptSegment, and the sync of the directory makes their names durable too.
// Only after Put may the transaction be sent that publishes the record.
func (j *Journal) Put(ctx context.Context, r *Record) (Digest, error) {
	if err := j.Err(); err != nil {
		return Digest{}, err
	}
	if err := ctx.Err(); err != nil {
		return Digest{}, err
	}
	b, err := j.encode(r)
	if err != nil {
		return Digest{}, fmt.Errorf("put record %d: %w", r.Seq, err)
	}
	id := ID{r.Seq, DigestOf(b)}
	if err := j.install(id.file(), b); err != nil {
		return Digest{}, fmt.Errorf("put record %d: %w", r.Seq, err)
	}
	return id.Digest, nil
}

// encode checks the record and what it leans on, and returns its bytes.
func (j *Journal) encode(r *Record) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := j.checkSegments(r); err != nil {
		return nil, err
	}
	r, err := j.spill(r)
	if err != nil {
		return nil, err
	}
	b := r.Append(nil)
	if int64(len(b)) > j.o.MaxRecordBytes {
		return nil, fmt.Errorf("%d bytes, limit %d: %w", len(b), j.o.MaxRecordBytes, ErrRecordTooLarge)
	}
	return b, nil
}

// install writes b durably to a new file. See Put for the order.
func (j *Journal) install(name string, b []byte) (err error) {
	tmp := vfs.TempName(j.path(name))
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfThere(j.fs, tmp))
		}
	}()
	if err := j.writeTemp(tmp, b); err != nil {
		return err
	}
	if err := j.fs.Rename(tmp, j.path(name)); err != nil {
		return err
	}
	return j.synced(j.dir, j.fs.SyncDir(j.dir))
}

func (j *Journal) writeTemp(tmp string, b []byte) (err error) {
	f, err := j.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(b, 0); err != nil {
		return err
	}
	return j.synced(tmp, durable(f))
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Get reads a record and checks it against its digest. A missing one is
// fs.ErrNotExist, a damaged one a *CorruptError.
func (j *Journal) Get(seq uint64, digest Digest) (*Record, error) {
	id := ID{seq, digest}
	name := j.path(id.file())
	b, err := vfs.ReadFile(j.fs, name, j.o.MaxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("get record %d: %w", seq, err)
	}
	if got := DigestOf(b); got != digest {
		return nil, &CorruptError{name, fmt.Errorf("its digest is %v", got)}
	}
	r, err := Decode(b)
	if err != nil {
		return nil, &CorruptError{name, err}
	}
	if r.Seq != seq {
		return nil, &CorruptError{name, fmt.Errorf("it is record %d", r.Seq)}
	}
	return r, nil
}

// List returns the records in the journal by sequence number, published or
// not.
func (j *Journal) List() ([]ID, error) {
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	var ids []ID
	for _, e := range entries {
		// Names sort by sequence number, which they begin with.
		if id, ok := parseID(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// History returns the records from seq after+1 up to tip, oldest first, by
// following the digests back from tip. It ends with an error that wraps
// fs.ErrNotExist if one of them is missing. Only IDs are kept, not records.
func (j *Journal) History(after uint64, tip ID) ([]ID, error) {
	if tip.Seq <= after {
		return nil, nil
	}
	ids := make([]ID, 0, min(tip.Seq-after, 1<<16))
	for id := tip; id.Seq > after; {
		h, _, err := j.readHeader(id)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		id = ID{id.Seq - 1, h.Prev}
	}
	slices.Reverse(ids)
	return ids, nil
}

// headerGuess is how much of a record's file is read at first for its header.
const headerGuess = 4096

// readHeader reads a record without its pushes and writes, and the names of
// its segments. The header's own checksum is checked, the digest is not.
func (j *Journal) readHeader(id ID) (*Record, []string, error) {
	name := j.path(id.file())
	for limit := int64(headerGuess); ; limit = j.o.MaxRecordBytes {
		b, err := j.readPrefix(name, limit)
		if err != nil {
			return nil, nil, fmt.Errorf("read header of record %d: %w", id.Seq, err)
		}
		r, h, _, err := decodeHeader(b)
		switch {
		case err == nil && r.Seq != id.Seq:
			return nil, nil, &CorruptError{name, fmt.Errorf("it is record %d", r.Seq)}
		case err == nil:
			return r, h.segments, nil
		case limit == j.o.MaxRecordBytes:
			return nil, nil, &CorruptError{name, err}
		}
	}
}

func (j *Journal) readPrefix(name string, limit int64) (b []byte, err error) {
	f, err := j.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b = make([]byte, min(in.Size, limit))
	return b, readFullAt(f, b, 0)
}
