package ingest

import (
	"crypto/sha1"
	"encoding/json"

	"vcsd/hg"
)

// maxKeyHeads is up to how many heads a branch's key names; of more it holds
// only the count and the hash.
const maxKeyHeads = 64

// headsValue is the value of a branch's head key.
type headsValue struct {
	Seq   uint64    `json:"seq"`
	Count int       `json:"count"`
	Hash  string    `json:"hash"` // SHA-1 of the heads, in order of rev
	Heads []hg.Node `json:"heads,omitempty"`
}

// encodeHeads returns the value of a branch's head key.
func encodeHeads(seq uint64, p *pending, revs []hg.Rev) []byte {
	v := headsValue{Seq: seq, Count: len(revs)}
	h := sha1.New()
	for _, r := range revs {
		n := p.Node(r)
		h.Write(n[:])
		if len(revs) <= maxKeyHeads {
			v.Heads = append(v.Heads, n)
		}
	}
	v.Hash = hg.Node(h.Sum(nil)).String()
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value of headsValue fails
	}
	return b
}
