package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/google/uuid"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/outgoing"
	"vcsd/refs"
	"vcsd/store"
)

// A repository is one that this process serves; see registry.
type repository struct {
	path    string // of its working directory, absolute
	repo    *store.Repo
	configs *configs // of the process
	log     *slog.Logger

	admission *admission      // of the process
	counters  *counters       // of the process
	pulls     *outgoing.Pulls // of the process
	maker     *bundleMaker    // of the process; nil: no bundles are made ahead

	// prepared are the bundles made ahead; nil without a maker.
	prepared *outgoing.Prepared
	seen     atomic.Uint64 // State of the View that was pulled from last

	// pipeline takes its pushes; nil if it can't, for the reason readOnly.
	pipeline *ingest.Pipeline
	readOnly error
}

func (g *registry) openRepository(ctx context.Context, path string) (*repository, error) {
	storeDir, _, err := storeOf(filepath.Join(path, ".hg"))
	if err != nil {
		return nil, err
	}
	r := &repository{path: path, log: g.log.With("repo", path), configs: g.configs, admission: g.admit, counters: g.counters, pulls: g.pulls, maker: g.maker}
	fsys := vfs.NewOS(storeDir)
	// Before anybody reads the store: a power cut may have left it in pieces.
	options, perr := g.pipelineOptions(ctx, r, fsys, storeDir)
	if perr == nil {
		perr = ingest.Recover(ctx, fsys, options)
	}
	if incomplete := (*ingest.IncompleteError)(nil); errors.As(perr, &incomplete) {
		r.log.WarnContext(ctx, "repository not opened", "error", perr)
		return nil, perr
	}
	if r.repo, err = store.Open(fsys, store.Options{Filelogs: g.filelogs, Key: storeDir}); err != nil {
		return nil, errors.Join(err, perr)
	}
	if g.maker != nil {
		r.prepared = outgoing.NewPrepared(fsys)
	}
	if perr == nil {
		r.pipeline, perr = ingest.Open(ctx, r.repo, options)
	}
	r.maker.poke(r)
	if err := perr; err != nil {
		r.readOnly = readOnlyReason(err)
		g.log.WarnContext(ctx, "repository takes no pushes", "repo", path, "error", cmp.Or(ingest.Cause(err), err))
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

// settings returns those of the repository as its files are now.
func (r *repository) settings() (*settings, error) { return r.configs.repository(r.path) }

// publishing tells whether what is pushed becomes public, as it does unless
// the configuration says otherwise.
func (r *repository) publishing() bool {
	s, err := r.settings()
	if err != nil {
		return true
	}
	return s.exchange.Publish
}

// policy returns what the configuration says on pushes; what hg does by
// default while it can't be read.
func (r *repository) policy() ingest.Policy {
	s, err := r.settings()
	if err != nil {
		return ingest.Policy{Publishing: true}
	}
	e := &s.exchange
	return ingest.Policy{
		Sight: s.sight, Publishing: e.Publish, Markers: e.CreateMarkers, ReportInstabilities: e.Instabilities,
		SingleHead: ingest.SingleHead{Enabled: e.SingleHead, PublicOnly: e.SingleHeadPublicOnly, Closed: e.SingleHeadClosed},
	}
}

// readOnlyReason is what a client is told of a repository without pipeline.
func readOnlyReason(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return hg.ErrReadOnly
	}
	if abort := (*hg.Abort)(nil); errors.As(err, &abort) {
		return err
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
