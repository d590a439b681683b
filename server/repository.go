package server

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"vcsd/config"
	"vcsd/hg"
	"vcsd/hook"
	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/refs"
	"vcsd/store"
)

// A repository is one that this process serves. It is opened when first asked
// for and stays open.
type repository struct {
	path string // of its working directory, absolute
	repo *store.Repo
	conf *repoConf
	log  *slog.Logger

	admission *admission // of the process
	counters  *counters  // of the process

	// pipeline takes its pushes; nil if it can't, for the reason readOnly.
	pipeline *ingest.Pipeline
	readOnly error
}

// A registry opens repositories and keeps them.
type registry struct {
	refs     refs.Store
	loader   *config.Loader
	conf     *config.Config // of the server as a whole
	log      *slog.Logger
	filelogs *store.FilelogCache
	limits   ingest.Limits
	hooks    hook.Options // how they are run
	admit    *admission
	counters *counters
	node     string
	bootID   string

	mu    sync.Mutex
	open  map[string]*opening // by path; guarded by mu
	ended bool                // guarded by mu
}

// An opening is a repository that is open or about to be.
type opening struct {
	done chan struct{} // closed when repo or err is set
	repo *repository
	err  error
	dir  vfs.Info // of .hg when it was opened

	opened time.Time // set before done is closed
}

// get returns the repository at path, which is absolute. What is no
// repository is fs.ErrNotExist.
func (g *registry) get(ctx context.Context, path string) (*repository, error) {
	info, err := vfs.NewOS(path).Stat(".hg")
	if err != nil {
		return nil, err
	}
	o, mine, err := g.claim(path, info)
	if err != nil {
		return nil, err
	}
	if mine {
		g.fill(context.WithoutCancel(ctx), path, o)
	}
	select {
	case <-o.done:
		return o.repo, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fill opens the repository that o was claimed for.
func (g *registry) fill(ctx context.Context, path string, o *opening) {
	o.err = hg.ErrUnavailable // should opening it panic
	defer func() {
		if o.err != nil {
			g.drop(path, o)
		}
		close(o.done)
	}()
	o.repo, o.err = g.openRepository(ctx, path)
	o.opened = time.Now()
}

// reopenAfter is how long a repository refuses pushes for a reason that may
// pass, such as etcd being away, before it is opened anew.
const reopenAfter = 5 * time.Second

// stale tells whether it is worth the try to open a repository anew: it takes
// no pushes, and that need not stay so.
func (o *opening) stale() bool {
	select {
	case <-o.done:
	default:
		return false
	}
	r := o.repo
	return r != nil && r.pipeline == nil && !errors.Is(r.readOnly, hg.ErrReadOnly) && time.Since(o.opened) > reopenAfter
}

// claim returns the opening of a path, and whether the caller has to open it.
// A directory that was replaced is opened anew.
func (g *registry) claim(path string, info vfs.Info) (o *opening, mine bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, false, hg.ErrUnavailable
	}
	if o, ok := g.open[path]; ok && o.dir.Ino == info.Ino && o.dir.Dev == info.Dev && !o.stale() {
		return o, false, nil
	}
	old := g.open[path]
	o = &opening{done: make(chan struct{}), dir: info}
	g.open[path] = o
	if old != nil {
		go old.close(g.log)
	}
	return o, true, nil
}

func (g *registry) drop(path string, o *opening) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[path] == o {
		delete(g.open, path)
	}
}

// close ends all pipelines and closes all repositories.
func (g *registry) close() error {
	g.mu.Lock()
	g.ended = true
	all := g.open
	g.open = nil
	g.mu.Unlock()
	var wg sync.WaitGroup
	for _, o := range all {
		wg.Go(func() { o.close(g.log) })
	}
	wg.Wait()
	return nil
}

func (o *opening) close(log *slog.Logger) {
	<-o.done
	if o.repo == nil {
		return
	}
	var err error
	if o.repo.pipeline != nil {
		err = errors.Join(o.repo.pipeline.Close(), o.repo.repo.SaveBranches(true))
	}
	if err = errors.Join(err, o.repo.repo.Close()); err != nil {
		log.Error("repository not closed in order", "repo", o.repo.path, "error", err)
	}
}

func (g *registry) openRepository(ctx context.Context, path string) (*repository, error) {
	dir := filepath.Join(path, ".hg")
	storeDir, shared, err := storeOf(dir)
	if err != nil {
		return nil, err
	}
	r := &repository{path: path, log: g.log.With("repo", path), admission: g.admit, counters: g.counters}
	if r.conf, err = g.repoConf(dir, shared, r.log); err != nil {
		return nil, err
	}
	fsys := vfs.NewOS(storeDir)
	// Before anybody reads the store: a power cut may have left it in pieces.
	options, perr := g.pipelineOptions(ctx, r, fsys, storeDir)
	if perr == nil {
		perr = ingest.Recover(ctx, fsys, options)
	}
	if r.repo, err = store.Open(fsys, store.Options{Filelogs: g.filelogs, Key: storeDir}); err != nil {
		return nil, errors.Join(err, perr)
	}
	if perr == nil {
		r.pipeline, perr = ingest.Open(ctx, r.repo, options)
	}
	if err := perr; err != nil {
		r.readOnly = readOnlyReason(err)
		g.log.WarnContext(ctx, "repository takes no pushes", "repo", path, "error", err)
	}
	return r, nil
}

// storeOf returns the .hg directory that has the store of the repository whose
// .hg is dir, and the one whose hgrc counts for both, if there is one.
func storeOf(dir string) (storeDir, shared string, err error) {
	reqs, err := store.ReadRequirements(vfs.NewOS(dir))
	if err != nil {
		return "", "", err
	}
	if !reqs.Shared {
		return dir, "", nil
	}
	if storeDir = reqs.Store; !filepath.IsAbs(storeDir) {
		storeDir = filepath.Join(dir, storeDir)
	}
	if reqs.ShareSafe {
		shared = storeDir
	}
	return storeDir, shared, nil
}

// publishing tells whether what is pushed becomes public, as it does unless
// the configuration says otherwise.
func (r *repository) publishing() bool {
	s, err := r.conf.get()
	if err != nil {
		return true
	}
	return s.exchange.Publish
}

// changegroup3 tells whether bundles may have changegroups of version 03.
func (r *repository) changegroup3() bool {
	s, err := r.conf.get()
	return err == nil && s.exchange.Changegroup3
}

// policy returns what the configuration says on pushes; what hg does by
// default while it can't be read.
func (r *repository) policy() ingest.Policy {
	s, err := r.conf.get()
	if err != nil {
		return ingest.Policy{Publishing: true}
	}
	e := &s.exchange
	return ingest.Policy{
		Publishing: e.Publish, Markers: e.CreateMarkers, ReportInstabilities: e.Instabilities,
		SingleHead: ingest.SingleHead{Enabled: e.SingleHead, PublicOnly: e.SingleHeadPublicOnly, Closed: e.SingleHeadClosed},
	}
}

// readOnlyReason is what a client is told of a repository without pipeline.
func readOnlyReason(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return hg.ErrReadOnly
	}
	return &unavailableError{err}
}

// An unavailableError is hg.ErrUnavailable to clients, who are not told the
// cause unless it is a sentence for them.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string { return hg.ErrUnavailable.Error() }

// Unwrap returns what clients are told, and the cause.
func (e *unavailableError) Unwrap() []error { return []error{hg.ErrUnavailable, e.cause} }

func (g *registry) pipelineOptions(ctx context.Context, r *repository, fsys vfs.FS, storeDir string) (ingest.Options, error) {
	id, err := repositoryID(ctx, fsys)
	return ingest.Options{
		Refs: g.refs, RepoID: id, Node: g.node, Log: r.log,
		BootID: g.bootID, Limits: g.limits, Policy: r.policy,
		Hooks: r.pushHooks, Root: r.path, StoreDir: storeDir,
	}, err
}

// setAside moves what a copied repository tells of the original's pushes to a
// directory of its own. Nothing of it is deleted: should the repository be no
// copy after all, its records are still there.
func setAside(fsys vfs.FS, dir string) error {
	for _, name := range []string{"journal", "applied", "linked", "id"} {
		switch _, err := fsys.Lstat("vcsd/" + name); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		}
		if err := fsys.MkdirAll("vcsd/" + dir); err != nil {
			return err
		}
		if err := fsys.Rename("vcsd/"+name, "vcsd/"+dir+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// idPath holds the repository's UUID and the inode of the directory it was made
// in: a copy of a repository is another repository. The number of the device
// says nothing, as it may change when the machine starts again.
const idPath = "vcsd/id"

// repositoryID returns the name of a repository in etcd, and makes one for a
// repository that has none, or that is a copy.
func repositoryID(ctx context.Context, fsys vfs.FS) (refs.RepoID, error) {
	if err := fsys.MkdirAll("vcsd"); err != nil {
		return "", err
	}
	if id, ok, err := readID(fsys); ok || err != nil {
		return id, err
	}
	unlock, err := store.Lock(ctx, fsys, store.LockName)
	if err != nil {
		return "", err
	}
	id, err := makeID(fsys)
	return id, errors.Join(err, unlock())
}

// readID reads the id; ok is false if it has to be made.
func readID(fsys vfs.FS) (id refs.RepoID, ok bool, err error) {
	place, err := idPlace(fsys)
	if err != nil {
		return "", false, err
	}
	b, err := vfs.ReadFile(fsys, idPath, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	name, at, found := strings.Cut(strings.TrimSpace(string(b)), " ")
	return refs.RepoID(name), found && at == place, err
}

func idPlace(fsys vfs.FS) (string, error) {
	dir, err := fsys.Stat("vcsd")
	return strconv.FormatUint(dir.Ino, 10), err
}

// makeID gives the repository an id, unless somebody else just did. The caller
// holds the store's lock.
func makeID(fsys vfs.FS) (refs.RepoID, error) {
	if id, ok, err := readID(fsys); ok || err != nil {
		return id, err
	}
	id := uuid.NewString()
	if err := setAside(fsys, "before-"+id); err != nil {
		return "", err
	}
	place, err := idPlace(fsys)
	if err != nil {
		return "", err
	}
	return refs.RepoID(id), vfs.WriteAtomic(fsys, idPath, []byte(id+" "+place+"\n"), true)
}
