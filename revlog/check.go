package revlog

import (
	"errors"
	"fmt"

	"vcsd/hg"
)

// What Check finds beside what a reader meets.
var (
	errNotContiguous = errors.New("chunk does not begin where the one before ends")
	errDuplicate     = errors.New("node is that of another revision too")
	errPadding       = errors.New("bytes behind the node are not zero")
)

// padding is what follows the node in an entry.
type padding [entrySize - offNode - hg.NodeLen]byte

// Check reports what contradicts itself in the index, as far as no reader needs
// it or only one who reads that revision: chunks that don't follow one another,
// lengths and delta bases out of range, a node that occurs twice. The texts are
// left to Text. An error is a fault of the mapping.
func (s *Snapshot) Check(report func(*CorruptError)) error {
	return s.guard(func() error {
		end := int64(0)
		for rev := range s.n {
			e := s.entry(rev)
			bad := func(err error) { report(&CorruptError{s.log.indexName(), rev, err}) }
			if got := s.offset(rev); got != end {
				bad(fmt.Errorf("%w: %d, want %d", errNotContiguous, got, end))
			}
			if e.chunkLen() < 0 {
				bad(errChunkLen)
			}
			end = s.offset(rev) + int64(max(0, e.chunkLen()))
			if base := e.base(); base < hg.NullRev || base > rev {
				bad(fmt.Errorf("%w: %d", errBase, base))
			}
			if known, ok := s.Rev(*e.node()); !ok || known != rev {
				bad(fmt.Errorf("%w: %d", errDuplicate, known))
			}
			if padding(e[offNode+hg.NodeLen:]) != (padding{}) {
				bad(errPadding)
			}
		}
		return nil
	})
}
