package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"vcsd/hg"
	"vcsd/ingest"
	"vcsd/internal/vfs"
	"vcsd/journal"
	"vcsd/refs"
	"vcsd/revlog"
)

// checkJournal checks the chain of records, from the published tip to the
// oldest that is kept, and compares with the store what is linked.
func (v *verifier) checkJournal() error {
	there, err := vfs.Exists(v.fs, ingest.JournalDir)
	if err != nil || !there {
		return err
	}
	c := &chain{v: v}
	if c.journal, err = journal.Open(v.fs, ingest.JournalDir, journal.Options{}); err != nil {
		return err
	}
	if c.linked, c.applied, err = ingest.ReadLinked(v.fs, v.o.BootID); err != nil {
		v.reportFile("vcsd/applied", remedyRestore, "%v", reasonOf(err))
		return nil
	}
	tip, err := c.tip()
	if err != nil {
		return err
	}
	if err := c.walk(tip); err != nil {
		return err
	}
	return v.checkHeadKeys(c)
}

// A chain is the records of a journal, followed back by their digests.
type chain struct {
	v               *verifier
	journal         *journal.Journal
	linked, applied journal.ID

	published refs.Tip // zero: not known, or none
	oldest    uint64   // record that was met
	adopted   uint64   // the last record that adopts a local change; 0 if none was met
	foreign   bool     // the store was changed since the linked record
}

func idOf(t refs.Tip) journal.ID { return journal.ID{Seq: t.Seq, Digest: t.Digest} }

// tip returns where the chain ends: what is published, or if nobody tells that,
// linked.
func (c *chain) tip() (journal.ID, error) {
	v := c.v
	if v.o.Refs == nil {
		return c.linked, nil
	}
	st, err := v.o.Refs.State(v.ctx, v.o.RepoID)
	if err != nil {
		v.note("the coordination service does not answer: %v", err)
		return c.linked, v.ctx.Err()
	}
	c.published = st.Tip
	switch {
	case st.Tip.Seq == 0 && c.linked.Seq > 0:
		v.reportFile(ingest.JournalDir, remedyRefs, "record %d is linked, and the coordination service has no tip: it was lost, or is another one than before", c.linked.Seq)
	case st.Tip.Seq < c.linked.Seq:
		v.reportFile(ingest.JournalDir, remedyRefs, "record %d is linked, and the coordination service has record %d as the tip: it lags behind, or is another one than before", c.linked.Seq, st.Tip.Seq)
	default:
		return idOf(st.Tip), nil
	}
	c.published = refs.Tip{}
	return c.linked, nil
}

// walk follows the chain back.
func (c *chain) walk(tip journal.ID) error {
	v := c.v
	for id := tip; id.Seq > 0; {
		if err := v.step("records", int(tip.Seq-id.Seq), int(tip.Seq)); err != nil {
			return err
		}
		if id.Seq == c.linked.Seq && id != c.linked {
			v.reportFile(ingest.JournalDir, remedyRefs, "record %v is linked, and it is not in the history of the tip %v: the coordination service is another one than before", c.linked, tip)
			return nil
		}
		rec, err := c.journal.Get(id.Seq, id.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return c.ends(id)
		}
		if err != nil {
			v.reportFile(path.Join(ingest.JournalDir, id.String()+".rec"), c.remedy(id), "%v", reasonOf(err))
			return nil
		}
		v.counts.Records++
		c.oldest = id.Seq
		if id == idOf(c.published) && (rec.ChangelogLen != c.published.ChangelogLen || rec.Tip != c.published.Node) {
			v.reportFile(ingest.JournalDir, remedyRefs, "the published tip has %d changesets up to %s, and its record %d up to %s",
				c.published.ChangelogLen, c.published.Node, rec.ChangelogLen, rec.Tip)
		}
		if err := c.compare(id, rec); err != nil {
			return err
		}
		if rec.Kind == journal.Adopt && c.adopted == 0 {
			c.adopted = id.Seq
		}
		id = journal.ID{Seq: id.Seq - 1, Digest: rec.Prev}
	}
	return nil
}

// reasonOf returns what is wrong with a file, without its name.
func reasonOf(err error) error {
	var corrupt *journal.CorruptError
	if errors.As(err, &corrupt) {
		return corrupt.Err
	}
	return err
}

// remedy tells what to do about a record that is damaged or gone.
func (c *chain) remedy(id journal.ID) string {
	if id.Seq > c.applied.Seq {
		return "copy it from another node or a backup: it is needed after a power cut; a clean end of the server makes the store durable without it"
	}
	return "none needed: the store is durable without it"
}

// ends tells whether a record may be missing, as those are that were pruned.
func (c *chain) ends(id journal.ID) error {
	v := c.v
	_, applied, err := ingest.ReadLinked(v.fs, v.o.BootID)
	if err != nil {
		return err
	}
	name := path.Join(ingest.JournalDir, id.String()+".rec")
	if id.Seq > applied.Seq {
		v.reportFile(name, c.remedy(id), "missing, though the store is durable up to record %d only", applied.Seq)
		return nil
	}
	all, err := c.journal.List()
	if err == nil && len(all) > 0 && all[0].Seq < id.Seq {
		v.reportFile(name, c.remedy(id), "missing, though record %d is there", all[0].Seq)
	}
	return err
}

// compare compares a record with the store, if it is linked.
func (c *chain) compare(id journal.ID, rec *journal.Record) error {
	v := c.v
	if id.Seq == c.linked.Seq {
		c.checkTip(rec)
	}
	unlinked := id.Seq > c.linked.Seq
	stale := c.foreign || c.adopted > 0 // a local hg may have rewritten anything
	name := path.Join(ingest.JournalDir, id.String()+".rec")
	return c.journal.Compare(rec, v.fs,
		func(path string) bool { return unlinked || stale || path == fncacheName },
		func(err error) {
			var conflict *journal.ConflictError
			if errors.As(err, &conflict) {
				v.reportFile(conflict.Path, remedyRestore, "from byte %d on it does not hold what record %d appended: %v", conflict.Offset, id.Seq, conflict.Err)
				return
			}
			v.reportFile(name, c.remedy(id), "%v", err)
		})
}

// checkTip tells whether the store has what the last linked record says.
func (c *chain) checkTip(rec *journal.Record) {
	v := c.v
	v.changelogNow(func(s *revlog.Snapshot) {
		last := hg.Rev(rec.ChangelogLen - 1)
		if s.Len() >= rec.ChangelogLen && s.Node(last) == rec.Tip {
			return
		}
		c.foreign = true
		has := fmt.Sprintf("there are %d", s.Len())
		if s.Len() >= rec.ChangelogLen {
			has = fmt.Sprintf("changeset %d is %s", last, s.Node(last))
		}
		v.report(Finding{
			File: v.changelog.index, Rev: hg.NullRev, Node: rec.Tip,
			Problem: fmt.Sprintf("record %d says that there are %d changesets up to this one; %s", rec.Seq, rec.ChangelogLen, has),
			Remedy:  "none if a local hg removed it: the next push adopts that; else restore the store from a backup, or copy it from another node",
		})
	})
}
