package ingest

import (
	"strconv"

	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

func (o addMarkers) decide(p *pending, d *decision) error {
	if !d.policy.Markers && !o.mandatory {
		return nil
	}
	n, err := d.addMarkers(p, o.markers)
	if err != nil {
		return err
	}
	d.replyParts = append(d.replyParts, ReplyPart{Type: "reply:obsmarkers", Mandatory: true, Params: []Param{
		{"in-reply-to", o.partID}, {"new", strconv.Itoa(n)},
	}})
	return nil
}

// addMarkers adds those of markers that are not there yet, and returns how
// many that are.
func (d *decision) addMarkers(p *pending, markers []obsmarker.Marker) (int, error) {
	if !d.policy.Markers {
		return 0, hg.Abortf("creating obsolete markers is not enabled on this repo")
	}
	for i := range markers {
		if err := markers[i].Check(); err != nil {
			d.wrote = true // hg finds it out after that
			return 0, err
		}
	}
	fresh, err := p.addMarkers(markers)
	d.wrote = d.wrote || len(fresh) > 0
	d.markers = append(d.markers, fresh...)
	return len(fresh), err
}

// obsoleted counts the changesets from before the push that its markers made
// obsolete.
func (d *decision) obsoleted(p *pending) int {
	mine := make(map[hg.Node]int)
	for i := range d.markers {
		if d.markers[i].Long == nil {
			mine[d.markers[i].Prec]++
		}
	}
	count := 0
	for n, markers := range mine {
		if r, ok := p.Rev(n); ok && r != hg.NullRev && int(r) < d.first && p.Phase(r) != hg.Public && len(p.obs.Replacing(n)) == markers {
			count++
		}
	}
	return count
}
