package journal

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"lukechampine.com/blake3"

	"vcsd/hg"
)

// A Digest is the BLAKE3 hash of a record's file, or of a push's payload.
type Digest [32]byte

// String returns d as 64 hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is no digest at all.
func (d Digest) IsZero() bool { return d == Digest{} }

// ParseDigest reads 64 lower-case hexadecimal digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != 2*len(d) || strings.ToLower(s) != s {
		return d, fmt.Errorf("digest %q: want %d lower-case hexadecimal digits", s, 2*len(d))
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, fmt.Errorf("digest %q: %w", s, err)
	}
	return d, nil
}

// DigestOf hashes b.
func DigestOf(b []byte) Digest { return blake3.Sum256(b) }

// Kind tells where a record comes from. The values are on disk.
type Kind uint8

const (
	// Commit is a batch of pushes.
	Commit Kind = 1
	// Adopt takes over what another program did to the store.
	Adopt Kind = 2
)

// Op is what a Write does. The values are on disk.
type Op uint8

const (
	// Append writes the parts at Offset, which is the file's length before.
	Append Op = 1
	// Replace makes the parts the file's whole content. Offset is 0.
	Replace Op = 2
	// Split divides the inline revlog Path, of which Length bytes are known,
	// into Path and DataPath. It has no parts.
	Split Op = 3
	// AppendInline is Append to an inline revlog. It is skipped where the
	// revlog has been split already, as the split took the bytes along.
	AppendInline Op = 4
)

func (o Op) String() string {
	switch o {
	case Append:
		return "append"
	case Replace:
		return "replace"
	case Split:
		return "split"
	case AppendInline:
		return "append inline"
	}
	return fmt.Sprintf("op %d", uint8(o))
}

// A Record is one step of a repository's history. It is not changed once it
// was given to Put or came from Get.
type Record struct {
	Seq  uint64 // 1 is a repository's first
	Prev Digest // of the record before; zero for the first
	Time time.Time
	Node string // the vcsd node that wrote it
	Kind Kind

	ChangelogLen int     // revisions in the changelog after this record
	Tip          hg.Node // the changelog's last node; null if it is empty

	Pushes []Push
	Writes []Write // in the order in which they are applied
}

// A Push is what one push of the batch did.
type Push struct {
	ID     Digest // of its payload
	User   string // as authenticated; may be empty
	Remote string // the client's address
	Source string // "push", "serve", "unbundle" and the like
	Time   time.Time

	Heads      []BranchHeads
	Bookmarks  []BookmarkMove
	Phases     []PhaseMove
	ObsMarkers int // markers added

	FirstRev   hg.Rev // changelog revision of its first new changeset
	Changesets int    // how many follow one another from FirstRev
}

// BranchHeads is the change of one branch's heads.
type BranchHeads struct {
	Branch   string
	Old, New []hg.Node
}

// A BookmarkMove is the change of one bookmark. A null node means that there
// is none.
type BookmarkMove struct {
	Name     string
	Old, New hg.Node
}

// A PhaseMove names changesets that came to a phase.
type PhaseMove struct {
	Phase hg.Phase
	Nodes []hg.Node
}

// A Write is one change of one file below .hg.
type Write struct {
	Path     string // relative to .hg, slash-separated
	DataPath string // of a Split: the file that takes the data
	Op       Op
	Offset   int64  // absolute, in bytes
	Length   int64  // in bytes
	Sum      uint32 // crc32c of the bytes; 0 for a Split
	Parts    []Part // Length bytes in all
}

// A Part is some of a write's bytes: Data, or if Segment is set a range of a
// segment.
type Part struct {
	Data    []byte // read-only
	Segment string
	Offset  int64
	Length  int64 // of the range; ignored for Data
}

func (p *Part) size() int64 {
	if p.Segment != "" {
		return p.Length
	}
	return int64(len(p.Data))
}

// Segments returns the names of the segments that the record needs, in the
// order of their first use.
func (r *Record) Segments() []string {
	var names []string
	seen := make(map[string]bool)
	for i := range r.Writes {
		for _, p := range r.Writes[i].Parts {
			if p.Segment != "" && !seen[p.Segment] {
				seen[p.Segment] = true
				names = append(names, p.Segment)
			}
		}
	}
	return names
}

// Bytes returns how many bytes the record's writes put into the store.
func (r *Record) Bytes() int64 {
	var n int64
	for i := range r.Writes {
		if r.Writes[i].Op != Split {
			n += r.Writes[i].Length
		}
	}
	return n
}

// Validate checks what must hold for each record, whoever made it.
func (r *Record) Validate() error {
	switch {
	case r.Seq == 0:
		return errors.New("record without a sequence number")
	case (r.Seq == 1) != r.Prev.IsZero():
		return fmt.Errorf("record %d: digest %v for the record before", r.Seq, r.Prev)
	case r.Kind != Commit && r.Kind != Adopt:
		return fmt.Errorf("record %d: unknown kind %d", r.Seq, r.Kind)
	case r.ChangelogLen < 0 || r.ChangelogLen > math.MaxInt32:
		return fmt.Errorf("record %d: changelog of %d revisions", r.Seq, r.ChangelogLen)
	}
	for i := range r.Pushes {
		if err := r.Pushes[i].validate(); err != nil {
			return fmt.Errorf("record %d: push %d: %w", r.Seq, i, err)
		}
	}
	for i := range r.Writes {
		if err := r.Writes[i].validate(); err != nil {
			return fmt.Errorf("record %d: write %d: %w", r.Seq, i, err)
		}
	}
	return nil
}

func (p *Push) validate() error {
	if p.FirstRev < hg.NullRev {
		return fmt.Errorf("first revision %d", p.FirstRev)
	}
	if p.Changesets < 0 || p.Changesets > math.MaxInt32 || p.ObsMarkers < 0 || p.ObsMarkers > math.MaxInt32 {
		return fmt.Errorf("%d changesets and %d markers", p.Changesets, p.ObsMarkers)
	}
	return nil
}

func (w *Write) validate() error {
	if err := ValidPath(w.Path); err != nil {
		return err
	}
	if w.Offset < 0 || w.Length < 0 || w.Offset > math.MaxInt64-w.Length {
		return fmt.Errorf("%q: %d bytes at %d", w.Path, w.Length, w.Offset)
	}
	switch w.Op {
	case Append, AppendInline, Replace:
		if w.DataPath != "" || w.Op == Replace && w.Offset != 0 {
			return fmt.Errorf("%q: %v with offset %d and data path %q", w.Path, w.Op, w.Offset, w.DataPath)
		}
		return w.validateParts()
	case Split:
		return w.validateSplit()
	}
	return fmt.Errorf("%q: unknown %v", w.Path, w.Op)
}

func (w *Write) validateSplit() error {
	if w.Offset != 0 || w.Sum != 0 || len(w.Parts) != 0 || w.Length == 0 || w.DataPath == w.Path {
		return fmt.Errorf("%q: split with data of its own", w.Path)
	}
	return ValidPath(w.DataPath)
}

func (w *Write) validateParts() error {
	var n int64
	for i := range w.Parts {
		p := &w.Parts[i]
		if p.Segment != "" {
			if err := validSegmentName(p.Segment); err != nil {
				return err
			}
			if p.Data != nil || p.Offset < 0 || p.Length < 0 || p.Offset > math.MaxInt64-p.Length {
				return fmt.Errorf("%q: %d bytes at %d of segment %s", w.Path, p.Length, p.Offset, p.Segment)
			}
		}
		if n += p.size(); n > w.Length || n < 0 {
			break
		}
	}
	if n != w.Length {
		return fmt.Errorf("%q: parts have %d bytes, want %d", w.Path, n, w.Length)
	}
	return nil
}

const (
	maxPathBytes = 4096
	maxNameBytes = 255
)

// outsideStore are the files outside store/ that a record may write.
var outsideStore = []string{"bookmarks"}

// ValidPath checks that p, relative to .hg, is a file that a record may write:
// one in the store, but no lock, or one of the few beside it.
func ValidPath(p string) error {
	if len(p) > maxPathBytes || p != path.Clean(p) || strings.ContainsRune(p, 0) {
		return fmt.Errorf("path %q is not in its clean form", p)
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." || name == "" || len(name) > maxNameBytes {
			return fmt.Errorf("path %q is not allowed", p)
		}
	}
	if p == "store/lock" || !strings.HasPrefix(p, "store/") && !slices.Contains(outsideStore, p) {
		return fmt.Errorf("path %q is not allowed", p)
	}
	return nil
}
