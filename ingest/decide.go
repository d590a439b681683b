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
)

// A decision is what an accepted push changes, and what its sender is told.
type decision struct {
	push       *staged
	publishing bool // phases.publish of the repository

	fresh      []int // indexes in push.changesets of those that were added
	heads      []journal.BranchHeads
	bookmarks  []journal.BookmarkMove
	phases     []journal.PhaseMove
	published  []hg.Node // asked to be public, whether or not they were
	result     int       // of the last changegroup, as hg counts it
	replyParts []ReplyPart
	output     strings.Builder
	total      counts
}

// counts are what all changegroups of a push brought, for the last sentence.
type counts struct{ groups, changesets, changes, files, heads int }

// decide runs the ops of a push against p. On an error p is as it was, and
// the decision holds what had been said until then.
func decide(p *pending, push *staged, publishing bool) (*decision, error) {
	d := &decision{push: push, publishing: publishing}
	for _, o := range push.ops {
		if err := o.decide(p, d); err != nil {
			p.rollback()
			d.sayAbort()
			return d, err
		}
	}
	p.keep()
	d.sayTotal()
	return d, nil
}

// changes tells whether the push changes anything.
func (d *decision) changes() bool {
	return len(d.fresh) > 0 || len(d.bookmarks) > 0 || len(d.phases) > 0
}

const racedText = "remote repository changed while pushing - please try again"

func raced(format string, args ...any) error {
	text := racedText
	if format != "" {
		text += " (" + fmt.Sprintf(format, args...) + ")"
	}
	return &hg.PushRaced{Message: text}
}

func (c checkSentHeads) decide(p *pending, _ *decision) error {
	return c.check(p.headNodes())
}

func (c checkHeads) decide(p *pending, _ *decision) error {
	want := slices.SortedFunc(slices.Values(c.heads), hg.Node.Compare)
	have := slices.SortedFunc(slices.Values(p.headNodes()), hg.Node.Compare)
	if !slices.Equal(want, have) {
		return raced("")
	}
	return nil
}

func (c checkUpdatedHeads) decide(p *pending, _ *decision) error {
	for _, n := range c.heads {
		if !p.isBranchHead(n) {
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
		case m.node.IsNull():
			return raced("bookmark \"%s\" set on %s, expected missing", m.name, have.Short())
		case have.IsNull():
			return raced("bookmark \"%s\" is missing, expected %s", m.name, m.node.Short())
		default:
			return raced("bookmark \"%s\" move from %s to %s", m.name, m.node.Short(), have.Short())
		}
	}
	return nil
}

func (c checkPhases) decide(p *pending, _ *decision) error {
	for _, e := range c.nodes {
		r, ok := p.rev(e.node)
		if !ok {
			return hg.Abortf("unknown node %s", e.node)
		}
		if have := p.phase(r); have != e.phase {
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
	d.output.WriteString(addingText)
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
	if d.publishing {
		target = hg.Public
	}
	byBranch := make(map[string][]hg.Rev)
	for i := g.first; i < g.last; i++ {
		c := d.push.changesets[i]
		if _, ok := p.rev(c.node); ok {
			continue
		}
		r, err := p.add(c, target)
		if err != nil {
			return err
		}
		d.fresh = append(d.fresh, i)
		byBranch[c.branch] = append(byBranch[c.branch], r)
	}
	all := make([]hg.Rev, 0, len(g.nodes))
	for _, n := range g.nodes {
		if r, ok := p.rev(n); ok {
			all = append(all, r)
		}
	}
	// Before the heads of branches, which it may add to.
	d.advance(p, all, target)
	d.updateHeads(p, byBranch)
	if d.publishing {
		d.published = append(d.published, g.nodes...)
	}
	return nil
}

func (d *decision) updateHeads(p *pending, byBranch map[string][]hg.Rev) {
	branches := make([]string, 0, len(byBranch))
	for b := range byBranch {
		branches = append(branches, b)
	}
	slices.Sort(branches)
	for _, b := range branches {
		old := d.nodesOf(p, p.headsOfBranch(b))
		p.updateBranchHeads(b, byBranch[b])
		d.heads = append(d.heads, journal.BranchHeads{Branch: b, Old: old, New: d.nodesOf(p, p.headsOfBranch(b))})
	}
}

func (d *decision) nodesOf(p *pending, revs []hg.Rev) []hg.Node {
	nodes := make([]hg.Node, len(revs))
	for i, r := range revs {
		nodes[i] = p.node(r)
	}
	return nodes
}

func (d *decision) advance(p *pending, revs []hg.Rev, to hg.Phase) {
	if moved := p.advance(revs, to); len(moved) > 0 {
		d.phases = append(d.phases, journal.PhaseMove{Phase: to, Nodes: d.nodesOf(p, moved)})
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

const addingText = "adding changesets\nadding manifests\nadding file changes\n"

func (c *counts) add(g group, changesets, heads int) {
	c.groups++
	c.changesets += changesets
	c.changes += g.changes
	c.files += g.files
	c.heads += heads
}

// sayTotal writes what hg writes when it has added changegroups.
func (d *decision) sayTotal() {
	c := &d.total
	if c.groups == 0 {
		return
	}
	fmt.Fprintf(&d.output, "added %d changesets with %d changes to %d files", c.changesets, c.changes, c.files)
	if c.heads != 0 {
		fmt.Fprintf(&d.output, " (%+d heads)", c.heads)
	}
	d.output.WriteByte('\n')
	if d.push.reply.bundle2 {
		d.replyOutput()
	}
}

// sayAbort writes what hg writes when it refuses a push that it has begun to
// add.
func (d *decision) sayAbort() {
	d.replyParts = nil
	d.output.Reset()
	if n := d.total.groups; n > 0 {
		d.output.WriteString(strings.Repeat(addingText, n) + "transaction abort!\nrollback completed\n")
	}
}

// replyOutput sends what was said so far, in reply to a part or to the whole.
func (d *decision) replyOutput(params ...Param) {
	d.replyParts = append(d.replyParts, ReplyPart{Type: "output", Params: params, Payload: []byte(d.output.String())})
	d.output.Reset()
}

func (o movePhases) decide(p *pending, d *decision) error {
	byPhase := slices.Clone(o.nodes)
	slices.SortStableFunc(byPhase, func(a, b phaseNode) int { return cmp.Compare(a.phase, b.phase) })
	for _, e := range byPhase {
		r, ok := p.rev(e.node)
		if !ok {
			return hg.Abortf("unknown node %s", e.node)
		}
		d.advance(p, []hg.Rev{r}, e.phase)
		if e.phase == hg.Public {
			d.published = append(d.published, e.node)
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
		if r, ok := p.rev(m.node); !ok || (r != hg.NullRev && !p.visible(r)) {
			return hg.Abortf("bookmark %s: unknown revision '%s'", m.name, m.node)
		}
	}
	for _, m := range o.marks {
		d.moveBookmark(p, m.name, m.node)
	}
	return nil
}

func (d *decision) moveBookmark(p *pending, name string, to hg.Node) {
	from := p.bookmark(name)
	if from == to {
		return
	}
	set(p, p.bookmarks, name, to)
	d.bookmarks = append(d.bookmarks, journal.BookmarkMove{Name: name, Old: from, New: to})
}

func (o pushkey) decide(p *pending, d *decision) error {
	ok := o.apply(p, d)
	ret := "0"
	if ok {
		ret = "1"
	}
	d.result = int(ret[0] - '0')
	if o.partID != "" {
		d.replyParts = append(d.replyParts, ReplyPart{Type: "reply:pushkey", Mandatory: true, Params: []Param{
			{"in-reply-to", o.partID}, {"return", ret},
		}})
	}
	if o.mandatory && !ok {
		return &hg.PushkeyFailed{
			Namespace: o.namespace, Key: o.key, Old: o.old, New: o.new, Ret: ret, PartID: o.partID,
		}
	}
	return nil
}

// apply compares and sets one key, and reports whether the key now has the
// new value.
func (o pushkey) apply(p *pending, d *decision) bool {
	switch o.namespace {
	case "bookmarks":
		return o.applyBookmark(p, d)
	case "phases":
		return o.applyPhase(p, d)
	}
	return false
}

func (o pushkey) applyBookmark(p *pending, d *decision) bool {
	if store.IsDivergent(o.key) || store.CheckBookmarkName(o.key) != nil {
		return false
	}
	have := ""
	if n := p.bookmark(o.key); !n.IsNull() {
		have = n.String()
	}
	if have != o.old && have != o.new {
		return false
	}
	if o.new == "" {
		d.moveBookmark(p, o.key, hg.NullNode)
		return true
	}
	n, err := hg.ParseNode(o.new)
	if err != nil {
		return false
	}
	r, ok := p.rev(n)
	if !ok || r == hg.NullRev || !p.visible(r) {
		return false
	}
	d.moveBookmark(p, o.key, n)
	return true
}

func (o pushkey) applyPhase(p *pending, d *decision) bool {
	n, err := hg.ParseNode(o.key)
	if err != nil {
		return false
	}
	r, known := p.rev(n)
	from, err1 := strconv.Atoi(o.old)
	to, err2 := strconv.Atoi(o.new)
	if !known || r == hg.NullRev || !p.visible(r) || err1 != nil || err2 != nil || !inPhaseRange(from) || !inPhaseRange(to) {
		return false
	}
	switch have := int(p.phase(r)); {
	case have == from && to < from:
		d.advance(p, []hg.Rev{r}, hg.Phase(to))
		if to == int(hg.Public) {
			d.published = append(d.published, n)
		}
		return true
	case have == to:
		return true
	}
	return false
}

func inPhaseRange(n int) bool { return n >= 0 && n <= int(hg.Internal) && hg.Phase(n).Valid() }
