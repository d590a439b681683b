package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/refs"
	"vcsd/revlog"
	"vcsd/store"
)

// Options tell how much is checked, and who is told. The zero value checks
// everything on the disk.
type Options struct {
	// Sample is how many revisions of each log are read, drawn at random; 0
	// means all. Indexes are checked whole. What is in no manifest can't be told
	// from a sample.
	Sample int
	// Seed makes the draw: the same seed draws the same revisions of a log.
	Seed uint64
	// Report is told each finding at once. nil means that they are counted.
	Report func(Finding)
	// Progress is told now and then how far a stage is. nil means nobody is.
	Progress func(Progress)
	// MaxNames is how many file revisions may be held by name, at some 60 bytes
	// each. 0 means 4 million.
	MaxNames int
	// Refs is the coordination service, to which the repository is known as
	// RepoID. nil means that it is left out.
	Refs   Refs
	RepoID refs.RepoID
	// BootID names this run of the machine; see ingest.BootID. Without it the
	// journal is compared up to the checkpoint.
	BootID string
}

// Progress tells how far a stage is.
type Progress struct {
	Stage       string // "changesets", "manifests", "files" or "records"
	Done, Total int
	Rate        float64 // of the stage, in things a second
}

// Counts are what was looked at.
type Counts struct {
	Changesets, Manifests int
	FileRevisions, Files  int
	Records               int   // of the journal
	Bytes                 int64 // of texts that were rebuilt
	Findings              int
	Notes                 []string // what could not be checked, and why
	Took                  time.Duration
	Complete              bool // not a sample
}

// ErrChanged means that another program rewrote the repository meanwhile, such
// as a local hg strip, so that nothing can be said.
var ErrChanged = errors.New("the repository was rewritten while it was verified; run it again")

// defaultMaxNames is what Options.MaxNames means by default.
const defaultMaxNames = 4 << 20

// Run verifies the repository whose .hg directory, the one with the store, is
// the root of fsys. Findings are no error: one is a reason for which it could
// not be verified.
func Run(ctx context.Context, fsys vfs.FS, o Options) (c Counts, err error) {
	if o.MaxNames == 0 {
		o.MaxNames = defaultMaxNames
	}
	began := time.Now()
	v := &verifier{ctx: ctx, fs: fsys, o: o, seed: maphash.MakeSeed()}
	v.counts.Complete = o.Sample == 0
	if v.reqs, err = store.ReadRequirements(fsys); err != nil {
		return c, err
	}
	v.enc = v.reqs.Encoder()
	// The mapped indexes may be cut by a local hg.
	if fault := vfs.Guard(func() { err = v.run() }); fault != nil {
		err = fmt.Errorf("%w: %w", ErrChanged, fault)
	}
	v.counts.Took = time.Since(began)
	return v.counts, err
}

// A verifier is one run. It belongs to one goroutine.
type verifier struct {
	ctx  context.Context // of Run
	fs   vfs.FS
	o    Options
	reqs store.Requirements
	enc  store.Encoder
	seed maphash.Seed

	counts Counts
	told   time.Time // when Progress was called last
	stage  string    // that is under way
	since  time.Time // when it began

	changelog, manifest *log // nil: can't be read
	n                   int  // changesets that are looked at

	// manifestOf is the revision of each changeset's manifest, or one of the
	// values below.
	manifestOf []hg.Rev
	// badChangesets and badManifests tell that some could not be read, so that
	// what is missing elsewhere may be named there.
	badChangesets, badManifests bool

	listing *listing // nil: can't be read
	source  *log     // copy source that was opened last

	hurried bool // somebody held the lock for too long; nobody is waited for any more
}

// What manifestOf holds beside revisions; NullRev is the empty manifest.
const (
	manifestUnknown hg.Rev = -2 // the changeset can't be read
	manifestMissing hg.Rev = -3 // it names one that is not there
)

// run goes through everything.
//
// Order: what is written after the changelog is read before it; what is written
// before, after it.
func (v *verifier) run() error {
	small, err := v.readSmall()
	if err != nil {
		return err
	}
	if err := v.checkTransaction(); err != nil {
		return err
	}
	if err := v.openLogs(); err != nil {
		return err
	}
	defer v.close()
	for _, step := range []func() error{
		v.openListing, v.checkRevisions, func() error { return v.checkSmall(small) }, v.checkJournal, v.checkUnchanged,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return v.ctx.Err()
}

func (v *verifier) close() {
	for _, l := range []*log{v.changelog, v.manifest, v.source} {
		l.close()
	}
}

// openLogs opens changelog and manifest and checks their indexes.
func (v *verifier) openLogs() error {
	v.changelog = v.openMapped("store/00changelog")
	v.manifest = v.openMapped("store/00manifest")
	if v.changelog != nil {
		v.n = v.changelog.snap.Len()
	}
	for _, l := range []*log{v.changelog, v.manifest} {
		if l == nil {
			continue
		}
		if err := l.checkIndex(); err != nil {
			return err
		}
	}
	return v.checkNotEmpty()
}

// checkNotEmpty reports an empty changelog where there are manifests.
func (v *verifier) checkNotEmpty() error {
	if v.changelog == nil || v.manifest == nil || v.n > 0 || v.manifest.snap.Len() == 0 {
		return nil
	}
	pushed, err := v.settle(func() (bool, error) { return v.changesetsNow() > 0, nil })
	if err == nil && !pushed {
		v.changelog.report(hg.NullRev, remedyRestore, "empty or missing, though there are %d manifests", v.manifest.snap.Len())
		v.changelog.close()
		v.changelog = nil
	}
	return err
}

func (v *verifier) openMapped(radix string) *log {
	l := &log{v: v, radix: radix, index: radix + ".i", data: radix + ".d", mapped: true}
	if !l.open() {
		return nil
	}
	return l
}

// checkUnchanged makes sure that the changesets that were looked at still stand.
func (v *verifier) checkUnchanged() (err error) {
	if v.n == 0 {
		return nil
	}
	last := hg.Rev(v.n - 1)
	v.changelogNow(func(s *revlog.Snapshot) {
		if s.Len() < v.n || s.Node(last) != v.changelog.snap.Node(last) {
			err = ErrChanged
		}
	})
	return err
}

// pick returns the revisions of a log to be read, ascending.
func (v *verifier) pick(name string, n int) []hg.Rev {
	if v.o.Sample == 0 || n <= v.o.Sample {
		all := make([]hg.Rev, n)
		for r := range all {
			all[r] = hg.Rev(r)
		}
		return all
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	draw := rand.New(rand.NewPCG(v.o.Seed, h.Sum64()))
	revs := make(map[hg.Rev]struct{}, v.o.Sample)
	for len(revs) < v.o.Sample {
		revs[hg.Rev(draw.IntN(n))] = struct{}{}
	}
	return slices.Sorted(maps.Keys(revs))
}

// progressEvery is how often Progress is called at most.
const progressEvery = 5 * time.Second

// step is called for each thing that is looked at. It ends the run with ctx.
func (v *verifier) step(stage string, done, total int) error {
	if done%64 != 0 {
		return nil
	}
	now := time.Now()
	if stage != v.stage || done == 0 {
		v.stage, v.since, v.told = stage, now, now
	}
	if v.o.Progress != nil && now.Sub(v.told) >= progressEvery {
		v.told = now
		v.o.Progress(Progress{stage, done, total, float64(done) / now.Sub(v.since).Seconds()})
	}
	return v.ctx.Err()
}

// note tells what could not be checked.
func (v *verifier) note(format string, args ...any) {
	v.counts.Notes = append(v.counts.Notes, fmt.Sprintf(format, args...))
}

const (
	// settlePause is how long to wait before something is looked at again.
	settlePause = 10 * time.Millisecond
	// settleLooks is how often something must be wrong with nobody writing.
	settleLooks = 3
	// settleTime is how long somebody may hold the lock.
	settleTime = 30 * time.Second
)

// settle tells whether ok holds, now or once nobody writes to the store any
// more.
func (v *verifier) settle(ok func() (bool, error)) (bool, error) {
	end := time.Now().Add(settleTime)
	for quiet := 0; ; {
		free, err := v.free()
		if err != nil {
			return false, err
		}
		good, err := ok()
		if good || err != nil {
			return good, err
		}
		still, err := v.free()
		if err != nil {
			return false, err
		}
		if free && still {
			quiet++
		}
		if quiet == settleLooks || v.hurried {
			return false, nil
		}
		if time.Now().After(end) {
			v.hurried = true
			v.note("somebody holds the store's lock: what is being written may be reported as damage")
			return false, nil
		}
		select {
		case <-time.After(settlePause):
		case <-v.ctx.Done():
			return false, v.ctx.Err()
		}
	}
}

// free tells whether nobody holds the store's lock, which is a link to nowhere.
func (v *verifier) free() (bool, error) {
	_, err := v.fs.Lstat(store.LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
