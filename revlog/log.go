package revlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"vcsd/hg"
	"vcsd/internal/vfs"
)

// Options tell how a log is read. The zero value suits a file's log.
type Options struct {
	// Mapped maps the index instead of reading it into memory. It is for logs
	// that stay open and grow (changelog, manifest): a process may have some
	// 65,000 mappings in all.
	Mapped bool

	// ReserveBytes is the address space that a mapped index reserves at least,
	// so that it grows without a new mapping. 0 means 1 GiB, 16 million
	// revisions. Address space costs no memory.
	ReserveBytes int64

	// MaxTextBytes is the longest full text to rebuild; a longer one is
	// refused with hg.ErrTooLarge. 0 means 2 GiB - 1, the limit of the format.
	MaxTextBytes int64

	// BeforeLinkRev hides the revisions at the end of the log whose linkrev is
	// not below it: those of pushes that a reader of that many changesets must
	// not see. 0 hides none.
	BeforeLinkRev hg.Rev

	// DataName is the name of the data file where it doesn't follow from the
	// radix, as in the store's hashed names. Empty means radix+".d".
	DataName string

	// Inline and GeneralDelta are the shape of a log that does not exist yet.
	// A log that does tells its own.
	Inline, GeneralDelta bool
}

const (
	defaultReserveBytes = 1 << 30
	defaultMaxTextBytes = maxChunkLen
)

func (o Options) withDefaults() Options {
	if o.ReserveBytes == 0 {
		o.ReserveBytes = defaultReserveBytes
	}
	if o.MaxTextBytes == 0 || o.MaxTextBytes > defaultMaxTextBytes {
		o.MaxTextBytes = defaultMaxTextBytes
	}
	return o
}

// Size tells how much of its files a log takes up.
type Size struct {
	Revs       int
	Inline     bool
	IndexBytes int64 // of the .i file; in an inline log with the chunks
	DataBytes  int64 // of the .d file; 0 in an inline log
}

// A Log is one revision log. Its methods may be called by several goroutines
// at once.
type Log struct {
	fs    vfs.FS // constant after Open, as the three below
	radix string
	o     Options
	nodes nodeIndex

	// extendMu serialises Extend and Close.
	extendMu sync.Mutex

	// cur is what new snapshots see; its source holds one reference for it.
	// Stored with extendMu held, loaded without. nil once closed.
	// Invariant: its revision count never decreases.
	cur atomic.Pointer[state]

	// The first state and source, which are all that most logs ever have.
	firstState  state
	firstSource source
}

// Open opens the log whose files are radix+".i" and radix+".d", unless the
// options name the latter. A missing index is an empty log. An index that ends
// inside an entry, because a writer is at work, is read up to the last whole
// revision. Errors are those of the file system, *CorruptError and
// *UnsupportedError.
func Open(fsys vfs.FS, radix string, o Options) (*Log, error) {
	l := &Log{fs: fsys, radix: radix, o: o.withDefaults()}
	src := &l.firstSource
	l.initSource(src)
	if err := l.loadFirst(&l.firstState, src); err != nil {
		return nil, errors.Join(err, src.release())
	}
	l.cur.Store(&l.firstState)
	return l, nil
}

// loadFirst fills st with the log as it is on disk, less what is to be hidden.
func (l *Log) loadFirst(st *state, src *source) error {
	if err := l.load(st, src, wholeFile); err != nil {
		return err
	}
	return st.guard(func() error {
		st.hideFrom(l.o.BeforeLinkRev)
		if l.o.Mapped {
			st.nodes.cover(st)
		}
		return nil
	})
}

// Name returns the radix given to Open.
func (l *Log) Name() string { return l.radix }

func (l *Log) indexName() string { return l.radix + ".i" }

func (l *Log) dataName() string {
	if l.o.DataName != "" {
		return l.o.DataName
	}
	return l.radix + ".d"
}

func (l *Log) initSource(src *source) {
	src.data.fs, src.data.name = l.fs, l.dataName()
	src.refs.Store(1)
}

// Snapshot returns the log as it is now. The caller closes it. It panics after
// Close of the log.
func (l *Log) Snapshot() *Snapshot {
	s, ok := l.TrySnapshot()
	if !ok {
		panic("revlog: Snapshot of " + l.radix + " after Close")
	}
	return s
}

// TrySnapshot is Snapshot for a log that somebody may have closed meanwhile.
func (l *Log) TrySnapshot() (*Snapshot, bool) {
	for {
		st := l.cur.Load()
		if st == nil {
			return nil, false
		}
		// A source that is gone was replaced since the load: look again.
		if st.src.acquire() {
			return &Snapshot{state: *st}, true
		}
	}
}

// Close lets go of the log's files. Open snapshots stay valid until they are
// closed themselves. A second Close does nothing.
func (l *Log) Close() error {
	l.extendMu.Lock()
	defer l.extendMu.Unlock()
	st := l.cur.Swap(nil)
	if st == nil {
		return nil
	}
	return st.src.release()
}

// Extend publishes a snapshot of the length given, after that much was written
// to the files. It is checked that the files have it and that the new entries
// are sound; on an error the log stays as it was. Snapshots that are open keep
// what they have. A log may turn from inline to split, never back.
func (l *Log) Extend(size Size) error {
	l.extendMu.Lock()
	defer l.extendMu.Unlock()
	cur := l.cur.Load()
	if cur == nil {
		return ErrClosed
	}
	if size == cur.size {
		return nil
	}
	if hg.Rev(size.Revs) < cur.n {
		return &CorruptError{l.indexName(), hg.NullRev, fmt.Errorf("%w: %d revisions, had %d", errShrunk, size.Revs, cur.n)}
	}
	next, err := l.extended(cur, size)
	if err != nil {
		return err
	}
	if l.o.Mapped {
		// Lookups need not do it then.
		if err := next.guard(func() error { next.nodes.cover(next); return nil }); err != nil {
			return errors.Join(err, next.abandon(cur))
		}
	}
	return l.publishLocked(cur, next)
}

// publishLocked makes next what new snapshots see.
func (l *Log) publishLocked(cur, next *state) error {
	l.cur.Store(next)
	if next.src == cur.src {
		return nil
	}
	return cur.src.release()
}

// extended returns the state of the length given: over the source of cur where
// that reaches, over a new one otherwise.
func (l *Log) extended(cur *state, size Size) (*state, error) {
	next := &state{}
	same, err := cur.src.isCurrent(l.indexName())
	if err != nil {
		return nil, err
	}
	if same && cur.reaches(size) {
		*next = *cur
		if err := l.growLocked(next, size); err != nil {
			return nil, err
		}
		return next, nil
	}
	src := &source{}
	l.initSource(src)
	if err := l.load(next, src, size.IndexBytes); err != nil {
		return nil, errors.Join(err, src.release())
	}
	if err := next.checkSize(size); err != nil {
		return nil, errors.Join(err, src.release())
	}
	return next, nil
}

// growLocked lengthens st, a copy of the current state, over the same source.
func (l *Log) growLocked(st *state, size Size) error {
	if st.src.mapping != nil {
		st.index = st.src.mapping.Bytes()[:size.IndexBytes]
	} else if err := l.readTail(st, size.IndexBytes); err != nil {
		return err
	}
	from := st.n
	err := st.guard(func() error {
		if err := st.locate(); err != nil {
			return err
		}
		return st.check(from)
	})
	if err != nil {
		return err
	}
	return st.checkSize(size)
}

// readTail brings the index in memory to size bytes. Older states share the
// array and never look beyond their own length.
func (l *Log) readTail(st *state, size int64) (err error) {
	f, err := l.fs.Open(l.indexName())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Memory is taken for what is there, not for what the caller hopes for.
	st.index, err = appendRange(st.index, f, int64(len(st.index)), min(size, info.Size))
	return err
}

// wholeFile as a limit of load means as much as the file has.
const wholeFile = -1

// load fills st with what the index file has, up to limit bytes.
func (l *Log) load(st *state, src *source, limit int64) (err error) {
	st.log, st.src, st.nodes = l, src, &l.nodes
	f, err := l.fs.Open(l.indexName())
	if errors.Is(err, fs.ErrNotExist) && limit <= 0 {
		st.setHeader(makeHeader(l.o.Inline, l.o.GeneralDelta))
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := l.attach(st, f, limit); err != nil {
		return err
	}
	return st.guard(st.parse)
}

// attach gives st the bytes of the index file, mapped or in memory.
func (l *Log) attach(st *state, f vfs.File, limit int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st.src.index = identityOf(info)
	size := info.Size
	if limit >= 0 {
		size = min(size, limit)
	}
	if !l.o.Mapped {
		st.index, err = appendRange(nil, f, 0, size)
		return err
	}
	st.src.mapping, err = f.Map(max(l.o.ReserveBytes, 2*size))
	if err != nil {
		return err
	}
	st.index = st.src.mapping.Bytes()[:size]
	return nil
}
