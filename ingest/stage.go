package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/journal"
	"vcsd/revlog"
	"vcsd/store"
	"vcsd/wire/changegroup"
)

// A staged push is a bundle decoded and verified, its new revisions in a
// segment with everything named by node. It holds no lock and nothing of it
// is in the store.
type staged struct {
	generation uint64 // of the view that it was checked against
	seg        *segment

	changelog  []revlog.Staged
	changesets []changeset // beside changelog
	manifest   []revlog.Staged
	files      []stagedFile
	groups     []group

	ops   []op
	vars  []Param // for hooks, as the client named them
	reply replyForm

	// hooked is what the hooks that ran left; nil if there are none. It is set
	// before the push goes to the sequencer.
	hooked *hooked
}

// A changeset is what the decisions need to know of a staged one.
type changeset struct {
	node, p1, p2 hg.Node
	branch       string
	closes       bool // closes its branch
}

// A stagedFile is the part of a filelog that a push brings.
type stagedFile struct {
	path string
	revs []revlog.Staged
}

// A group is what one changegroup part brought. The counts are for the reply.
// Revisions that the store got meanwhile from somebody else are not taken off
// them: hg's sentence tells what the transfer did.
type group struct {
	known       []hg.Node // those of its changesets that the store had, each once
	first, last int       // its new ones are staged.changesets[first:last]
	files       int       // file groups
	changes     int       // new file revisions
}

// groupNodes are the changesets of a group, those that the store had first.
func (s *staged) groupNodes(g group) iter.Seq[hg.Node] {
	return func(yield func(hg.Node) bool) {
		for _, n := range g.known {
			if !yield(n) {
				return
			}
		}
		for _, c := range s.changesets[g.first:g.last] {
			if !yield(c.node) {
				return
			}
		}
	}
}

// stager decodes the changegroups of one push. It belongs to one goroutine.
type stager struct {
	view   *store.View
	limits Limits
	out    *staged

	changelog *revlog.Stager
	manifest  *revlog.Stager
	manifests map[hg.Node]int // that are still to come, to the first changeset that names each
	needs     needs
	stray     error          // tells of the first revision that nothing names
	varBytes  int            // of out.vars
	opBytes   int64          // that out.ops were made of
	paths     map[string]int // path to index in out.files
}

// newStager returns a stager of a bundle of payloadBytes, as sent.
func newStager(view *store.View, seg *segment, payloadBytes int64, limits Limits) *stager {
	s := &stager{
		view: view, limits: limits, needs: needs{maxBytes: maxNeedBytes(payloadBytes)},
		out:       &staged{seg: seg, generation: view.Generation()},
		manifests: make(map[hg.Node]int),
		paths:     make(map[string]int),
	}
	s.changelog = revlog.NewStager(view.Changelog(), seg, s.stageOptions(revlog.Changelog))
	s.manifest = revlog.NewStager(view.Manifest(), seg, s.stageOptions(revlog.Manifest))
	return s
}

func (s *stager) stageOptions(kind revlog.Kind) revlog.StageOptions {
	o := s.view.Repo().StageOptions(kind)
	o.MaxTextBytes = s.limits.MaxTextBytes
	return o
}

// changegroup stages one changegroup. Its revisions are rebuilt and their
// hashes checked; what they refer to is checked by finish.
func (s *stager) changegroup(ctx context.Context, r io.Reader, v changegroup.Version) error {
	cg := changegroup.NewReader(r, v, changegroup.Limits{MaxChunkBytes: s.limits.MaxTextBytes})
	gr := group{first: len(s.out.changesets)}
	for {
		g, err := cg.NextGroup()
		if errors.Is(err, io.EOF) {
			gr.last = len(s.out.changesets)
			s.out.groups = append(s.out.groups, gr)
			return nil
		}
		if err != nil {
			return err
		}
		switch g.Kind {
		case changegroup.Changelog:
			err = s.changelogGroup(ctx, cg, &gr)
		case changegroup.Manifest:
			err = s.manifestGroup(ctx, cg)
		case changegroup.File:
			err = s.fileGroup(ctx, cg, g.Path, &gr)
		default:
			err = s.treesError()
		}
		if err != nil {
			return err
		}
	}
}

// deltas hands each delta of a group to add.
func deltas(ctx context.Context, cg *changegroup.Reader, add func(in revlog.Incoming, delta []byte) error) error {
	for {
		h, delta, err := cg.NextDelta()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		in := revlog.Incoming{Node: h.Node, P1: h.P1, P2: h.P2, Link: h.Link, Base: h.Base, Flags: h.Flags}
		if err := add(in, delta); err != nil {
			return err
		}
	}
}

func (s *stager) changelogGroup(ctx context.Context, cg *changegroup.Reader, gr *group) error {
	var stored dag.Set
	err := deltas(ctx, cg, func(in revlog.Incoming, delta []byte) error {
		if in.Link != in.Node {
			return hg.Abortf("changeset %s is linked to %s", in.Node.Short(), in.Link.Short())
		}
		text, known, err := s.changelog.Add(in, delta)
		if err != nil {
			return stageError("changelog", in.Node, err)
		}
		if !known {
			return s.addChangeset(in, text)
		}
		if r, ok := s.view.Changelog().Rev(in.Node); ok {
			stored.Add(r)
		}
		return nil
	})
	for r := range stored.All() {
		gr.known = append(gr.known, s.view.Changelog().Node(r))
	}
	return err
}

// maxBranchBytes is what the coordination service takes for a branch's name.
const maxBranchBytes = 8 << 10

// addChangeset notes what the decisions need of a new changeset, and that its
// manifest has to exist.
func (s *stager) addChangeset(in revlog.Incoming, text []byte) error {
	c, err := store.ParseChangeset(text)
	if err != nil {
		return hg.Abortf("changeset %s: %v", in.Node.Short(), err)
	}
	if err := c.Check(); err != nil {
		return hg.Abortf("changeset %s: %v", in.Node.Short(), err)
	}
	if len(c.Branch()) > maxBranchBytes {
		return hg.Abortf("changeset %s: branch name of %d bytes", in.Node.Short(), len(c.Branch()))
	}
	if len(s.out.changesets) >= s.limits.MaxChangesets {
		return fmt.Errorf("push of more than %d changesets: %w", s.limits.MaxChangesets, hg.ErrTooLarge)
	}
	s.out.changesets = append(s.out.changesets, changeset{
		node: in.Node, p1: in.P1, p2: in.P2, branch: c.Branch(), closes: c.Closes(),
	})
	if _, named := s.manifests[c.Manifest]; !named && !c.Manifest.IsNull() && !s.manifest.HasNode(c.Manifest) {
		s.manifests[c.Manifest] = len(s.out.changesets) - 1
	}
	return nil
}

func (s *stager) manifestGroup(ctx context.Context, cg *changegroup.Reader) error {
	return deltas(ctx, cg, func(in revlog.Incoming, delta []byte) error {
		if err := s.checkLink("manifest", in); err != nil {
			return err
		}
		by, named := s.manifests[in.Node]
		if named {
			in.Link = s.out.changesets[by].node
		}
		text, known, err := s.manifest.Add(in, delta)
		if err != nil {
			return stageError("manifest", in.Node, err)
		}
		if known {
			return nil
		}
		if !named {
			s.foundStray("manifest: no changeset names revision %s", in.Node.Short())
		}
		delete(s.manifests, in.Node)
		return s.addManifest(ctx, in, by, text, delta)
	})
}

// addManifest checks the lines that a new manifest adds to the base of its
// delta, and notes that the file revisions they name have to exist. All other
// lines stand in the base, and were checked there. by is the changeset that
// brings the manifest, as an index.
func (s *stager) addManifest(ctx context.Context, in revlog.Incoming, by int, text, delta []byte) error {
	err := store.TouchedEntries(text, delta, func(e store.ManifestEntry) error {
		if err := store.CheckPath(e.Path); err != nil {
			return hg.Abortf("manifest %s: %v", in.Node.Short(), err)
		}
		if e.Node.IsNull() {
			return hg.Abortf("manifest %s: %q has no revision", in.Node.Short(), e.Path)
		}
		if s.needs.add(e.Path, e.Node, by) {
			return nil
		}
		return s.needs.shed(ctx, s.view, s.out.files)
	})
	if errors.Is(err, store.ErrBadManifest) {
		return hg.Abortf("manifest %s: %v", in.Node.Short(), err)
	}
	return err
}

func (s *stager) fileGroup(ctx context.Context, cg *changegroup.Reader, path string, gr *group) error {
	if err := s.checkPath(path); err != nil {
		return hg.Abortf("%v", err)
	}
	if i, ok := s.paths[path]; ok {
		return hg.Abortf("%q has two groups of revisions, the first of %d", path, len(s.out.files[i].revs))
	}
	snap, err := s.view.Filelog(ctx, path)
	if err != nil {
		return fmt.Errorf("open filelog of %q: %w", path, err)
	}
	defer snap.Close()
	st := revlog.NewStager(snap, s.out.seg, s.stageOptions(revlog.Filelog))
	n := 0
	err = deltas(ctx, cg, func(in revlog.Incoming, delta []byte) error {
		n++
		if err := s.checkLink(path, in); err != nil {
			return err
		}
		by, named := s.needs.first(path, in.Node)
		if named {
			in.Link = s.out.changesets[by].node
		}
		_, known, err := st.Add(in, delta)
		if err != nil {
			return stageError(path, in.Node, err)
		}
		if !known && !named {
			s.foundStray("%s: no manifest names revision %s", path, in.Node.Short())
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return hg.Abortf("received file revlog group is empty")
	}
	gr.files++
	gr.changes += len(st.Staged())
	s.paths[path] = len(s.out.files)
	s.out.files = append(s.out.files, stagedFile{path: path, revs: st.Staged()})
	return nil
}

// checkPath refuses a file whose log could not be stored safely, or not at all.
func (s *stager) checkPath(path string) error {
	if err := store.CheckPath(path); err != nil {
		return err
	}
	repo := s.view.Repo()
	for _, name := range []string{repo.FilelogRadix(path) + ".i", repo.FilelogData(path)} {
		if err := journal.ValidPath(name); err != nil {
			return err
		}
	}
	return nil
}

// checkLink refuses a revision that says it came with a changeset nobody knows.
// What is stored is no word of the sender's but the first changeset that names
// the revision: whoever has the changeset that a revision is linked to is taken
// to have the revision.
func (s *stager) checkLink(what string, in revlog.Incoming) error {
	if s.changelog.HasNode(in.Link) {
		return nil
	}
	if _, ok := s.view.Changelog().Rev(in.Link); ok {
		return nil
	}
	return hg.Abortf("%s: revision %s is linked to unknown changeset %s", what, in.Node.Short(), in.Link.Short())
}

// foundStray notes a revision that nothing in the push names. It is refused in
// the end, when it is known that nothing is missing, which would explain it.
func (s *stager) foundStray(format string, args ...any) {
	if s.stray == nil {
		s.stray = hg.Abortf(format, args...)
	}
}

// finish completes what the parts brought: every manifest and every file
// revision that a new changeset names is in the push or in the store.
func (s *stager) finish(ctx context.Context) error {
	for node := range s.manifests {
		return hg.Abortf("missing manifest %s", node.Short())
	}
	if err := s.needs.check(ctx, s.view, s.out.files); err != nil {
		return err
	}
	if s.stray != nil {
		return s.stray
	}
	s.out.changelog = s.changelog.Staged()
	s.out.manifest = s.manifest.Staged()
	return s.out.seg.flush()
}

// stageError turns what is wrong with a revision into a sentence for the
// client. Faults of our own stay what they are.
func stageError(log string, node hg.Node, err error) error {
	var abort *hg.Abort
	switch {
	case errors.As(err, &abort):
		return err
	case errors.Is(err, hg.ErrTooLarge), errors.Is(err, hg.ErrMalformed):
		return fmt.Errorf("%s@%s: %w", log, node.Short(), err)
	}
	return err
}
