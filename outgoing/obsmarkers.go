package outgoing

import (
	"slices"

	"vcsd/dag"
	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// findMarkers finds the markers that concern the heads asked for and their
// ancestors, whether or not the client has them, and the form to send them in.
func (b *bundleWriter) findMarkers() error {
	obs := b.view.ObsStore()
	if !b.args.Obsmarkers || obs.Len() == 0 {
		return nil
	}
	// What is not wanted is little, as a rule.
	unwanted := dag.SetOf(dag.Missing(b.view, withoutNull(b.heads), b.view.HeadRevs())...)
	b.markers = obs.Relevant(func(n hg.Node) bool {
		r, ok := b.view.Rev(n)
		return ok && r != hg.NullRev && !unwanted.Has(r)
	})
	if len(b.markers) == 0 {
		return nil
	}
	known := b.args.Caps["obsmarkers"]
	switch {
	case slices.Contains(known, "V1"):
		b.markerVersion = obsmarker.Version1
	case slices.Contains(known, "V0"):
		b.markerVersion = obsmarker.Version0
	default:
		return hg.Abortf("bundler does not support common obsmarker format")
	}
	return nil
}

// obsmarkers sends them.
func (b *bundleWriter) obsmarkers() error {
	payload := []byte{b.markerVersion}
	for i := range b.markers {
		next, err := obsmarker.Append(payload, b.markerVersion, &b.markers[i])
		switch {
		case err == nil:
			payload = next
		case b.markerVersion == obsmarker.Version1:
			return err
		}
		// What the old version can't express, such a client could not store.
	}
	_, err := b.out.WritePart("obsmarkers", true, payload)
	return err
}
