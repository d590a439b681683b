package ingest

import (
	"cmp"
	"io"
	"iter"
	"maps"
	"slices"

	"vcsd/hook"
	"vcsd/journal"
	"vcsd/revlog"
	"vcsd/revlog/chunk"
	"vcsd/store"
)

// Hooks are those that an administrator wants to be run in pushes.
type Hooks struct {
	Runner *hook.Runner

	// PushkeyCompat tells bookmarks of a bundle to hooks as pushkeys too
	// (server.bookmarks-pushkey-compat).
	PushkeyCompat bool

	// PushVars hands to hooks what clients pass by --pushvars
	// (push.pushvars.server).
	PushVars bool
}

// A course is the way of a push along the points of hooks, and what is passed
// to them there. It belongs to one goroutine.
type course struct {
	conf *Hooks
	push *staged
	lone bool // a pushkey outside of a bundle

	begun hook.Txn // the transaction at its beginning,
	txn   hook.Txn // and as it stands
}

func newCourse(conf *Hooks, push *staged, who Who) *course {
	c := &course{conf: conf, push: push, lone: push.lonePushkey() != nil}
	c.txn.ID = hook.NewTxnID()
	switch k := push.lonePushkey(); {
	case k != nil && k.namespace == "phases":
		c.txn.Name = hook.TxnPushkeyPhase
	case k != nil && k.namespace == "obsolete":
		c.txn.Name = hook.TxnPushkeyMarkers
	case k != nil:
		c.txn.Name = hook.TxnPushkeyBookmark
	default:
		c.txn.Name, c.txn.Source, c.txn.URL = hook.TxnServe, "serve", who.URL
		if c.txn.Bundle2 = push.reply.bundle2; !c.txn.Bundle2 {
			c.txn.Name = hook.TxnBundle1(who.URL)
		}
	}
	if conf.PushVars {
		for _, v := range push.vars {
			c.txn.SetUserVar(v.Key, v.Value)
		}
	}
	c.begun = c.txn
	return c
}

// lonePushkey returns the pushkey that the push consists of, if it came
// without a bundle.
func (s *staged) lonePushkey() *pushkey {
	if len(s.ops) == 1 {
		if k, ok := s.ops[0].(pushkey); ok && k.partID == "" {
			return &k
		}
	}
	return nil
}

// A walker is what a course is walked with. Its methods get the decision's op.
type walker interface {
	// group comes to a changegroup. before are the variables when it begins,
	// with those when it is there; nil if it brings nothing new.
	group(op int, before, with hook.Vars) error
	// key comes to a pushkey, or to a bookmark that counts as one.
	key(op int, before, done hook.Vars) error
	// decided returns the decision as it is now. It may become another by each
	// call of the other methods, but its ops stay the same.
	decided() *decision
}

// walk goes along the ops of a bundle. What they do is known to c.txn
// afterwards.
func (c *course) walk(w walker) error {
	for i, o := range c.push.ops {
		var err error
		switch o := o.(type) {
		case addGroup:
			err = c.walkGroup(i, w)
		case setBookmarks:
			err = c.walkBookmarks(i, w)
		case pushkey:
			err = w.key(i, c.keyVars(o), hook.Vars(nil).Pushkey(o.namespace, o.key, o.old, o.new).Ret(w.decided().did[i].ok))
			c.noteMarks(w.decided().did[i].marks)
		}
		if err != nil {
			return err
		}
		c.txn.PhasesMoved, c.txn.NewObsmarkers = w.decided().did[i].movedRoots, w.decided().did[i].markers
	}
	return nil
}

func (c *course) walkGroup(op int, w walker) error {
	d := w.decided()
	fresh := d.fresh[d.did[op].first:d.did[op].last]
	before := c.txn.Vars()
	if len(fresh) == 0 {
		return w.group(op, before, nil)
	}
	first, last := d.push.changesets[fresh[0]].node, d.push.changesets[fresh[len(fresh)-1]].node
	if c.txn.Node.IsNull() {
		c.txn.Node, c.txn.NodeLast = first, last
	}
	return w.group(op, before, c.txn.Vars().Group(first, last))
}

func (c *course) walkBookmarks(op int, w walker) error {
	marks := w.decided().did[op].marks
	if c.conf.PushkeyCompat && c.conf.Runner.Has(hook.PrePushkey, hook.Pushkey) {
		for _, m := range marks {
			vars := c.txn.Vars().CompatKey(m.Name, m.Old, m.New)
			if err := w.key(op, vars, vars); err != nil {
				return err
			}
		}
	}
	c.noteMarks(marks)
	return nil
}

func (c *course) noteMarks(marks []journal.BookmarkMove) {
	c.txn.BookmarkMoved = c.txn.BookmarkMoved || len(marks) > 0
}

func (c *course) keyVars(o pushkey) hook.Vars {
	vars := hook.Vars(nil)
	if !c.lone {
		vars = c.txn.Vars()
	}
	return vars.Pushkey(o.namespace, o.key, o.old, o.new)
}

// hasTransaction tells whether stock hg opens one: for a lone pushkey only if
// its namespace says so.
func (c *course) hasTransaction(d *decision) bool {
	k := c.push.lonePushkey()
	return k == nil || k.namespace == "bookmarks" || d.did[0].changed
}

// end goes along the points at which a transaction ends, or has ended.
func (c *course) end(d *decision, bookmark, phase, all hook.Point, run func(hook.Point, hook.Vars) error) error {
	vars := c.txn.Vars()
	if c.conf.Runner.Has(bookmark) {
		for _, m := range d.allMarks() {
			if err := run(bookmark, vars.Bookmark(m.Name, m.Old, m.New)); err != nil {
				return err
			}
		}
	}
	if c.conf.Runner.Has(phase) {
		for _, t := range d.trace {
			v := vars.NewPhase(t.node, t.to)
			if t.old {
				v = vars.Phase(t.node, t.from, t.to)
			}
			if err := run(phase, v); err != nil {
				return err
			}
		}
	}
	return run(all, vars)
}

// allMarks returns the bookmarks that a push sets, sorted by name, each with
// where it stood before the push and where it is at the end.
func (d *decision) allMarks() []journal.BookmarkMove {
	moves := make(map[string]journal.BookmarkMove)
	for _, o := range d.did {
		for _, m := range o.marks {
			if first, ok := moves[m.Name]; ok {
				m.Old = first.Old
			}
			moves[m.Name] = m
		}
	}
	return slices.SortedFunc(maps.Values(moves), func(a, b journal.BookmarkMove) int { return cmp.Compare(a.Name, b.Name) })
}

// changesets iterates over new changesets of a push, as staged.
func (p *Pipeline) changesets(r *readyPush, fresh []int) iter.Seq2[hook.Changeset, error] {
	return func(yield func(hook.Changeset, error) bool) {
		f, err := r.dir.OpenSegment()
		if err != nil {
			yield(hook.Changeset{}, err)
			return
		}
		defer f.Close() // read only
		for _, i := range fresh {
			c, err := p.stagedChangeset(f, r.staged.changelog[i])
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// stagedChangeset reads a changeset, which is staged as a full text.
func (p *Pipeline) stagedChangeset(segment io.ReaderAt, st revlog.Staged) (hook.Changeset, error) {
	stored := make([]byte, st.Length)
	if _, err := segment.ReadAt(stored, st.Offset); err != nil {
		return hook.Changeset{}, err
	}
	text, err := chunk.Decode(nil, stored, p.limits.MaxTextBytes)
	if err != nil {
		return hook.Changeset{}, err
	}
	c, err := store.ParseChangeset(text)
	out := hook.Changeset{Node: st.Node, User: string(c.User), Branch: c.Branch()}
	for _, f := range c.Files() {
		out.Files = append(out.Files, string(f))
	}
	return out, err
}
