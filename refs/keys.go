package refs

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"vcsd/hg"
)

// Keys, below Options.Prefix; doc/format/etcd-keys.md has the same picture.
//
//	s/<token>             a live session; the node's name
//	r/<repo>/tip          the tip
//	r/<repo>/h/<branch>   a branch's head key
//	r/<repo>/l/<branch>   a branch's lock; the holder's token
//	r/<repo>/o/<hex key>  an outcome
//	r/<repo>/w/<client>   a client's last publication
//
// The branch is the rest of the key, as it is: it may hold slashes.
type keys string // the prefix

func (k keys) session(token string) string { return string(k) + "s/" + token }
func (k keys) repo(r RepoID) string        { return string(k) + "r/" + string(r) + "/" }
func (k keys) tip(r RepoID) string         { return k.repo(r) + "tip" }
func (k keys) locks(r RepoID) string       { return k.repo(r) + "l/" }
func (k keys) lock(r RepoID, branch string) string {
	return k.locks(r) + branch
}

func (k keys) heads(r RepoID) string { return k.repo(r) + "h/" }
func (k keys) head(r RepoID, branch string) string {
	return k.heads(r) + branch
}

func (k keys) outcome(r RepoID, key [32]byte) string {
	return k.repo(r) + "o/" + hex.EncodeToString(key[:])
}

func (k keys) witness(r RepoID, client string) string {
	return k.repo(r) + "w/" + client
}

// checkRepo refuses an ID that would not be one level of a key.
func checkRepo(r RepoID) error {
	bad := func(c rune) bool { return c <= ' ' || c == '/' || c == 0x7f }
	if r == "" || len(r) > 128 || strings.ContainsFunc(string(r), bad) {
		return fmt.Errorf("repository ID %q is not usable in a key", r)
	}
	return nil
}

// maxBranchBytes bounds a branch's name: three keys of it go in a transaction.
const maxBranchBytes = 8 << 10

func checkBranch(branch string) error {
	if len(branch) > maxBranchBytes {
		return fmt.Errorf("branch name of %d bytes, at most %d are possible", len(branch), maxBranchBytes)
	}
	return nil
}

// Value of the tip key, version 1, integers big-endian.
const (
	tipVersion      = 1
	tipOffSeq       = 1  // 8 bytes, after one of version
	tipOffDigest    = 9  // 32 bytes
	tipOffChangelog = 41 // 8 bytes: revisions
	tipOffNode      = 49 // 20 bytes
	tipSize         = 69
)

var _ [tipSize]byte = [tipOffNode + hg.NodeLen]byte{}

// appendTo appends the value of the tip key to b.
func (t Tip) appendTo(b []byte) []byte {
	b = append(b, tipVersion)
	b = binary.BigEndian.AppendUint64(b, t.Seq)
	b = append(b, t.Digest[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.ChangelogLen))
	return append(b, t.Node[:]...)
}

// maxChangelogLen is more than a Rev can count.
const maxChangelogLen = 1 << 31

func parseTip(b []byte) (Tip, error) {
	if len(b) != tipSize || b[0] != tipVersion {
		return Tip{}, fmt.Errorf("tip key holds %d bytes %.8x, want %d of version %d", len(b), b, tipSize, tipVersion)
	}
	revs := binary.BigEndian.Uint64(b[tipOffChangelog:])
	t := Tip{
		Seq:          binary.BigEndian.Uint64(b[tipOffSeq:]),
		Digest:       [32]byte(b[tipOffDigest:]),
		ChangelogLen: int(revs),
		Node:         hg.Node(b[tipOffNode:]),
	}
	if t.Seq == 0 || revs > maxChangelogLen {
		return Tip{}, fmt.Errorf("tip key holds seq %d with %d changesets", t.Seq, revs)
	}
	return t, nil
}

// itemTip is parseTip for a key that may not exist.
func itemTip(it item) (Tip, bool, error) {
	if it.modRev == 0 {
		return Tip{}, false, nil
	}
	t, err := parseTip(it.value)
	return t, err == nil, err
}

// The witness key's value: what happened, then the digest of the commit
// record concerned.
const (
	witnessPublished = 'P'
	witnessFenced    = 'F'
)

func witness(what byte, t Tip) []byte { return append([]byte{what}, t.Digest[:]...) }
