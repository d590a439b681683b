package ingest

import (
	"fmt"
	"slices"

	"vcsd/hg"
	"vcsd/store"
)

// sayTotal writes what hg writes when a transaction is closed. before is what
// was unstable before the push.
func (d *decision) sayTotal(p *pending, before store.Instabilities) {
	c := &d.total
	if c.changesets+c.changes+c.files > 0 {
		fmt.Fprintf(&d.output, "added %d changesets with %d changes to %d files", c.changesets, c.changes, c.files)
		if c.heads != 0 {
			fmt.Fprintf(&d.output, " (%+d heads)", c.heads)
		}
		d.output.WriteByte('\n')
	}
	if n := len(d.markers); n > 0 {
		fmt.Fprintf(&d.output, "%d new obsolescence markers\n", n)
	}
	if n := d.obsoleted(p); n > 0 {
		fmt.Fprintf(&d.output, "obsoleted %d changesets\n", n)
	}
	if d.changes() {
		d.sayUnstable(before, p.instabilities(d.policy))
	}
	if d.push.reply.bundle2 {
		d.replyOutput()
	}
}

func (d *decision) sayUnstable(before, after store.Instabilities) {
	for _, u := range []struct {
		what string
		more int
	}{
		{"orphan", after.Orphans - before.Orphans},
		{"phase-divergent", after.PhaseDivergent - before.PhaseDivergent},
		{"content-divergent", after.ContentDivergent - before.ContentDivergent},
	} {
		if u.more > 0 {
			fmt.Fprintf(&d.output, "%d new %s changesets\n", u.more, u.what)
		}
	}
}

// sayAbort keeps what was said, and adds what hg writes when it takes back what
// it has begun to add.
func (d *decision) sayAbort() {
	said := ""
	for _, p := range d.replyParts {
		if p.Type == outputPart {
			said += string(p.Payload)
		}
	}
	said += d.output.String()
	if d.wrote {
		said += abortText + rollbackText
	}
	d.replyParts = nil
	d.output.Reset()
	d.output.WriteString(said)
}

// sayInReply sends what hooks said of the op that is being decided.
func (d *decision) sayInReply(partID string) {
	d.output.WriteString(d.push.hooked.before(d.at))
	if partID != "" {
		d.replyOutput(Param{"in-reply-to", partID})
	}
}

// outputPart is the type of the parts of a reply that the client shows.
const outputPart = "output"

// replyOutput sends what was said so far, if anything was, in reply to a part or
// to the whole.
func (d *decision) replyOutput(params ...Param) {
	if d.output.Len() == 0 {
		return
	}
	d.replyParts = append(d.replyParts, ReplyPart{Type: outputPart, Params: params, Payload: []byte(d.output.String())})
	d.output.Reset()
}

// instabilities counts what clients see that stands on obsolete changesets or
// competes with others.
func (p *pending) instabilities(policy Policy) store.Instabilities {
	if !policy.ReportInstabilities || !policy.Markers || p.obs.Len() == 0 {
		return store.Instabilities{}
	}
	live := slices.DeleteFunc(p.NonPublic(), func(r hg.Rev) bool { return p.obsolete(r) })
	return store.CountInstabilities(p, p, p.obs, live, p.obsolete, p.visible)
}
