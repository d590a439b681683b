package ingest

import (
	"vcsd/hg"
	"vcsd/wire/obsmarker"
)

// An op is one thing that a push asks for or depends on, in the order of the
// bundle's parts. decide runs it against a pending state: what is wrong with
// it is one of hg's errors.
type op interface {
	decide(p *pending, d *decision) error
}

// isCheck tells whether an op changes nothing.
func isCheck(o op) bool {
	switch o.(type) {
	case checkSentHeads, checkHeads, checkUpdatedHeads, checkBookmarks, checkPhases:
		return true
	}
	return false
}

// replyForm tells how the answer to a push is written.
type replyForm struct {
	bundle2 bool
	// caps are those of a replycaps part: without one a bundle2 push is
	// answered by errors only.
	caps map[string][]string
}

// checkHeads demands that the visible heads are just these
// (bundle2 "check:heads").
type checkHeads struct{ heads []hg.Node }

// checkUpdatedHeads demands that each of these is the head of some branch
// (bundle2 "check:updated-heads").
type checkUpdatedHeads struct{ heads []hg.Node }

// checkBookmarks demands that bookmarks stand where the client saw them
// (bundle2 "check:bookmarks").
type checkBookmarks struct{ marks []bookmark }

// checkPhases demands the phases that the client saw (bundle2 "check:phases").
type checkPhases struct{ nodes []phaseNode }

// addGroup publishes the changesets of one changegroup.
type addGroup struct {
	group  int    // index in staged.groups
	partID string // of the part to reply to; empty for HG10
}

// movePhases moves changesets and their ancestors to lower phases
// (bundle2 "phase-heads").
type movePhases struct{ nodes []phaseNode }

// setBookmarks moves bookmarks without asking where they were
// (bundle2 "bookmarks").
type setBookmarks struct {
	marks  []bookmark
	partID string // of the part to reply to
}

// addMarkers adds obsolescence markers (bundle2 "obsmarkers").
type addMarkers struct {
	markers   []obsmarker.Marker
	partID    string
	mandatory bool
}

// pushkey is a compare-and-set on one key (bundle2 "pushkey", command
// "pushkey").
type pushkey struct {
	namespace, key, old, new string
	partID                   string
	mandatory                bool
}

// A bookmark is where one stands or is to stand; absent if it doesn't exist.
type bookmark struct {
	name string
	node hg.Node
}

// absent stands for the place of a bookmark that doesn't exist, as in bundle2:
// one may stand at the null node.
var absent = hg.WorkingNode

type phaseNode struct {
	phase hg.Phase
	node  hg.Node
}

// checkSentHeads compares the heads that came beside the bundle, as the
// "heads" argument of unbundle, with the visible ones.
type checkSentHeads struct{ check func(heads []hg.Node) error }
