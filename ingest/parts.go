package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"vcsd/hg"
	"vcsd/wire/bundle2"
	"vcsd/wire/changegroup"
	"vcsd/wire/obsmarker"
)

// decodeBundle2 stages all parts of a bundle2 stream in order.
func (s *stager) decodeBundle2(ctx context.Context, r io.Reader) error {
	br, err := bundle2.NewReader(r, bundle2.Limits{MaxBytes: s.limits.MaxPushBytes, MaxParts: s.limits.MaxParts})
	if err != nil {
		return err
	}
	s.out.reply.bundle2 = true
	br.Interrupt = interrupt
	for {
		part, err := br.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.part(ctx, part); err != nil {
			return err
		}
	}
}

// partParams are the parameters that each part may have. A mandatory one
// beyond them refuses the bundle (hg help internals.bundle2).
var partParams = map[string][]string{
	"replycaps":           {},
	"check:heads":         {},
	"check:updated-heads": {},
	"check:bookmarks":     {},
	"check:phases":        {},
	"changegroup":         {"version", "nbchanges", "treemanifest", "targetphase", "exp-sidedata", "exp-wanted-sidedata"},
	"phase-heads":         {},
	"bookmarks":           {},
	"obsmarkers":          {},
	"pushkey":             {"namespace", "key", "old", "new"},
	"pushvars":            {},

	// What is said to the receiver, who has nobody to show it to.
	"output":   {},
	"listkeys": {"namespace"},

	// Caches, which are advice and not looked at: what they tell is computed
	// from the changesets themselves.
	"hgtagsfnodes":           {},
	"cache:rev-branch-cache": {},
}

// partAborts is the part by which a client says that it can't go on.
const partAborts = "error:abort"

// interrupt handles a part in the middle of another one's payload, which can
// neither change nor check anything.
func interrupt(part *bundle2.Part) error {
	_, known := partParams[part.Type]
	switch {
	case part.Type == partAborts:
		return part.Abort()
	case part.Type == "output" || !part.Mandatory && !known:
		return nil
	}
	return part.Unsupported()
}

func (s *stager) part(ctx context.Context, part *bundle2.Part) error {
	if part.Type == partAborts {
		return part.Abort()
	}
	allowed, known := partParams[part.Type]
	if !known {
		if part.Mandatory {
			return part.Unsupported()
		}
		return nil
	}
	if err := part.CheckParams(allowed...); err != nil {
		return err
	}
	return s.knownPart(ctx, part)
}

func (s *stager) knownPart(ctx context.Context, part *bundle2.Part) error {
	switch part.Type {
	case "replycaps":
		return s.replyCaps(part)
	case "check:heads":
		nodes, err := s.heads(part)
		return s.opOr(checkHeads{nodes}, err)
	case "check:updated-heads":
		nodes, err := s.heads(part)
		return s.opOr(checkUpdatedHeads{nodes}, err)
	case "check:bookmarks":
		marks, err := s.bookmarks(part)
		return s.opOr(checkBookmarks{marks}, err)
	case "check:phases":
		nodes, err := s.phases(part)
		return s.opOr(checkPhases{nodes}, err)
	case "changegroup":
		return s.changegroupPart(ctx, part)
	case "phase-heads":
		nodes, err := s.phases(part)
		return s.opOr(movePhases{nodes}, err)
	case "bookmarks":
		marks, err := s.bookmarks(part)
		return s.opOr(setBookmarks{marks: marks, partID: partID(part)}, err)
	case "obsmarkers":
		return s.markersPart(part)
	case "pushkey":
		return s.pushkeyPart(part)
	case "pushvars":
		return s.pushVars(part)
	}
	return nil
}

// maxPushVarBytes is how long the variables of a push may be together, with
// their names.
const maxPushVarBytes = 1 << 20

// pushVars takes what a client passes to hooks (hg push --pushvars).
func (s *stager) pushVars(part *bundle2.Part) error {
	for _, p := range part.Params {
		if p.Mandatory {
			continue
		}
		if s.varBytes += len(p.Key) + len(p.Value); s.varBytes > maxPushVarBytes {
			return fmt.Errorf("variables of more than %d bytes: %w", maxPushVarBytes, hg.ErrTooLarge)
		}
		s.out.vars = append(s.out.vars, Param{p.Key, p.Value})
	}
	return nil
}

// op adds an op to the push.
func (s *stager) op(o op) { s.out.ops = append(s.out.ops, o) }

// opOr adds an op, unless what it was read from is malformed.
func (s *stager) opOr(o op, err error) error {
	if err != nil {
		return err
	}
	s.op(o)
	return nil
}

// readOp reads what an op is made of.
func (s *stager) readOp(part *bundle2.Part) ([]byte, error) {
	left := s.limits.MaxOpBytes - s.opBytes
	b, err := io.ReadAll(io.LimitReader(part, left+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > left {
		return nil, s.tooManyOps()
	}
	s.opBytes += int64(len(b))
	return b, nil
}

func (s *stager) tooManyOps() error {
	return fmt.Errorf("checks and changes beside the changesets of more than %d bytes: %w", s.limits.MaxOpBytes, hg.ErrTooLarge)
}

// maxCapsBytes bounds a replycaps part.
const maxCapsBytes = 64 << 10

func (s *stager) replyCaps(part *bundle2.Part) error {
	b, err := part.ReadAll(maxCapsBytes)
	if err != nil {
		return err
	}
	if s.out.reply.caps == nil { // the first one counts
		s.out.reply.caps = bundle2.DecodeCaps(string(b))
	}
	return nil
}

// treesError refuses tree manifests, with hg's words where it does so too.
func (s *stager) treesError() error {
	if s.view.Len() == 0 {
		return hg.Abortf("bundle contains tree manifests, which are not supported")
	}
	return hg.Abortf("bundle contains tree manifests, but local repo is non-empty and does not use tree manifests")
}

func (s *stager) changegroupPart(ctx context.Context, part *bundle2.Part) error {
	version := changegroup.V01
	if name, ok := part.Param("version"); ok {
		if version, ok = changegroup.ParseVersion(name); !ok {
			return &hg.UnsupportedContent{PartType: part.Type, Params: []string{"version"}}
		}
	}
	if _, ok := part.Param("treemanifest"); ok {
		return s.treesError()
	}
	if err := s.changegroup(ctx, part, version); err != nil {
		return err
	}
	s.op(addGroup{group: len(s.out.groups) - 1, partID: partID(part)})
	return nil
}

func (s *stager) heads(part *bundle2.Part) ([]hg.Node, error) {
	b, err := s.readOp(part)
	if err != nil {
		return nil, err
	}
	return bundle2.DecodeHeads(b)
}

func (s *stager) bookmarks(part *bundle2.Part) ([]bookmark, error) {
	b, err := s.readOp(part)
	if err != nil {
		return nil, err
	}
	entries, err := bundle2.DecodeBookmarks(b)
	marks := make([]bookmark, len(entries))
	for i, e := range entries {
		marks[i] = bookmark{e.Name, e.Node}
	}
	return marks, err
}

func (s *stager) phases(part *bundle2.Part) ([]phaseNode, error) {
	b, err := s.readOp(part)
	if err != nil {
		return nil, err
	}
	entries, err := bundle2.DecodePhaseHeads(b)
	nodes := make([]phaseNode, len(entries))
	for i, e := range entries {
		nodes[i] = phaseNode{e.Phase, e.Node}
	}
	return nodes, err
}

func (s *stager) markersPart(part *bundle2.Part) error {
	b, err := s.readOp(part)
	if err != nil {
		return err
	}
	_, markers, err := obsmarker.Decode(b)
	return s.opOr(addMarkers{markers: markers, partID: partID(part), mandatory: part.Mandatory}, err)
}

func (s *stager) pushkeyPart(part *bundle2.Part) error {
	o := pushkey{partID: partID(part), mandatory: part.Mandatory}
	for _, f := range []struct {
		name string
		to   *string
	}{{"namespace", &o.namespace}, {"key", &o.key}, {"old", &o.old}, {"new", &o.new}} {
		v, ok := part.Param(f.name)
		if !ok {
			return fmt.Errorf("pushkey part without %q: %w", f.name, hg.ErrMalformed)
		}
		if s.opBytes += int64(len(v)); s.opBytes > s.limits.MaxOpBytes {
			return s.tooManyOps()
		}
		*f.to = strings.Clone(v) // or it would keep the whole header
	}
	s.op(o)
	return nil
}

func partID(part *bundle2.Part) string { return strconv.FormatUint(uint64(part.ID), 10) }
