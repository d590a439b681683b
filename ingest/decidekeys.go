package ingest

import (
	"fmt"
	"strconv"

	"vcsd/hg"
	"vcsd/store"
	"vcsd/wire/obsmarker"
)

func (o pushkey) decide(p *pending, d *decision) error {
	ok, err := false, error(nil)
	if !d.push.hooked.refused(d.at) {
		ok, err = o.apply(p, d)
	}
	if err != nil {
		return err
	}
	ret := "0"
	if ok {
		ret = "1"
	}
	d.result = int(ret[0] - '0')
	if d.did != nil {
		d.did[d.at].ok = ok
	}
	if o.partID != "" {
		d.replyParts = append(d.replyParts, ReplyPart{Type: "reply:pushkey", Mandatory: true, Params: []Param{
			{"in-reply-to", o.partID}, {"return", ret},
		}})
	}
	d.sayInReply(o.partID)
	if o.mandatory && !ok {
		return &hg.PushkeyFailed{
			Namespace: o.namespace, Key: o.key, Old: o.old, New: o.new, Ret: ret, PartID: o.partID,
		}
	}
	return nil
}

// apply compares and sets one key, and reports whether the key now has the
// new value.
func (o pushkey) apply(p *pending, d *decision) (bool, error) {
	switch o.namespace {
	case "bookmarks":
		return o.applyBookmark(p, d), nil
	case "phases":
		return o.applyPhase(p, d), nil
	case "obsolete":
		return o.applyMarkers(p, d)
	}
	return false, nil
}

func (o pushkey) applyBookmark(p *pending, d *decision) bool {
	if store.IsDivergent(o.key) || store.CheckBookmarkName(o.key) != nil {
		return false
	}
	have := ""
	if n := p.bookmark(o.key); n != absent {
		have = n.String()
	}
	if have != o.old && have != o.new {
		return false
	}
	if o.new == "" {
		d.moveBookmark(p, o.key, absent)
		return true
	}
	n, err := hg.ParseNode(o.new)
	if err != nil {
		return false
	}
	if r, ok := p.Rev(n); !ok || !p.sees(r) {
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
	r, known := p.Rev(n)
	from, err1 := strconv.Atoi(o.old)
	to, err2 := strconv.Atoi(o.new)
	if !known || r == hg.NullRev || !p.visible(r) || err1 != nil || err2 != nil || !inPhaseRange(from) || !inPhaseRange(to) {
		return false
	}
	switch have := int(p.Phase(r)); {
	case have == from && to < from:
		d.advance(p, []hg.Rev{r}, hg.Phase(to))
		if to == int(hg.Public) {
			d.notePublished(n)
		}
		return true
	case have == to:
		return true
	}
	return false
}

func inPhaseRange(n int) bool { return n >= 0 && n <= int(hg.Internal) && hg.Phase(n).Valid() }

func (o pushkey) applyMarkers(p *pending, d *decision) (bool, error) {
	switch {
	case !obsmarker.IsPushKey(o.key):
		fmt.Fprintf(&d.output, "unknown key: b'%s'", o.key)
		return false, nil
	case o.old != "":
		fmt.Fprintf(&d.output, "unexpected old value for b'%s'", o.key)
		return false, nil
	}
	markers, err := obsmarker.DecodePushKey(o.new)
	if err != nil {
		return false, err
	}
	_, err = d.addMarkers(p, markers)
	return err == nil, err
}
