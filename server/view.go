package server

import (
	"cmp"
	"context"
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
	v, err := r.repo.View(ctx)
	if err != nil {
		return nil, err
	}
	return &view{View: v, repo: r}, nil
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

// Between implements wire.View.
func (v *view) Between(_ context.Context, pairs [][2]hg.Node) ([][]hg.Node, error) {
	out := make([][]hg.Node, len(pairs))
	for i, pair := range pairs {
		r, ok := v.Rev(pair[0])
		if !ok {
			return nil, &hg.UnknownRevision{Name: pair[0].String()}
		}
		next := 1
		for dist := 0; r != hg.NullRev && v.Changelog().Node(r) != pair[1]; dist++ {
			if dist == next {
				out[i] = append(out[i], v.Changelog().Node(r))
				next *= 2
			}
			r, _ = v.Parents(r)
		}
	}
	return out, nil
}

// Branches implements wire.View.
func (v *view) Branches(_ context.Context, nodes []hg.Node) ([][4]hg.Node, error) {
	out := make([][4]hg.Node, len(nodes))
	cl := v.Changelog()
	for i, n := range nodes {
		r, ok := v.Rev(n)
		if !ok {
			return nil, &hg.UnknownRevision{Name: n.String()}
		}
		for r != hg.NullRev {
			p1, p2 := v.Parents(r)
			if p2 != hg.NullRev || p1 == hg.NullRev {
				out[i] = [4]hg.Node{n, cl.Node(r), cl.Node(p1), cl.Node(p2)}
				break
			}
			r = p1
		}
		if r == hg.NullRev {
			out[i] = [4]hg.Node{n, n, hg.NullNode, hg.NullNode}
		}
	}
	return out, nil
}

// GetBundle implements wire.View.
func (v *view) GetBundle(ctx context.Context, args wire.GetBundleArgs, w *wire.Stream) error {
	return outgoing.GetBundle(ctx, v.View, outgoing.Args{
		Heads: args.Heads, Common: args.Common, Bundle2: args.Bundle2, Caps: args.Caps,
		Changegroup: args.Changegroup, Phases: args.Phases, Bookmarks: args.Bookmarks, ListKeys: args.ListKeys,
		Obsmarkers: args.Obsmarkers, Changegroup3: v.repo.changegroup3(), Publishing: v.repo.publishing(),
		Stream: args.Stream, StreamAllowed: v.streamAllowed(),
		Hooks: readHooks{v.repo},
	}, v.keyValues, w)
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

// streamAllowed tells whether the store's files may be sent as they are.
func (v *view) streamAllowed() bool {
	s, err := v.repo.settings()
	return err == nil && s.streamAllowed(v.View)
}

// CloneBundles implements wire.View.
func (v *view) CloneBundles(context.Context) ([]byte, error) { return v.repo.repo.CloneBundles() }
