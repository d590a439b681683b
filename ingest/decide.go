package ingest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vcsd/hg"
	"vcsd/journal"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

// A decision is what an accepted push changes, and what its sender is told.
type decision struct {
	push   *staged
	policy Policy
	first  int // changesets before the push

	fresh         []int // indexes in push.changesets of those that were added
	heads         []journal.BranchHeads
	bookmarks     []bookmark // where they were moved to
	bookmarkMoves []journal.BookmarkMove
	phases        []journal.PhaseMove
	markers       []obsmarker.Marker // that were added
	published     []hg.Node          // the last that were asked to be public, whether or not they were
	result        int                // of the last changegroup, as hg counts it
	replyParts    []ReplyPart
	output        strings.Builder
	total         counts
	wrote         bool // hg would have written to the store by now

	at    int      // the op that is being decided
	did   []did    // by op; only of a push with hooks
	trace []traced // only of a push with hooks
	noted int      // how many changes there were at the last note
}

// counts are what all changegroups of a push brought, for the last sentence.
type counts struct{ groups, changesets, changes, files, heads int }

// decide runs the ops of a push against p. On an error p is as it was, and
// the decision holds what had been said until then.
func decide(p *pending, push *staged, policy Policy) (*decision, error) {
	d := &decision{push: push, policy: policy, first: p.Len()}
	before := p.instabilities(policy)
	d.watch(p)
	err := d.run(p)
	d.finishTrace(p)
	if err == nil {
		err = p.checkSingleHead(policy.SingleHead)
	}
	if err == nil && !push.hooked.covers(d) {
		err = errUnseen
	}
	if err != nil {
		p.rollback()
		d.sayAbort()
		return d, err
	}
	d.heads = p.changedHeads()
	p.keep()
	d.output.WriteString(push.hooked.closing())
	d.sayTotal(p, before)
	return d, nil
}

// run runs the ops of the push one after the other.
func (d *decision) run(p *pending) error {
	d.output.WriteString(d.push.hooked.opening())
	for i, o := range d.push.ops {
		d.at = i
		if err := o.decide(p, d); err != nil {
			return err
		}
		if err := p.settle(); err != nil {
			return err
		}
		d.note(p)
	}
	return nil
}

// changes tells whether the push changes anything.
func (d *decision) changes() bool {
	return len(d.fresh)+len(d.bookmarks)+len(d.phases)+len(d.markers) > 0
}

const racedText = "remote repository changed while pushing - please try again"

func raced(format string, args ...any) error {
	text := racedText
	if format != "" {
		text += " (" + fmt.Sprintf(format, args...) + ")"
	}
	return &hg.PushRaced{Message: text}
}

func (c checkSentHeads) decide(p *pending, d *decision) error {
	heads, err := p.headsAs(d.policy.Sight)
	if err != nil {
		return err
	}
	return c.check(heads)
}

func (c checkHeads) decide(p *pending, d *decision) error {
	heads, err := p.headsAs(d.policy.Sight)
	if err != nil {
		return err
	}
	want := slices.SortedFunc(slices.Values(c.heads), hg.Node.Compare)
	have := slices.SortedFunc(slices.Values(heads), hg.Node.Compare)
	if !slices.Equal(want, have) {
		return raced("")
	}
	return nil
}

func (c checkUpdatedHeads) decide(p *pending, d *decision) error {
	isHead, err := p.branchHeadsAs(d.policy.Sight)
	if err != nil {
		return err
	}
	for _, n := range c.heads {
		if !isHead(n) {
			return raced("")
		}
	}
	return nil
}

func (c checkBookmarks) decide(p *pending, _ *decision) error {
	for _, m := range c.marks {
		have := p.bookmark(m.name)
		switch {
		case have == m.node:
		case m.node == absent:
			return raced("bookmark \"%s\" set on %s, expected missing", m.name, have.Short())
		case have == absent:
			return raced("bookmark \"%s\" is missing, expected %s", m.name, m.node.Short())
		default:
			return raced("bookmark \"%s\" move from %s to %s", m.name, m.node.Short(), have.Short())
		}
	}
	return nil
}

func (c checkPhases) decide(p *pending, _ *decision) error {
	for _, e := range c.nodes {
		r, ok := p.Rev(e.node)
		if !ok {
			return hg.Abortf("unknown node %s", e.node)
		}
		if have := p.Phase(r); have != e.phase {
			return raced("%s is %s expected %s", e.node.Short(), have, e.phase)
		}
	}
	return nil
}

func (o addGroup) decide(p *pending, d *decision) error {
	g := d.push.groups[o.group]
	before, first := p.heads.count(), p.Len()
	if err := d.addChangesets(p, g); err != nil {
		return err
	}
	heads := p.heads.count() - before
	for i := first; i < p.Len(); i++ {
		if p.heads.has(hg.Rev(i)) && p.added[i-p.base.Len()].closes {
			heads--
		}
	}
	d.result = groupResult(heads)
	d.output.WriteString(d.push.hooked.before(d.at) + addingText + d.push.hooked.after(d.at))
	d.wrote = true
	d.total.add(g, p.Len()-first, heads)
	if o.partID != "" {
		d.replyParts = append(d.replyParts, ReplyPart{Type: "reply:changegroup", Params: []Param{
			{"in-reply-to", o.partID}, {"return", strconv.Itoa(d.result)},
		}})
		d.replyOutput(Param{"in-reply-to", o.partID})
	}
	return nil
}

// addChangesets adds the changesets of a group that p lacks. All of the group
// come down to the phase of what is pushed, with their ancestors: also those
// that the server had, and those below that it had hidden.
func (d *decision) addChangesets(p *pending, g group) error {
	target := hg.Draft
	if d.policy.Publishing {
		target = hg.Public
	}
	for i := g.first; i < g.last; i++ {
		c := d.push.changesets[i]
		if _, ok := p.Rev(c.node); ok {
			continue
		}
		if _, err := p.add(c, target); err != nil {
			return err
		}
		d.fresh = append(d.fresh, i)
	}
	all := make([]hg.Rev, 0, len(g.known)+g.last-g.first)
	for n := range d.push.groupNodes(g) {
		if r, ok := p.Rev(n); ok {
			all = append(all, r)
		}
	}
	d.advance(p, all, target)
	if d.policy.Publishing {
		for n := range d.push.groupNodes(g) {
			d.notePublished(n)
		}
	}
	return nil
}

// notePublished keeps a node in published, and at least maxOutcomeNodes of
// those before it.
func (d *decision) notePublished(n hg.Node) {
	if len(d.published) == 2*maxOutcomeNodes {
		d.published = slices.Delete(d.published, 0, maxOutcomeNodes)
	}
	d.published = append(d.published, n)
}

func nodesOf(p *pending, revs []hg.Rev) []hg.Node {
	nodes := make([]hg.Node, len(revs))
	for i, r := range revs {
		nodes[i] = p.Node(r)
	}
	return nodes
}

func (d *decision) advance(p *pending, revs []hg.Rev, to hg.Phase) {
	if moved := p.advance(revs, to); len(moved) > 0 {
		d.phases = append(d.phases, journal.PhaseMove{Phase: to, Nodes: nodesOf(p, moved)})
	}
}

// groupResult is hg's result of adding a changegroup: 1 if the number of
// heads stayed, 1+n if it grew by n, -1-n if it shrank by n.
func groupResult(heads int) int {
	if heads < 0 {
		return heads - 1
	}
	return heads + 1
}

// What hg says of a transaction.
const (
	addingText   = "adding changesets\nadding manifests\nadding file changes\n"
	abortText    = "transaction abort!\n"
	rollbackText = "rollback completed\n"
)

func (c *counts) add(g group, changesets, heads int) {
	c.groups++
	c.changesets += changesets
	c.changes += g.changes
	c.files += g.files
	c.heads += heads
}

func (o movePhases) decide(p *pending, d *decision) error {
	byPhase := slices.Clone(o.nodes)
	slices.SortStableFunc(byPhase, func(a, b phaseNode) int { return cmp.Compare(a.phase, b.phase) })
	for _, e := range byPhase {
		r, ok := p.Rev(e.node)
		if !ok {
			return hg.Abortf("unknown node %s", e.node)
		}
		d.advance(p, []hg.Rev{r}, e.phase)
		if e.phase == hg.Public {
			d.notePublished(e.node)
		}
	}
	return nil
}

func (o setBookmarks) decide(p *pending, d *decision) error {
	for _, m := range o.marks {
		if store.IsDivergent(m.name) {
			return hg.Abortf("cannot accept divergent bookmark %s!", m.name)
		}
		if err := store.CheckBookmarkName(m.name); err != nil {
			return err
		}
		if m.node == absent {
			continue
		}
		if r, ok := p.Rev(m.node); !ok || !p.sees(r) {
			return hg.Abortf("bookmark %s: unknown revision '%s'", m.name, m.node)
		}
	}
	for _, m := range o.marks {
		d.moveBookmark(p, m.name, m.node)
	}
	d.sayInReply(o.partID)
	return nil
}

func (d *decision) moveBookmark(p *pending, name string, to hg.Node) {
	from := p.bookmark(name)
	if d.did != nil {
		d.did[d.at].marks = append(d.did[d.at].marks, journal.BookmarkMove{Name: name, Old: recorded(from), New: recorded(to)})
	}
	if from == to {
		return
	}
	p.moveBookmark(name, to)
	d.bookmarks = append(d.bookmarks, bookmark{name, to})
	d.bookmarkMoves = append(d.bookmarkMoves, journal.BookmarkMove{Name: name, Old: recorded(from), New: recorded(to)})
}

// recorded returns a bookmark's place as a record has it.
func recorded(n hg.Node) hg.Node {
	if n == absent {
		return hg.NullNode
	}
	return n
}
