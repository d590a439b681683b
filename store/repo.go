package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"vcsd/cache"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/revlog"
	"vcsd/revlog/chunk"
)

// Options tell how a repository is opened. The zero value is usable.
type Options struct {
	// Filelogs caches opened filelogs across the repositories of a process.
	// Nil means a cache of this repository alone.
	Filelogs *FilelogCache
	// Key tells this repository's filelogs in a shared cache from others'.
	Key string
}

// A FilelogCache keeps the indexes of filelogs, the most recently used ones.
type FilelogCache = cache.Cache[FilelogKey, *revlog.Log]

// FilelogKey names a filelog among all repositories of a process. Epoch
// changes when somebody else rewrote the repository's files.
type FilelogKey struct {
	Repo  string
	Epoch uint64
	Radix string
}

// epochs counts the times that any repository's logs were opened: no two share
// an epoch, whatever stood at their paths before.
var epochs atomic.Uint64

// A Repo is a repository on disk. Its methods may be called by several
// goroutines at once.
type Repo struct {
	fs   vfs.FS       // rooted at the .hg that has the store; constant after Open
	reqs Requirements // constant after Open
	enc  Encoder      // constant after Open
	opts Options      // constant after Open

	gate gate // taken before mu by all who look at the disk

	// mu serialises all that replaces cur: refreshing it from disk, and the
	// committer between the first byte it links and the new state.
	mu sync.Mutex

	// cur is what readers see. Replaced with mu held, loaded without.
	cur atomic.Pointer[state]

	// Guarded by mu.
	changelog, manifest *revlog.Log
	branches            *branchTable
	epoch               uint64
	rewrites            uint64   // epoch at which the logs were opened last
	fncache             *FNCache // nil until wanted
	obs                 *ObsStore
	obsFile             filePrint // what obs was read from
}

// Open opens the repository whose .hg directory is the root of fsys.
// A requirement that vcsd does not honour is an *hg.Abort that names it.
func Open(fsys vfs.FS, o Options) (*Repo, error) {
	reqs, err := ReadRequirements(fsys)
	if err != nil {
		return nil, err
	}
	r := &Repo{fs: fsys, reqs: reqs, enc: reqs.Encoder(), opts: o}
	if r.opts.Filelogs == nil {
		r.opts.Filelogs = NewFilelogCache(DefaultFilelogCacheBytes)
	}
	r.gate.init()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r, r.reopenLocked(false)
}

// FS returns the file system rooted at the .hg directory.
func (r *Repo) FS() vfs.FS { return r.fs }

// Requirements returns what the repository requires.
func (r *Repo) Requirements() Requirements { return r.reqs }

// Close lets go of the repository's files once the last View is closed.
func (r *Repo) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.cur.Swap(nil); st != nil {
		st.release()
	}
	return errors.Join(r.changelog.Close(), r.manifest.Close())
}

// View returns the repository as it is now. If somebody else changed it on
// disk, that is noticed first. The caller closes the View.
func (r *Repo) View(ctx context.Context) (*View, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := r.gate.look(r.lockAndRefresh); err != nil {
		return nil, err
	}
	return r.current()
}

// current returns the published state without looking at the disk.
func (r *Repo) current() (*View, error) {
	for {
		st := r.cur.Load()
		if st == nil {
			return nil, fmt.Errorf("repository is closed: %w", fs.ErrClosed)
		}
		if st.acquire() {
			return &View{repo: r, state: st}, nil
		}
	}
}

// Exclusive runs link while readers keep the state they have, then publishes
// what is on disk as seq. link changes files of the store under the store's
// lock; touched names the radixes of the filelogs it appended to. It calls show
// before it changes a file that Shows: from there on readers wait.
func (r *Repo) Exclusive(seq uint64, link func(show func()) (touched []string, err error)) error {
	return r.gate.link(func(begin, show func()) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		// What others appended to filelogs before is not in touched.
		if err := r.refreshLocked(); err != nil {
			return err
		}
		begin()
		return r.linkLocked(seq, func() ([]string, error) { return link(show) })
	})
}

// Shows tells whether a change of a file, relative to .hg, shows in the state of
// the repository, to whoever reads its files. What does not is only reached by
// what does.
func Shows(path string) bool {
	if _, isFilelog := FilelogRadixOf(path); isFilelog {
		return false
	}
	name := strings.TrimPrefix(path, "store/")
	return name != "fncache" && !strings.HasPrefix(name, "00manifest.") && !strings.HasPrefix(name, "data/") && !strings.HasPrefix(name, "dh/")
}

func (r *Repo) linkLocked(seq uint64, link func() (touched []string, err error)) error {
	touched, err := link()
	if err != nil {
		return err
	}
	for _, radix := range touched {
		if err := r.opts.Filelogs.Extend(r.filelogKey(radix), seq, extendFilelog); err != nil {
			return err
		}
	}
	return r.loadLocked(seq)
}

// Refresh makes the published state what is on disk. The caller holds
// the store's lock, so nobody is writing.
func (r *Repo) Refresh() (changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.cur.Load()
	err = r.refreshLocked()
	return r.cur.Load() != before, err
}

func (r *Repo) lockAndRefresh() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refreshLocked()
}

// refreshLocked reads the state anew if the files are not those it was made of.
func (r *Repo) refreshLocked() error {
	st := r.cur.Load()
	if st == nil {
		return fs.ErrClosed
	}
	now, err := readFingerprint(r.fs, r.reqs)
	if err != nil {
		return err
	}
	if now == st.print {
		return nil
	}
	if now.rewrote(st.print) || !r.continues(st) {
		a, b := st.print.changelog, now.changelog
		return r.reopenLocked(a.inode != b.inode || a.dev != b.dev || now.wroteAgain(st.print))
	}
	// Somebody else may have appended to any filelog.
	r.epoch = epochs.Add(1)
	return r.loadLocked(st.seq)
}

// continues tells whether the changelog still has the tip of st where it was.
// Who strips in place and then appends leaves a file that has only grown, and
// the old mapping shows its new bytes.
func (r *Repo) continues(st *state) (same bool) {
	n := st.changelog.Len()
	err := vfs.Guard(func() {
		same = n == 0 || st.changelog.Node(hg.Rev(n-1)) == st.tip
	})
	return same && err == nil
}

// reopenLocked opens the logs anew and makes a state of them. whole tells that
// the changelog is another file than before, or the same at the same length: it
// may hold all that the old one did.
func (r *Repo) reopenLocked(whole bool) error {
	seq := uint64(0)
	old := r.cur.Load()
	if old != nil {
		seq = old.seq
	}
	cl, err := r.openMapped(changelogRadix)
	if err != nil {
		return err
	}
	mf, err := r.openMapped(manifestRadix)
	if err != nil {
		return errors.Join(err, cl.Close())
	}
	oldCl, oldMf := r.changelog, r.manifest
	r.changelog, r.manifest, r.branches, r.fncache = cl, mf, nil, nil
	r.epoch = epochs.Add(1)
	if !whole || !old.isPrefixOf(cl, mf) {
		r.rewrites = r.epoch
	}
	if oldCl != nil {
		err = errors.Join(oldCl.Close(), oldMf.Close())
	}
	return errors.Join(err, r.loadLocked(seq))
}

// isPrefixOf tells whether two logs begin with what s holds. They do if somebody
// else made the first revision, or split an inline log: that is another file, but
// no revision changed its number. They do too if what was there was written again.
func (s *state) isPrefixOf(cl, mf *revlog.Log) (is bool) {
	err := vfs.Guard(func() {
		n := s.changelog.Len()
		// If the old file was changed too, the mapping doesn't tell what it held.
		intact := n == 0 || s.changelog.Node(hg.Rev(n-1)) == s.tip
		is = intact && begins(cl, s.changelog) && begins(mf, s.manifest)
	})
	return is && err == nil
}

// begins tells whether a log has the revisions of s at its beginning.
func begins(log *revlog.Log, s *revlog.Snapshot) bool {
	now := log.Snapshot()
	defer now.Close()
	if now.Len() < s.Len() {
		return false
	}
	for r := range hg.Rev(s.Len()) {
		if now.Node(r) != s.Node(r) {
			return false
		}
	}
	return true
}

const (
	changelogRadix = "store/00changelog"
	manifestRadix  = "store/00manifest"
)

// openMapped opens the changelog or the manifest log. hg makes no deltas in
// the changelog, so a new one doesn't claim general delta.
func (r *Repo) openMapped(radix string) (*revlog.Log, error) {
	return revlog.Open(r.fs, radix, revlog.Options{
		Mapped: true, Inline: true, GeneralDelta: r.reqs.GeneralDelta && radix != changelogRadix,
	})
}

// engine returns what new chunks are compressed with.
func (r *Repo) engine() chunk.Engine {
	if r.reqs.Zstd {
		return chunk.Zstd
	}
	return chunk.Zlib
}

// StageOptions returns how new revisions of a kind of log are stored here.
func (r *Repo) StageOptions(kind revlog.Kind) revlog.StageOptions {
	return revlog.StageOptions{Kind: kind, Sparse: r.reqs.SparseRevlog, Engine: r.engine()}
}

// PlanOptions returns how revisions that can't be stored as they were staged
// are stored here. Chunk and Text are left to the caller.
func (r *Repo) PlanOptions() revlog.PlanOptions {
	return revlog.PlanOptions{Engine: r.engine()}
}

// FilelogRadixOf returns the radix of the filelog whose index is at path; ok is
// false for other files. path is relative to .hg. A data file doesn't tell its
// index, as hashed names differ; but nothing is written to one alone.
func FilelogRadixOf(path string) (radix string, ok bool) {
	name, isStore := strings.CutPrefix(path, "store/")
	if !isStore || !(strings.HasPrefix(name, "data/") || strings.HasPrefix(name, "dh/")) {
		return "", false
	}
	return strings.CutSuffix(path, ".i")
}

// FilelogRadix returns the name of a file's index without its ending, relative
// to the .hg directory. It tells the filelog from others.
func (r *Repo) FilelogRadix(file string) string {
	return strings.TrimSuffix(r.storeName("data/"+file+".i"), ".i")
}

// FilelogData returns the name of the file that holds the chunks of a file's
// log once it is split, relative to the .hg directory.
func (r *Repo) FilelogData(file string) string { return r.storeName("data/" + file + ".d") }

func (r *Repo) storeName(name string) string { return path.Join("store", r.enc.Encode(name)) }

func (r *Repo) filelogKey(radix string) FilelogKey {
	return FilelogKey{Repo: r.opts.Key, Epoch: r.epoch, Radix: radix}
}

// OpenFilelog opens the log of a file as it is on disk, past the cache.
func (r *Repo) OpenFilelog(file string) (*revlog.Log, error) {
	return revlog.Open(r.fs, r.FilelogRadix(file), revlog.Options{
		Inline: true, GeneralDelta: r.reqs.GeneralDelta, DataName: r.FilelogData(file),
	})
}

// extendFilelog brings an open log to what is on disk by now.
func extendFilelog(log *revlog.Log) (*revlog.Log, int64, error) {
	if err := log.ExtendToFile(); err != nil {
		return nil, 0, err
	}
	return log, filelogCost(log), nil
}

// DefaultFilelogCacheBytes is the size of a cache unless told otherwise.
const DefaultFilelogCacheBytes = 64 << 20

// NewFilelogCache returns a cache of at most maxBytes of filelog indexes.
func NewFilelogCache(maxBytes int64) *FilelogCache {
	return cache.New[FilelogKey, *revlog.Log](cache.Options{MaxCost: maxBytes, Grows: true})
}
