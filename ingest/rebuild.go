package ingest

import (
	"fmt"

	"vcsd/hg"
	"vcsd/revlog"
	"vcsd/revlog/chunk"
	"vcsd/revlog/delta"
)

// text rebuilds the full text of a revision that a push staged for the log of
// snap. It is wanted only where a staged delta can't be used as it is.
func (n *numbering) text(id revlog.SegmentID, snap *revlog.Snapshot, node hg.Node) ([]byte, error) {
	byNode := n.stagedNodes(id, snap)
	var chain []revlog.Staged
	for {
		st, ok := byNode[node]
		if !ok {
			break
		}
		chain = append(chain, st)
		if st.Base == st.Node {
			break
		}
		node = st.Base
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s was not staged", node)
	}
	text, err := n.baseText(snap, chain[len(chain)-1])
	if err != nil {
		return nil, err
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if text, err = n.apply(id, text, chain[i]); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// stagedNodes returns what a push staged for the log of snap.
func (n *numbering) stagedNodes(id revlog.SegmentID, snap *revlog.Snapshot) map[hg.Node]revlog.Staged {
	st := n.pushes[id].staged
	revs := st.manifest
	for _, f := range st.files {
		if n.p.repo.FilelogRadix(f.path) == snap.Name() {
			revs = f.revs
		}
	}
	byNode := make(map[hg.Node]revlog.Staged, len(revs))
	for _, r := range revs {
		byNode[r.Node] = r
	}
	return byNode
}

// baseText returns what the oldest delta of a chain applies to.
func (n *numbering) baseText(snap *revlog.Snapshot, oldest revlog.Staged) ([]byte, error) {
	if oldest.Base == oldest.Node {
		return nil, nil
	}
	r, ok := snap.Rev(oldest.Base)
	if !ok {
		return nil, fmt.Errorf("delta base %s is gone", oldest.Base)
	}
	return snap.Text(r)
}

// apply applies the staged chunk of st to the text before it.
func (n *numbering) apply(id revlog.SegmentID, text []byte, st revlog.Staged) ([]byte, error) {
	stored, err := n.chunk(id, st.Offset, st.Length)
	if err != nil {
		return nil, err
	}
	data, err := chunk.Decode(nil, stored, n.p.limits.MaxTextBytes)
	if err != nil || st.Base == st.Node {
		return data, err
	}
	return delta.Apply(nil, text, data, n.p.limits.MaxTextBytes)
}
