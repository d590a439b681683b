package refs

import "slices"

// A plan distributes a publication over transactions. Its first one decides.
type plan struct {
	p        *publication
	first    txn
	sessions []*session        // compared by first, in order
	checked  []*entry          // leased branches compared by first, in order
	fit      []*entry          // branches written by first
	entries  map[string]*entry // all branches
	later    []*entry          // branches that follow
	outcomes []op              // outcomes that follow
	bytes    int               // of first
}

// An entry is what a publication does with one branch.
type entry struct {
	branch string
	lease  *Lease // nil if the branch is not leased
	hold   *hold  // nil if the branch is not leased
	change *HeadChange
	keep   bool // the lock stays, for the next waiter in this process
	done   bool
}

// makePlan puts in the first transaction, as far as it has room: the tip, the
// witness, outcomes (a retry must find the answer if the tip is there), leased
// branches, other branches.
//
// What doesn't fit is not compared. That is sound: what the pushes were
// checked against is a function of the tip, which is compared, and the
// sessions' keys prove that locks not released are held.
func (p *publication) makePlan() plan {
	pl := plan{p: p, entries: p.makeEntries()}
	pl.start()
	for _, o := range p.Outcomes {
		pl.addOutcome(o)
	}
	for _, e := range pl.sorted() {
		if !pl.addEntry(e) {
			pl.later = append(pl.later, e)
		}
	}
	return pl
}

func (p *publication) makeEntries() map[string]*entry {
	entries := map[string]*entry{}
	for _, l := range p.Leases {
		for _, h := range l.holds {
			keep := p.c.mayHand(slotKey{p.Repo, h.branch}, h)
			entries[h.branch] = &entry{branch: h.branch, lease: l, hold: h, keep: keep}
		}
	}
	for i, h := range p.Heads {
		if entries[h.Branch] == nil {
			entries[h.Branch] = &entry{branch: h.Branch}
		}
		entries[h.Branch].change = &p.Heads[i]
	}
	return entries
}

// sorted returns the entries in the order of Publication: leased ones first.
func (pl *plan) sorted() []*entry {
	var out []*entry
	for _, l := range pl.p.Leases {
		for _, b := range l.branches {
			out = append(out, pl.entries[b])
		}
	}
	for _, h := range pl.p.Heads {
		if e := pl.entries[h.Branch]; e.lease == nil {
			out = append(out, e)
		}
	}
	return out
}

// start compares and puts the tip and the witness, and compares the sessions.
func (pl *plan) start() {
	p, k := pl.p, pl.p.c.keys
	tip, wit := k.tip(p.Repo), k.witness(p.Repo, p.c.id)
	old := cond{key: tip}
	if p.Old.Seq != 0 {
		old.value = p.Old.appendTo(nil)
	}
	pl.add(&pl.first, []cond{old, {key: wit, modRev: p.st.witness.rev}}, []op{
		{kind: opPut, key: tip, value: p.New.appendTo(nil)},
		{kind: opPut, key: wit, value: witness(witnessPublished, p.New), lease: p.bucket},
	})
	pl.first.name = "publish"
	for _, l := range p.Leases {
		for _, h := range l.holds {
			if !slices.Contains(pl.sessions, h.sess) {
				pl.sessions = append(pl.sessions, h.sess)
				pl.add(&pl.first, []cond{{key: k.session(h.sess.token), modRev: h.sess.keyRev}}, nil)
			}
		}
	}
}

// add appends to t what fits with the limits, or nothing. The keys compared
// are read if a comparison fails.
func (pl *plan) add(t *txn, conds []cond, ops []op) bool {
	most, size := pl.p.c.o.MaxTxnOps, 0
	for _, c := range conds {
		size += 2*len(c.key) + len(c.value) + 32
	}
	for _, o := range ops {
		size += o.size()
	}
	if len(t.conds)+len(conds) > most || len(t.then)+len(ops) > most || pl.bytes+size > pl.p.c.o.MaxTxnBytes {
		return false
	}
	pl.bytes += size
	t.conds = append(t.conds, conds...)
	t.then = append(t.then, ops...)
	for _, c := range conds {
		t.els = append(t.els, op{kind: opGet, key: c.key})
	}
	return true
}

func (pl *plan) addOutcome(o Outcome) {
	put := op{kind: opPut, key: pl.p.c.keys.outcome(pl.p.Repo, o.Key), value: o.Value, lease: pl.p.bucket}
	if len(pl.outcomes) > 0 || !pl.add(&pl.first, nil, []op{put}) {
		pl.outcomes = append(pl.outcomes, put)
	}
}

func (pl *plan) addEntry(e *entry) bool {
	if !pl.add(&pl.first, pl.conds(e), pl.ops(e)) {
		return false
	}
	if e.lease != nil {
		pl.checked = append(pl.checked, e)
	}
	pl.fit = append(pl.fit, e)
	return true
}

// conds returns the proof that a leased branch is still ours and unchanged.
func (pl *plan) conds(e *entry) []cond {
	if e.lease == nil {
		return nil
	}
	k, repo := pl.p.c.keys, pl.p.Repo
	return []cond{
		{key: k.lock(repo, e.branch), modRev: e.hold.rev},
		{key: k.head(repo, e.branch), modRev: e.hold.head.modRev},
	}
}

func (pl *plan) ops(e *entry) []op {
	var ops []op
	k, repo := pl.p.c.keys, pl.p.Repo
	switch {
	case e.change == nil:
	case e.change.Value == nil:
		ops = append(ops, op{kind: opDel, key: k.head(repo, e.branch)})
	default:
		ops = append(ops, op{kind: opPut, key: k.head(repo, e.branch), value: e.change.Value})
	}
	if e.hold != nil && !e.keep {
		ops = append(ops, op{kind: opDel, key: k.lock(repo, e.branch)})
	}
	return ops
}

// done takes note that entries were written at revision rev.
func (pl *plan) done(entries []*entry, rev int64) {
	for _, e := range entries {
		e.done = true
		if e.hold == nil || e.change == nil {
			continue
		}
		e.lease.mu.Lock()
		e.hold.head = item{e.change.Value, rev}
		if e.change.Value == nil {
			e.hold.head = item{}
		}
		e.lease.mu.Unlock()
	}
}

// A followUp is a transaction after the first one.
type followUp struct {
	txn
	entries []*entry
}

// followUps returns the transactions that follow the first one, done at
// revision rev. They are void as soon as this Client publishes again, as its
// witness tells. A leased branch is guarded by its lock, which stays until
// then; another one by the tip.
func (pl *plan) followUps(rev int64) []followUp {
	p, k := pl.p, pl.p.c.keys
	mine := cond{key: k.witness(p.Repo, p.c.id), modRev: rev}
	tip := cond{key: k.tip(p.Repo), value: p.New.appendTo(nil)}
	var out []followUp
	open := func(conds ...cond) {
		pl.bytes = 0
		out = append(out, followUp{txn: txn{name: "follow"}})
		pl.add(&out[len(out)-1].txn, conds, nil)
	}
	put := func(e *entry, guards, conds []cond, ops []op) {
		if len(out) == 0 || !pl.add(&out[len(out)-1].txn, conds, ops) {
			open(guards...)
			pl.add(&out[len(out)-1].txn, conds, ops)
		}
		if e != nil {
			out[len(out)-1].entries = append(out[len(out)-1].entries, e)
		}
	}
	for _, o := range pl.outcomes {
		put(nil, []cond{mine}, nil, []op{o})
	}
	leased := func(e *entry) bool { return e.lease != nil }
	for _, e := range pl.later {
		if leased(e) {
			put(e, []cond{mine}, pl.conds(e), pl.ops(e))
		}
	}
	if i := slices.IndexFunc(pl.later, func(e *entry) bool { return !leased(e) }); i >= 0 {
		open(mine, tip)
		for _, e := range pl.later[i:] {
			put(e, []cond{mine, tip}, nil, pl.ops(e))
		}
	}
	return out
}
