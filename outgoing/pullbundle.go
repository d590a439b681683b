package outgoing

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/internal/vfs"
	"vcsd/store"
	"vcsd/wire/bundle2"
	"vcsd/wire/compression"
)

// pullBundlesName lists bundles that the people who run the server have put
// ready (hg help config.server, pullbundle). Each line has a file, relative to
// .hg, and attributes NAME=VALUE, quoted: heads and bases, nodes with semicolons
// between them, and BUNDLESPEC.
const pullBundlesName = "pullbundles.manifest"

// maxPullBundlesBytes bounds that list.
const maxPullBundlesBytes = 64 << 20

// A PullBundle is a bundle that was put ready, open.
type PullBundle struct {
	Bytes int64 // its size

	f vfs.File
}

// Close closes the file.
func (b *PullBundle) Close() error { return b.f.Close() }

// WriteTo writes the bundle, as it is.
func (b *PullBundle) WriteTo(w io.ReaderFrom) error {
	var r io.Reader = b.f
	if osFile := vfs.OSFile(b.f); osFile != nil {
		r = osFile
	}
	n, err := w.ReadFrom(io.LimitReader(r, b.Bytes))
	if err == nil && n != b.Bytes {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// FindPullBundle returns the first bundle of the list that fits a request for
// heads by a client that has common, as hg picks it; nil if there is none.
// decodes tells which compression the client knows. Bundles are named by
// people: whether they hold what is hidden is for these to see to.
func FindPullBundle(ctx context.Context, view *store.View, heads, common []hg.Node, decodes func(compression.Engine) bool) (*PullBundle, error) {
	fsys := view.Repo().FS()
	there, err := vfs.Exists(fsys, pullBundlesName)
	if err != nil || !there {
		return nil, err
	}
	list, err := vfs.ReadFile(fsys, pullBundlesName, maxPullBundlesBytes)
	if err != nil {
		return nil, err
	}
	m := pullBundleMatch{view: view, common: common, decodes: decodes}
	if m.wanted, err = resolve(view, heads); err != nil {
		return nil, err
	}
	m.has = dag.Ancestors(view, m.known(common))
	m.wants = dag.Ancestors(view, withoutNull(m.wanted))
	for line := range strings.Lines(string(list)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, ok := parsePullBundle(line)
		if !ok || !m.fits(&e) {
			continue
		}
		if b, err := openPullBundle(fsys, e.file); err == nil {
			return b, nil
		}
	}
	return nil, nil
}

func openPullBundle(fsys vfs.FS, name string) (*PullBundle, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode.IsRegular() {
		err = errors.New("not a file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &PullBundle{info.Size, f}, nil
}

// A pullBundleEntry is a line of the list.
type pullBundleEntry struct {
	file  string
	attrs map[string]string
}

// parsePullBundle reads a line; one that names no file below .hg says nothing.
func parsePullBundle(line string) (e pullBundleEntry, ok bool) {
	fields := strings.Fields(line)
	if len(fields) == 0 || strings.HasPrefix(fields[0], "/") || slices.Contains(strings.Split(fields[0], "/"), "..") {
		return e, false
	}
	e = pullBundleEntry{file: fields[0], attrs: make(map[string]string)}
	for _, f := range fields[1:] {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return e, false
		}
		e.attrs[bundle2.Unquote(key)] = bundle2.Unquote(value)
	}
	return e, true
}

// nodes reads an attribute that lists nodes; ok is false if it is malformed.
func (e *pullBundleEntry) nodes(key string) (nodes []hg.Node, there, ok bool) {
	list, there := e.attrs[key]
	if !there {
		return nil, false, true
	}
	for word := range strings.SplitSeq(list, ";") {
		n, err := hg.ParseNode(word)
		if err != nil {
			return nil, true, false
		}
		nodes = append(nodes, n)
	}
	return nodes, true, true
}

// specEngines are the compressions that a bundle's specification may name, and
// specV1 those that it may name with version 1.
var (
	specEngines = map[string]compression.Engine{
		"none": compression.None, "gzip": compression.Zlib, "bzip2": compression.Bzip2, "zstd": compression.Zstd,
	}
	specVersions = []string{"v1", "v2", "bundle2"}
)

// spec reads BUNDLESPEC, such as "zstd-v2;obsolescence=yes". ok is false if the
// bundle is of a kind that a pull can't be answered with.
func (e *pullBundleEntry) spec() (engine compression.Engine, given, ok bool) {
	text, given := e.attrs["BUNDLESPEC"]
	if !given {
		return 0, false, true
	}
	kind, params, _ := strings.Cut(text, ";")
	name, version, _ := strings.Cut(kind, "-")
	engine, ok = specEngines[name]
	if !ok || !slices.Contains(specVersions, version) || version == "v1" && engine == compression.Zstd {
		return 0, true, false
	}
	for p := range strings.SplitSeq(params, ";") {
		if params != "" && !strings.Contains(p, "=") {
			return 0, true, false
		}
	}
	return engine, true, true
}

// pullBundleMatch is what the bundles of a list are matched with.
type pullBundleMatch struct {
	view    *store.View
	wanted  []hg.Rev
	common  []hg.Node
	has     *dag.Set // changesets of the client
	wants   *dag.Set // that it wants, with ancestors
	decodes func(compression.Engine) bool
}

// known returns the revs of those nodes that are there, hidden or not.
func (m *pullBundleMatch) known(nodes []hg.Node) (revs []hg.Rev) {
	for _, n := range nodes {
		if r, ok := m.view.Changelog().Rev(n); ok && r != hg.NullRev {
			revs = append(revs, r)
		}
	}
	return revs
}

// fits tells whether a bundle has something new for the client, nothing that it
// doesn't want, and is based on what it has.
func (m *pullBundleMatch) fits(e *pullBundleEntry) bool {
	if engine, given, ok := e.spec(); !ok || given && !m.decodes(engine) {
		return false
	}
	heads, given, ok := e.nodes("heads")
	if !ok || given && !m.fitHeads(heads) {
		return false
	}
	bases, _, ok := e.nodes("bases")
	revs := m.known(bases)
	return ok && len(revs) == len(bases) && !slices.ContainsFunc(revs, func(r hg.Rev) bool { return !m.has.Has(r) })
}

func (m *pullBundleMatch) fitHeads(heads []hg.Node) bool {
	revs := m.known(heads)
	if len(revs) < len(heads) {
		return false
	}
	isNew := slices.ContainsFunc(revs, func(r hg.Rev) bool { return !m.has.Has(r) })
	unwanted := slices.ContainsFunc(revs, func(r hg.Rev) bool { return !m.wants.Has(r) && !m.has.Has(r) })
	return isNew && !unwanted
}
