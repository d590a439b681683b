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

// HeadKey is what a branch's head key tells.
type HeadKey struct {
	Seq  uint64 // of the record that wrote it
	hash string
}

// ParseHeadKey reads the value of a branch's head key.
func ParseHeadKey(b []byte) (HeadKey, error) {
	var v headsValue
	err := json.Unmarshal(b, &v)
	return HeadKey{v.Seq, v.Hash}, err
}

// Tells reports whether these, in order of rev, are the heads that the key tells.
func (k HeadKey) Tells(heads []hg.Node) bool { return k.hash == hashOf(heads) }

func hashOf(heads []hg.Node) string {
	h := sha1.New()
	for _, n := range heads {
		h.Write(n[:])
	}
	return hg.Node(h.Sum(nil)).String()
}

// encodeHeads returns the value of a branch's head key.
func encodeHeads(seq uint64, p *pending, revs []hg.Rev) []byte {
	nodes := nodesOf(p, revs)
	v := headsValue{Seq: seq, Count: len(revs), Hash: hashOf(nodes)}
	if len(revs) <= maxKeyHeads {
		v.Heads = nodes
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // no value of headsValue fails
	}
	return b
}
