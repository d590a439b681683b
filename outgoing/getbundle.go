package outgoing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/obsmarker"
)

// Args are what a client asks of getbundle (hg help internals.wireprotocol).
type Args struct {
	// Heads are the changesets wanted, with ancestors; nil means all visible
	// heads. One that is not visible is an *hg.UnknownRevision.
	Heads []hg.Node
	// Common are changesets that the client has, with ancestors. Those that
	// are not visible count for nothing.
	Common []hg.Node
	// Bundle2 asks for a bundle2; Caps are what the client can read in one.
	// Without it the answer is a bare changegroup 01.
	Bundle2 bool
	Caps    map[string][]string

	Changegroup  bool     // changesets, manifests and files
	Changegroup3 bool     // may be of version 03
	Phases       bool     // a phase-heads part
	Bookmarks    bool     // a bookmarks part
	Obsmarkers   bool     // an obsmarkers part, if there are any for the client
	ListKeys     []string // namespaces, a listkeys part each

	// Stream asks for a stream2 part. StreamAllowed tells whether the server
	// gives one.
	Stream, StreamAllowed bool

	Publishing bool // phases.publish of the repository

	// Several tells that the client takes more than one changegroup in a
	// bundle, as hg does when it pulls, and not for hg incoming.
	Several bool

	Hooks Hooks // may be nil
}

// Hooks hear of changesets that are sent.
type Hooks interface {
	// Before comes before a changegroup. Its error refuses it.
	Before(ctx context.Context) error
	// After comes after a changegroup, if it had any changeset, with the first.
	After(ctx context.Context, first hg.Node)
}

// sendGroup calls send between the hooks.
func sendGroup(ctx context.Context, h Hooks, sel *selection, send func() error) error {
	if h == nil {
		return send()
	}
	if err := h.Before(ctx); err != nil {
		return err
	}
	err := send()
	if err == nil && len(sel.revs) > 0 {
		h.After(ctx, sel.view.Changelog().Node(sel.revs[0]))
	}
	return err
}

// A KeyLister returns a pushkey namespace, its keys in the order to send.
type KeyLister func(ctx context.Context, namespace string) ([]bundle2.KeyValue, error)

// GetBundle writes what a client asks for. Errors before the first byte are
// hg's; a later one is sent inside the bundle, where there is a way to, and
// returned.
func GetBundle(ctx context.Context, view *store.View, a Args, keys KeyLister, w io.Writer) error {
	if err := a.check(); err != nil {
		return err
	}
	if err := a.checkStream(view); err != nil {
		return err
	}
	sel, heads, err := a.selection(view)
	if err != nil {
		return err
	}
	return a.betweenHooks(ctx, sel, func() error {
		b, err := a.newWriter(ctx, sel, heads, keys)
		if err != nil {
			return err
		}
		return b.writeTo(ctx, w)
	})
}

// betweenHooks calls send between the hooks, if there is a changegroup to send.
func (a *Args) betweenHooks(ctx context.Context, sel *selection, send func() error) error {
	if a.Bundle2 && len(sel.revs) == 0 {
		return send()
	}
	return sendGroup(ctx, a.Hooks, sel, send)
}

// newWriter returns what will write the answer. It does all that the answer may
// be refused for.
func (a *Args) newWriter(ctx context.Context, sel *selection, heads []hg.Rev, keys KeyLister) (*bundleWriter, error) {
	b := &bundleWriter{view: sel.view, sel: sel, heads: heads, args: *a}
	if !a.Bundle2 {
		return b, nil
	}
	if err := b.readKeys(ctx, keys); err != nil {
		return nil, err
	}
	return b, b.findMarkers()
}

// check refuses what the client could not read, in hg's words.
func (a *Args) check() error {
	if !a.Bundle2 {
		return nil
	}
	if len(a.Caps) == 0 {
		// The client names no kind of part, not even that of changesets.
		a.Changegroup = false
	}
	if a.Changegroup {
		if _, err := a.version(); err != nil {
			return err
		}
	}
	if a.Stream && !a.StreamAllowed {
		return &hg.Abort{Message: "stream data requested but server does not allow this feature",
			Hint: "well-behaved clients should not be requesting stream data from servers not advertising it; the client may be buggy"}
	}
	if _, ok := a.Caps["bookmarks"]; a.Bookmarks && !ok {
		return hg.Abortf("no common bookmarks exchange method")
	}
	if a.Phases && !slices.Contains(a.Caps["phases"], "heads") {
		return hg.Abortf("no common phases exchange method")
	}
	return nil
}

// checkStream refuses a stream clone to who could not read the markers, and
// would see what they hide.
func (a *Args) checkStream(view *store.View) error {
	if !a.Stream || !a.Bundle2 || !view.HasMarkers() {
		return nil
	}
	if slices.Contains(a.Caps["obsmarkers"], fmt.Sprintf("V%d", view.MarkerVersion())) {
		return nil
	}
	return hg.Abortf("server has obsolescence markers, but client cannot receive them via stream clone")
}

// selection resolves heads and common.
func (a *Args) selection(view *store.View) (*selection, []hg.Rev, error) {
	var common []hg.Rev
	for _, n := range a.Common {
		if r, ok := view.Rev(n); ok && r != hg.NullRev {
			common = append(common, r)
		}
	}
	heads := view.HeadRevs()
	if a.Heads != nil && (a.Changegroup || a.Phases || a.Obsmarkers) {
		var err error
		if heads, err = resolve(view, a.Heads); err != nil {
			return nil, nil, err
		}
	}
	if !a.Changegroup {
		return newSelection(view, nil, nil), heads, nil
	}
	return newSelection(view, common, withoutNull(heads)), heads, nil
}

// bundleWriter writes one bundle: a bundle2 of several parts, or a bare
// changegroup.
type bundleWriter struct {
	view  *store.View
	sel   *selection
	heads []hg.Rev
	args  Args
	keys  [][]bundle2.KeyValue // beside args.ListKeys
	out   *bundle2.Writer

	markers       []obsmarker.Marker // to send
	markerVersion byte
}

// on returns a writer of the same bundle that reads another View of the same
// state.
func (b *bundleWriter) on(view *store.View) *bundleWriter {
	c := *b
	c.view, c.sel = view, b.sel.on(view)
	return &c
}

// writeTo writes the bundle.
func (b *bundleWriter) writeTo(ctx context.Context, w io.Writer) (err error) {
	if !b.args.Bundle2 {
		return writeChangegroup(ctx, b.sel, changegroup.NewWriter(w, changegroup.V01), changegroup.V01)
	}
	if b.out, err = bundle2.NewWriter(w, bundle2.WriterOptions{}); err != nil {
		return err
	}
	return b.write(ctx)
}

// write writes all parts and ends the bundle.
func (b *bundleWriter) write(ctx context.Context) error {
	if b.args.Stream {
		if err := b.stream(ctx); err != nil {
			return err
		}
	}
	if len(b.sel.revs) > 0 {
		if err := b.changegroup(ctx); err != nil {
			return err
		}
	}
	if b.args.Bookmarks {
		if err := b.bookmarks(); err != nil {
			return err
		}
	}
	for i, ns := range b.args.ListKeys {
		if err := b.listKeys(ns, b.keys[i]); err != nil {
			return err
		}
	}
	if len(b.markers) > 0 {
		if err := b.obsmarkers(); err != nil {
			return err
		}
	}
	if b.args.Phases {
		if err := b.phaseHeads(); err != nil {
			return err
		}
	}
	if b.args.Changegroup {
		if err := b.caches(); err != nil {
			return err
		}
	}
	return b.out.Close()
}

// version picks the newest changegroup that both sides know. Clients that know
// only one name none.
func (a *Args) version() (changegroup.Version, error) {
	offered := a.Caps["changegroup"]
	if len(offered) == 0 {
		return changegroup.V01, nil
	}
	for _, v := range []changegroup.Version{changegroup.V03, changegroup.V02, changegroup.V01} {
		if slices.Contains(offered, v.String()) && (v != changegroup.V03 || a.Changegroup3) {
			return v, nil
		}
	}
	return 0, hg.Abortf("no common changegroup version")
}

func (b *bundleWriter) changegroup(ctx context.Context) error {
	v, err := b.args.version()
	if err != nil {
		return err
	}
	var params []bundle2.Param
	if len(b.args.Caps["changegroup"]) > 0 {
		params = bundle2.Mandatory("version", v.String())
	}
	params = append(params, bundle2.Advisory("nbchanges", strconv.Itoa(len(b.sel.revs)))...)
	part, err := b.out.Part("changegroup", true, params...)
	if err != nil {
		return err
	}
	return b.finishPart(part, writeChangegroup(ctx, b.sel, changegroup.NewWriter(part, v), v))
}

// finishPart ends a part whose payload was written, or tells the client that
// err kept it from being: it must not take what it has for the whole.
func (b *bundleWriter) finishPart(part *bundle2.PartWriter, err error) error {
	if err == nil {
		return part.Close()
	}
	if abortErr := part.Abort(&hg.Abort{Message: message(err)}); abortErr != nil {
		return fmt.Errorf("%w (not told to the client: %w)", err, abortErr)
	}
	return wire.Answered(err)
}

// message is what a client is told of an error in the middle of a bundle.
func message(err error) string {
	text, _, _ := wire.Explain(err)
	return text
}

func (b *bundleWriter) bookmarks() error {
	payload, err := bundle2.AppendBookmarks(nil, VisibleBookmarks(b.view))
	if err != nil || len(payload) == 0 {
		return err
	}
	_, err = b.out.WritePart("bookmarks", true, payload)
	return err
}

// VisibleBookmarks returns the bookmarks that clients may see, by name.
func VisibleBookmarks(view *store.View) []bundle2.Bookmark {
	var marks []bundle2.Bookmark
	for name, n := range view.Bookmarks() {
		if _, ok := view.Rev(n); ok && !store.IsDivergent(name) {
			marks = append(marks, bundle2.Bookmark{Name: name, Node: n})
		}
	}
	slices.SortFunc(marks, func(a, b bundle2.Bookmark) int { return cmp.Compare(a.Name, b.Name) })
	return marks
}

func (b *bundleWriter) readKeys(ctx context.Context, keys KeyLister) error {
	for _, ns := range b.args.ListKeys {
		pairs, err := keys(ctx, ns)
		if err != nil {
			return err
		}
		b.keys = append(b.keys, pairs)
	}
	return nil
}

func (b *bundleWriter) listKeys(ns string, pairs []bundle2.KeyValue) error {
	payload, err := bundle2.AppendKeys(nil, pairs)
	if err != nil {
		return err
	}
	_, err = b.out.WritePart("listkeys", true, payload, bundle2.Mandatory("namespace", ns)...)
	return err
}
