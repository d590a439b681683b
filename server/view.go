package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"vcsd/hg"
	"vcsd/hook"
	"vcsd/internal/vfs"
	"vcsd/outgoing"
	"vcsd/store"
	"vcsd/wire"
	"vcsd/wire/bundle2"
	"vcsd/wire/obsmarker"
)

// View implements wire.Repo.
func (r *repository) View(ctx context.Context) (wire.View, error) {
	s, err := r.settings()
	if err != nil {
		return nil, err
	}
	v, err := r.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	return &view{View: v.As(s.sight), repo: r}, nil
}

// A view answers the reading commands of one request.
type view struct {
	*store.View
	repo *repository
}

// Close implements wire.View.
func (v *view) Close() error {
	v.View.Close()
	return nil
}

// Heads implements wire.View.
func (v *view) Heads(context.Context) ([]hg.Node, error) { return v.View.Heads(), nil }

// Known implements wire.View.
func (v *view) Known(_ context.Context, nodes []hg.Node) ([]bool, error) {
	known := make([]bool, len(nodes))
	for i, n := range nodes {
		_, known[i] = v.Rev(n)
	}
	return known, nil
}

// Lookup implements wire.View.
func (v *view) Lookup(ctx context.Context, key string) (hg.Node, error) {
	if key == "." {
		return v.workingParent()
	}
	return v.View.Lookup(ctx, key)
}

// workingParent returns the first parent of the working directory beside the
// repository, hidden or not as hg does; NullNode if nothing is checked out.
func (v *view) workingParent() (hg.Node, error) {
	parents, err := store.WorkingParents(vfs.NewOS(filepath.Join(v.repo.path, ".hg")))
	if err != nil || len(parents) == 0 {
		return hg.NullNode, err
	}
	if _, ok := v.Changelog().Rev(parents[0]); !ok {
		return hg.NullNode, nil // it was stripped away
	}
	return parents[0], nil
}

// BranchMap implements wire.View.
func (v *view) BranchMap(context.Context) ([]wire.Branch, error) {
	var out []wire.Branch
	for name, heads := range v.EachBranch() {
		b := wire.Branch{Name: name, Heads: make([]hg.Node, len(heads))}
		for i, r := range heads {
			b.Heads[i] = v.Changelog().Node(r)
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b wire.Branch) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// ListKeys implements wire.View.
func (v *view) ListKeys(ctx context.Context, namespace string) (map[string]string, error) {
	err := v.repo.readHook(ctx, hook.PreListkeys, func() hook.Vars { return hook.Namespace(namespace) })
	if err != nil {
		return nil, err
	}
	keys := v.keys(namespace)
	return keys, v.repo.readHook(ctx, hook.Listkeys, func() hook.Vars { return hook.Values(namespace, keys) })
}

func (v *view) keys(namespace string) map[string]string {
	keys := make(map[string]string)
	switch namespace {
	case "namespaces":
		for _, ns := range v.repo.namespaces() {
			keys[ns] = ""
		}
	case "bookmarks":
		for _, m := range outgoing.VisibleBookmarks(v.View) {
			keys[m.Name] = m.Node.String()
		}
	case "phases":
		v.listPhases(keys)
	case "obsolete":
		return obsmarker.PushKeys(v.ObsStore().Markers())
	}
	return keys
}

// listPhases adds the roots of the drafts. Hidden ones are among them, as in
// hg: a client may have got them before they were hidden.
func (v *view) listPhases(keys map[string]string) {
	for _, r := range v.DraftRoots() {
		keys[v.Changelog().Node(r).String()] = strconv.Itoa(int(hg.Draft))
	}
	if v.repo.publishing() {
		keys["publishing"] = "True"
	}
}

// namespaces are those of pushkey that clients are told of.
func (r *repository) namespaces() []string {
	names := []string{"bookmarks", "namespaces", "phases"}
	if s, err := r.settings(); err == nil && s.exchange.Obsmarkers {
		names = append(names, "obsolete")
	}
	return names
}

// GetBundle implements wire.View.
func (v *view) GetBundle(ctx context.Context, args wire.GetBundleArgs, w *wire.Stream) error {
	s, err := v.repo.settings()
	if err != nil {
		return err
	}
	q := outgoing.Pull{View: v.View, Keys: v.keyValues, Prepared: v.repo.prepared, Args: outgoing.Args{
		Heads: args.Heads, Common: args.Common, Bundle2: args.Bundle2, Caps: args.Caps,
		Changegroup: args.Changegroup, Phases: args.Phases, Bookmarks: args.Bookmarks, ListKeys: args.ListKeys,
		Publishing: s.exchange.Publish, Stream: args.Stream, StreamAllowed: s.streamAllowed(v.View),
		Hooks: readHooks{v.repo}, Obsmarkers: args.Obsmarkers, Changegroup3: s.exchange.Changegroup3,
		// hg pull asks for phases, and hg incoming, which takes one changegroup
		// only, doesn't. Clients that ask again after a part of an answer are new
		// enough.
		Several: args.PartialPull && (args.Phases || len(args.ListKeys) > 0),
	}}
	// What a local hg committed is seen here first.
	if v.repo.seen.Swap(v.State()) != v.State() {
		v.repo.maker.poke(v.repo)
	}
	return v.repo.pulls.Answer(ctx, q, w)
}

// PullBundle implements wire.View.
func (v *view) PullBundle(ctx context.Context, args wire.GetBundleArgs, w *wire.Stream) (served bool, err error) {
	f, err := outgoing.FindPullBundle(ctx, v.View, args.Heads, args.Common, w.Decodes)
	if f == nil || err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w.Uncompressed()
	w.SetSize(f.Bytes)
	return true, f.WriteTo(w)
}

// keyValues lists a namespace in a fixed order.
func (v *view) keyValues(ctx context.Context, namespace string) ([]bundle2.KeyValue, error) {
	keys, err := v.ListKeys(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var pairs []bundle2.KeyValue
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		pairs = append(pairs, bundle2.KeyValue{Key: k, Value: keys[k]})
	}
	return pairs, nil
}

// Changegroup implements wire.View.
func (v *view) Changegroup(ctx context.Context, roots, heads []hg.Node, w *wire.Stream) error {
	return outgoing.Changegroup(ctx, v.View, roots, heads, readHooks{v.repo}, w)
}

// StreamOut implements wire.View.
func (v *view) StreamOut(ctx context.Context, w *wire.Stream) error {
	return outgoing.StreamV1(ctx, v.View, w)
}

// CloneBundles implements wire.View.
func (v *view) CloneBundles(context.Context) ([]byte, error) { return v.repo.repo.CloneBundles() }
